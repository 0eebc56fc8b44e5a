"""The one protocol that every peer is measured through.

An adapter does what an honest user of the library would have to do to store transitions and to get a batch of columns
back: nothing more, nothing less. If the library returns rows, stacking them is part of its cost. The constructor
imports the library, never the module, so that the name and contract of a peer that can't be imported are still known.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapters import environments
from adapters.contract import Contract, RowFields

Array = NDArray[Any]
Columns = dict[str, Array]


class Step(NamedTuple):
    """One transition, as a training loop has it after `env.step`."""

    obs: Array
    act: Array | int
    rew: float
    next_obs: Array
    done: bool


@dataclass(frozen=True)
class Field:
    """Shape and dtype of one key of a transition. A scalar has shape ()."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Spec:
    """The rows that a buffer must hold, and how it must sample.

    A row is drawn with a probability proportional to (priority + eps)^alpha, where eps is the peer's, and weights use
    beta (Schaul et al. 2015, equations 1 and 2). With `next_of`, next_obs is stored once, as the obs of the following
    row; with `stack_compress`, so is each frame of a stack (the last axis of obs). Rows are then added in the order of
    their episodes, which end where `done` is true.
    """

    capacity: int
    fields: Mapping[str, Field]
    prioritized: bool = False
    alpha: float = 0.6
    beta: float = 0.4
    seed: int = 0
    next_of: bool = False
    stack_compress: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether rows have exactly the five fields of a `Step`. Otherwise steps are dicts, keyed as `fields`."""
        return tuple(self.fields) == Step._fields


class Unavailable(Exception):  # noqa: N818 (a state rather than an error)
    """This platform can't have this peer (no wheel, for instance): its cells are skipped with this reason."""


class WrongAnswer(AssertionError):  # noqa: N818 (its name is the verdict)
    """A peer returned something that was not stored, or drew rows wrongly: it gets no time.

    The message names the field (or "weights", "indexes", "priorities") and what is wrong with it.
    """


