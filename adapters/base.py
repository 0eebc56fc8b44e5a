"""The protocol through which every peer is measured.

An adapter does exactly what a careful user of the library would do to store transitions and to get a batch of columns
back. If the library returns rows, stacking them is part of its cost. The library is imported by the constructor, not by
the module, so that a peer's name and contract are available even if its library cannot be imported.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapters import dict_observations, venvs
from adapters.contract import Contract, RowFields
from adapters.field import Field as Field

Array = NDArray[Any]
Columns = dict[str, Array]


class Step(NamedTuple):
    """One transition, as a training loop obtains it from `env.step`."""

    obs: Array
    act: Array | int
    rew: float
    next_obs: Array
    done: bool


@dataclass(frozen=True)
class Spec:
    """The rows that a buffer must store, and how it must sample them.

    A row is drawn with a probability proportional to (priority + eps)^alpha, where each peer has its own eps. Weights
    use beta (Schaul et al. 2015, equations 1 and 2). With `next_of`, next_obs is stored only once, as the following
    row's obs; with `stack_compress`, each frame of a stack (the last axis of obs) is stored only once. With either
    option, rows are added in order, one episode after another; an episode ends where `done` is true.
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
        """Whether rows have exactly the five fields of a `Step`. If not, steps are dicts with the keys of `fields`."""
        return tuple(self.fields) == Step._fields


class Unavailable(Exception):  # noqa: N818 (a state rather than an error)
    """The peer does not exist for this platform (no wheel, for instance). Its cells are skipped with this reason."""


class WrongAnswer(AssertionError):  # noqa: N818 (named after the verdict)
    """A peer returned something that was not stored, or drew rows with wrong probabilities. Such a peer is not timed.

    The message names the field (or "weights", "indexes", "priorities") and the error.
    """


class Peer(ABC):
    """What every peer states about itself, as class attributes."""

    name: ClassVar[str]
    distribution: ClassVar[str | None]  # on PyPI; None if the peer's code is part of this project
    #: one sentence that says which calls are used here and where they are documented
    usage: ClassVar[str]
    contract: ClassVar[Contract]

    #: the last Python version for which the pinned release can be installed; None: no known limit
    last_python: ClassVar[tuple[int, int] | None] = None
    #: the venv in which it is installed (`adapters.venvs`); None: the common one
    venv: ClassVar[str | None] = None

    @classmethod
    def version(cls) -> str:
        """Return the library's version, or "in this project".

        Raises `Unavailable` if there is no release for this platform, `NotInstalled` if there is one but it is not
        installed.
        """
        if cls.distribution is None:
            return "in this project"
        try:
            return venvs.version(cls.distribution, cls.venv)
        except venvs.NotInstalled:
            if cls.last_python is not None and sys.version_info[:2] > cls.last_python:
                raise Unavailable(
                    f"{cls.distribution} has wheels up to Python {'.'.join(map(str, cls.last_python))}, "
                    f"but this is {'.'.join(map(str, sys.version_info[:2]))}"
                ) from None
            raise


class Adapter(Peer):
    """One buffer of one peer. The constructor takes a `Spec` and imports the library."""

    fields: Mapping[str, Field]  # of the spec; set by the constructor

    #: how to start processes that share one buffer of this peer, and what a "forkserver" imports first
    start_method: ClassVar[str] = "fork"
    preload: ClassVar[tuple[str, ...]] = ()
    #: fields of integers that batches had as floats of the same values, and that `sample` converted
    converted: frozenset[str] = frozenset()

    @classmethod
    def make(cls, spec: Spec) -> Adapter:
        """Return the adapter. Raises the exceptions of `check`."""
        cls.check(spec)
        return cls(spec)

    @classmethod
    def check(cls, spec: Spec) -> None:
        """Raise `Unavailable` if the peer does not exist for this platform, `NotInstalled` if it is not installed, and
        NotImplementedError if it cannot do what `spec` asks for."""
        cls.version()
        if refusal := cls.refusal(spec):
            raise NotImplementedError(refusal)

    @classmethod
    def refusal(cls, spec: Spec) -> str | None:
        """Return why the peer cannot do what `spec` asks for; None if its contract does not rule it out."""
        if spec.prioritized and not cls.contract.priorities.value:
            return f"{cls.name} has no priorities"
        if (spec.next_of or spec.stack_compress) and not cls.contract.compression.value:
            return f"{cls.name} has no compression of next_obs or frames"
        if cls.contract.fields.value is RowFields.FIXED and not spec.is_plain:
            return f"{cls.name} stores {', '.join(Step._fields)}, and no other fields"
        if cls.contract.fields.value is RowFields.DICT_OBSERVATIONS:
            return dict_observations.refusal(cls.name, spec.fields)
        return None

    @abstractmethod
    def __init__(self, spec: Spec) -> None: ...

    @property
    def returned(self) -> Mapping[str, Field]:
        """Return the fields whose values batches must have as they were added, once there was a batch."""
        return self.fields

    # Adding rows, in the forms in which a training loop may provide them. The adapter contains the loops, in the
    # library's own idiom, so that the harness makes no call between two timed adds.

    @abstractmethod
    def add(self, steps: Sequence[Step]) -> None:
        """Store `steps`, with one library call per step."""

    def add_dicts(self, steps: Sequence[dict[str, Any]]) -> None:
        """Store `steps`, which are dicts with the keys of a `Step`, in the same order as in a `Step`.

        This default is for a library that does not accept the fields as keyword arguments: it passes the values of each
        dict to `add`. Rows with fields other than those of a `Step` are only added by this method, `add_columns` and
        `add_batch`.
        """
        # `add` only unpacks its steps; building a Step for each would add a cost that no user has.
        self.add([step.values() for step in steps])  # type: ignore[misc]

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        """Store `steps` with their raw priorities in a prioritized buffer, with one library call per step.

        This default is for a library that does not accept a priority with a step (`GivenPriority.NOT_POSSIBLE` in its
        contract): it ignores the priorities.
        """
        self.add(steps)

    @abstractmethod
    def add_batch(self, columns: Columns, priorities: Array | None = None) -> None:
        """Store all rows of `columns` ((rows, *shape) each) in as few calls as the library allows.

        `priorities` are raw (before eps and alpha), float64 (rows,). If the library does not accept them on add, the
        adapter sets them afterwards, as a user would have to.
        """

    def add_batches(self, batches: Sequence[Step]) -> None:
        """Store `batches` in order; each is a `Step` of columns with many rows."""
        for batch in batches:
            self.add_batch(batch._asdict())

    def add_columns(self, batches: Sequence[Columns]) -> None:
        """Store `batches` in order; each is a dict of columns, with any fields."""
        for batch in batches:
            self.add_batch(batch)

    def add_lists(self, batches: Sequence[Step]) -> None:
        """Store `batches` like `add_batches`, with each column as a nested list.

        This default converts the lists to arrays, for a library that does not accept lists or loses their dtype.
        """
        fields = self.fields
        for batch in batches:
            columns = zip(Step._fields, batch, strict=True)
            self.add_batch({name: np.array(values, fields[name].dtype) for name, values in columns})

    @abstractmethod
    def sample(self, batch_size: int) -> Columns:
        """Return a batch of columns, (batch_size, *shape) each; scalars may be (batch_size,) or (batch_size, 1).

        A prioritized buffer adds "weights" and "indexes" (an array, a list, or anything else that `update_priorities`
        accepts). With a prioritized buffer, the caller alternates `sample` and `update_priorities`, as a learner does,
        because some peers refuse a second sample before the update. A batch is only valid until the next call, because
        some peers reuse its memory. Sampling from an empty buffer does what the library does: an exception is passed
        on, and an empty result is returned as columns of 0 rows.
        """

    def update_priorities(self, indexes: Array, priorities: Array) -> None:
        """Set new raw priorities, (batch_size,) float64, above 0, for the rows of the last sample."""
        raise NotImplementedError(f"{self.name} has no priorities")

    # A learner's complete step. Override these if the library's authors would write them as one function.

    def learner_step(self, steps: Sequence[Step], batch_size: int, priorities: Array) -> Columns:
        """Add `steps` one by one to a prioritized buffer, sample a batch, set new `priorities` for it, and return it.

        The priorities are raw, (batch_size,) float64, above 0, and take effect with the next sample.
        """
        self.add(steps)
        batch = self.sample(batch_size)
        self.update_priorities(batch["indexes"], priorities)
        return batch

    def learner_step_uniform(self, steps: Sequence[Step], batch_size: int) -> Columns:
        """Add `steps` one by one to a uniform buffer, sample a batch and return it."""
        self.add(steps)
        return self.sample(batch_size)

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows that can be sampled now."""

    @property
    def waiting(self) -> int:
        """Return how many of the newest rows are still held back because the library accepts only a fixed number of
        rows per call."""
        return 0

    def serve(self) -> None:
        """Accept explorers' pending rows, so that their calls return even though the learner has stopped sampling."""

    def flush(self) -> None:
        """Wait until every row that this process added is stored."""

    def close(self) -> None:
        """Release processes, segments and files. Called once; the adapter is not used after that."""


@dataclass(frozen=True)
class PeerInfo:
    """What a record stores about a peer. `adapters.registry.describe` creates it from a peer's class."""

    name: str
    version: str | None
    usage: str
    features: dict[str, str] = field(default_factory=dict)  # `adapters.features.sentences`
    reason: str | None = None  # why it cannot be measured here
    facts: dict[str, Any] | None = None  # `adapters.features.facts`