class Adapter(ABC):
    """One buffer of one peer.

    Class attributes describe the peer. The constructor takes a `Spec` and imports the library.
    """

    fields: Mapping[str, Field]  # of the spec; set by the constructor

    name: ClassVar[str]
    distribution: ClassVar[str | None]  # on PyPI; None if the peer's code is part of this project
    #: one sentence on how it is used here and which page of its documentation says so
    usage: ClassVar[str]
    contract: ClassVar[Contract]

    #: the last Python that the pinned version of the library can be installed on; None: no limit known
    last_python: ClassVar[tuple[int, int] | None] = None
    #: the environment that it is installed in (`adapters.environments`); None: the common one
    environment: ClassVar[str | None] = None
    #: how processes start that share one buffer of this peer; and what a "forkserver" imports first
    start_method: ClassVar[str] = "fork"
    preload: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def version(cls) -> str:
        """The library's version, or "in this project".

        Raises `Unavailable` if the platform can't have it, and `NotInstalled` if it could but does not.
        """
        if cls.distribution is None:
            return "in this project"
        try:
            return environments.version(cls.distribution, cls.environment)
        except environments.NotInstalled:
            if cls.last_python is not None and sys.version_info[:2] > cls.last_python:
                raise Unavailable(
                    f"{cls.distribution} has wheels up to Python {'.'.join(map(str, cls.last_python))}, "
                    f"and this is {'.'.join(map(str, sys.version_info[:2]))}"
                ) from None
            raise

    @classmethod
    def make(cls, spec: Spec) -> Adapter:
        """The adapter. Raises `Unavailable` if the platform can't have the peer, and NotImplementedError if the peer
        can't do what `spec` asks for."""
        cls.version()
        if refusal := cls.refusal(spec):
            raise NotImplementedError(refusal)
        if not spec.is_plain and cls.contract.fields.value is RowFields.FIXED:
            raise NotImplementedError(f"{cls.name} stores {', '.join(Step._fields)}, and no other fields")
        return cls(spec)

    @classmethod
    def refusal(cls, spec: Spec) -> str | None:
        """Why the contract rules out what `spec` asks for, whatever the fields are; None if it does not."""
        if spec.prioritized and not cls.contract.priorities.value:
            return f"{cls.name} has no priorities"
        if (spec.next_of or spec.stack_compress) and not cls.contract.compression.value:
            return f"{cls.name} has no compression of next_obs or frames"
        return None

    @abstractmethod
    def __init__(self, spec: Spec) -> None: ...

    # Adding, in the forms in which a training loop may have its transitions. The loops are in the adapter, in the
    # library's own idiom, so that no call of the harness is timed between two adds.

    @abstractmethod
    def add(self, steps: Sequence[Step]) -> None:
        """Store `steps`, one call of the library each."""

    def add_dicts(self, steps: Sequence[dict[str, Any]]) -> None:
        """Store `steps`, each a dict with the keys of `Step` in their order.

        This default is for a library without keywords for the keys: it takes the values out of the dict. Rows with
        other fields than a `Step` are added by this method, `add_columns` and `add_batch` only.
        """
        # `add` only unpacks its steps, and making a Step of each would be a cost that no user has.
        self.add([step.values() for step in steps])  # type: ignore[misc]

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        """Store `steps` in a prioritized buffer, one call each, with a raw priority each.

        This default is for a library that takes no priority with a step (`GivenPriority.NOT_POSSIBLE` in its contract):
        it drops them.
        """
        self.add(steps)

    @abstractmethod
    def add_batch(self, columns: Columns, priorities: Array | None = None) -> None:
        """Store all rows of `columns` ((rows, *shape) each) in as few calls as the library allows.

        `priorities` are raw (before eps and alpha), float64 (rows,). If the library takes none on add, the adapter sets
        them as its user would have to.
        """

    def add_batches(self, batches: Sequence[Step]) -> None:
        """Store `batches` one after the other; each holds many rows, a column in each place of the step."""
        for batch in batches:
            self.add_batch(batch._asdict())

    def add_columns(self, batches: Sequence[Columns]) -> None:
        """Store `batches` one after the other; each is a dict of columns, which may have any fields."""
        for batch in batches:
            self.add_batch(batch)

    def add_lists(self, batches: Sequence[Step]) -> None:
        """Store `batches` as `add_batches` does; each column is a nested list.

        This default is for a library that takes no lists as columns, or loses their dtype: it makes arrays of them.
        """
        fields = self.fields
        for batch in batches:
            columns = zip(Step._fields, batch, strict=True)
            self.add_batch({name: np.array(values, fields[name].dtype) for name, values in columns})

    @abstractmethod
    def sample(self, batch_size: int) -> Columns:
        """Return a batch of columns, (batch_size, *shape) each; scalars may be (batch_size,) or (batch_size, 1).

        A prioritized buffer adds "weights" and "indexes" (anything that `update_priorities` takes, an array or a
        list). The caller of a prioritized buffer alternates `sample` and `update_priorities`, as a learner does: some
        peers refuse a second sample before the update. A batch is valid until the next call: some peers reuse its
        memory.
        """

    def update_priorities(self, indexes: Array, priorities: Array) -> None:
        """Set new raw priorities, (batch_size,) float64, above 0, for the rows of the last sample."""
        raise NotImplementedError(f"{self.name} has no priorities")

    # A whole step of a learner. Overridden for a library whose authors would write these calls as one.

    def learner_step(self, steps: Sequence[Step], batch_size: int, priorities: Array) -> Columns:
        """Add `steps` one by one to a prioritized buffer, and return a sample after setting new `priorities` for it.

        The priorities are raw, (batch_size,) float64, above 0, and take effect with the next sample.
        """
        self.add(steps)
        batch = self.sample(batch_size)
        self.update_priorities(batch["indexes"], priorities)
        return batch

    def learner_step_uniform(self, steps: Sequence[Step], batch_size: int) -> Columns:
        """Add `steps` one by one to a uniform buffer, and return a sample."""
        self.add(steps)
        return self.sample(batch_size)

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows that can be sampled now."""

    @property
    def waiting(self) -> int:
        """The number of newest rows not yet passed to the library, since its calls take a fixed number of rows."""
        return 0

    def close(self) -> None:  # noqa: B027 (most peers have nothing to release)
        """Release processes, segments and files. Called once; the adapter is not used afterwards."""


@dataclass(frozen=True)
class PeerInfo:
    """What a record stores of a peer. `adapters.registry.describe` makes it from an adapter class."""

    name: str
    version: str | None
    usage: str
    features: dict[str, str] = field(default_factory=dict)  # `adapters.features.sentences`
    reason: str | None = None  # why it can't be measured here
    facts: dict[str, Any] | None = None  # `adapters.features.facts`
