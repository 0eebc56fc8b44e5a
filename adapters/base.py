"""The one protocol that every peer is measured through.

An adapter does what an honest user of the peer would have to do to store transitions and to get a
batch of columns back: nothing more, nothing less. If the library returns rows, stacking them is
part of its cost. The library itself is imported in the adapter's constructor, never at the top of
its module, so that a peer that can't be imported is still known by name, features and reason.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from adapters import environments
from adapters.promises import Promises

Columns = dict[str, np.ndarray]


class Step(NamedTuple):
    """One transition, as a training loop has it in hand after `env.step`."""

    obs: np.ndarray
    act: np.ndarray | int
    rew: float
    next_obs: np.ndarray
    done: bool


@dataclass(frozen=True)
class Field:
    """What one key of a transition holds. A scalar has shape ()."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Spec:
    """What a buffer is asked to hold, and how it is asked to sample.

    priority -> probability is (priority + eps)^alpha where the peer has an eps, priority^alpha
    elsewhere; weights use beta (Schaul et al. 2015, equations 1 and 2).
    `next_of`: next_obs is stored once, as the obs of the row after it. `stack_compress`: so is each frame of a
    stack (obs' last axis). Rows are then added in the order of their episodes, which end where `done` says so.
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
        """The five fields of a `Step`, and no others. Otherwise steps are dicts, keyed like `fields`."""
        return tuple(self.fields) == Step._fields


@dataclass(frozen=True)
class Features:
    """What a peer can do: the columns of the report's feature table, in its users' words.

    Each may end in its evidence, in brackets: "yes, 3 steps [seen: tests/adapters/test_features.py]", or the page of
    the peer's documentation that says so. What a run has seen itself, the report adds.
    """

    batch_add: str  # "yes", "no", or what it does instead
    flexible_fields: str
    prioritized: str
    weights: str  # how importance weights are normalised, or "no"
    duplicates: str  # can one batch hold the same row twice?
    gives: str  # "columns" or "rows"
    copies_on_add: str  # "yes", or "no: keeps references to the caller's arrays"
    n_step: str
    processes: str
    framework: str  # what must be installed beside it
    licence: str
    compression: str = "no"  # next_obs, and the frames of a stack, stored once
    disk: str = ""  # can it be saved, or kept in files?
    machines: str = ""  # can it be used from another machine?
    last_release: str = ""  # "11.0.0, 2024-06-03": the version that is pinned, and when it was published


class Unavailable(Exception):  # noqa: N818 (a state of things rather than an error)
    """This platform can't have this peer (no wheel, say): a skipped row with a reason, no failure."""


class WrongAnswer(AssertionError):  # noqa: N818 (its name is the verdict)
    """A peer gave back something else than what was stored, or drew it wrongly: it gets no time.

    The message names the field (or "weights", "indexes", "priorities") and what was wrong with it.
    """


class Adapter(ABC):
    """One peer holding one buffer.

    Class attributes name it; the constructor takes a `Spec` and imports the library.
    """

    fields: Mapping[str, Field]  # of the spec; set by the constructor

    name: ClassVar[str]
    distribution: ClassVar[str | None]  # on PyPI; None when the peer's code stands in this project
    features: ClassVar[Features]
    #: one sentence on how it is used here and which page of its documentation says so
    usage: ClassVar[str]
    #: the last Python that the pinned version of the library can be installed on; None: no limit known
    last_python: ClassVar[tuple[int, int] | None] = None

    #: how processes start that use one buffer of this peer together; and what a "forkserver" imports first
    start_method: ClassVar[str] = "fork"
    preload: ClassVar[tuple[str, ...]] = ()

    # What `adapters.checks` must know of a peer's documented behaviour to tell right from wrong.
    #: added to a raw priority before alpha
    eps: ClassVar[float] = 0.0
    #: whether its functions are compiled anew for each capacity, which takes megabytes that are not the rows'
    compiles: ClassVar[bool] = False
    #: batches fetched ahead of `sample`: those still follow the priorities from before an update
    batches_ahead: ClassVar[int] = 0

    #: True where whole episodes are overwritten: not as many rows as the capacity are stored then, but about so many
    whole_episodes: ClassVar[bool] = False

    #: the environment it is installed in (`adapters.environments`); None: the one that everything else is in
    environment: ClassVar[str | None] = None
    #: whether rows may have any fields, or only those of a `Step`
    any_fields: ClassVar[bool] = False

    #: what it promises, for the conformance suite to see
    promises: ClassVar[Promises] = Promises()

    @classmethod
    def version(cls) -> str:
        """The library's version, or "in this project".

        Raises `Unavailable` where the platform can't have it and `NotInstalled` where it could but doesn't.
        """
        if cls.distribution is None:
            return "in this project"
        try:
            return environments.version(cls.distribution, cls.environment)
        except environments.NotInstalled:
            if cls.last_python is not None and sys.version_info[:2] > cls.last_python:
                raise Unavailable(
                    f"{cls.distribution} can't be installed on this Python: {'.'.join(map(str, cls.last_python))} "
                    "is the last one it has wheels for"
                ) from None
            raise

    @classmethod
    def make(cls, spec: Spec) -> Adapter:
        """The adapter. Raises `Unavailable` where the platform can't have the peer, and NotImplementedError
        where the peer can't do what `spec` asks for."""
        cls.version()
        if refusal := cls.refusal(spec):
            raise NotImplementedError(refusal)
        if not (spec.is_plain or cls.any_fields):
            raise NotImplementedError(f"{cls.name} stores {', '.join(Step._fields)}, and no other fields")
        return cls(spec)

    @classmethod
    def refusal(cls, spec: Spec) -> str | None:
        """Why the peer can't do what `spec` asks for, as far as its features say so; the fields are not looked at."""
        for asked, feature in (
            (spec.prioritized, "prioritized"),
            (spec.next_of or spec.stack_compress, "compression"),
        ):
            if asked and not getattr(cls.features, feature).startswith("yes"):
                return f"{cls.name} offers none of this ({feature})"
        return None

    @abstractmethod
    def __init__(self, spec: Spec) -> None: ...

    # Adding, in the forms that a training loop has its transitions in. The loops stand here, in the peer's own
    # idiom, so that no call of the harness is timed between two adds.

    @abstractmethod
    def add(self, steps: Sequence[Step]) -> None:
        """Store `steps`, one call of the library each."""

    def add_dicts(self, steps: Sequence[dict]) -> None:
        """The same, where each step is kept as a dict with the keys of `Step` in their order.

        Here for a library that has no keywords for them: the values are taken out of the dict. Rows whose fields are
        others (`any_fields`) come this way, by `add_columns` and by `add_batch` only.
        """
        self.add([step.values() for step in steps])

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        """Store `steps` in a prioritized buffer, one call each, with a raw priority each.

        Here for a library that takes no priority with a step: its plain add, and `features.prioritized` says so.
        """
        self.add(steps)

    @abstractmethod
    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        """Store all rows of `columns` ((rows, *shape) each) in as few calls as the library allows.

        `priorities` are raw (before eps and alpha), float64 (rows,); where the library takes none
        on add, the adapter sets them as its user would have to.
        """

    def add_batches(self, batches: Sequence[Step]) -> None:
        """Each of `batches` is many rows, a column in each place of the step: stored one after the other."""
        for batch in batches:
            self.add_batch(batch._asdict())

    def add_columns(self, batches: Sequence[Columns]) -> None:
        """The same where the fields are others than a step's (`any_fields`): each of `batches` is a dict of columns."""
        for batch in batches:
            self.add_batch(batch)

    def add_lists(self, batches: Sequence[Step]) -> None:
        """As `add_batches`, each column a nested list.

        Here for a library that takes no lists for columns, or loses their dtype: they are made arrays first.
        """
        fields = self.fields
        for batch in batches:
            columns = zip(Step._fields, batch, strict=True)
            self.add_batch({name: np.array(values, fields[name].dtype) for name, values in columns})

    @abstractmethod
    def sample(self, batch_size: int) -> Columns:
        """A batch of columns, (batch_size, *shape) each; scalars may be (batch_size,) or (batch_size, 1).

        A prioritized buffer adds "weights" and "indexes" (whatever `update_priorities` takes back, an
        array or a list). A prioritized caller alternates `sample` and `update_priorities`, as a learner
        does: some peers refuse a second sample before the update. A batch is good until the next call:
        some peers reuse its memory.
        """

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        """Give the rows of the last sample new raw priorities, (batch_size,) float64, above 0."""
        raise NotImplementedError(f"{self.name} has no priorities")

    # A learner's step, whole: overridden by a library whose authors would write these calls as one.

    def learner_step(self, steps: Sequence[Step], batch_size: int, priorities: np.ndarray) -> Columns:
        """Add `steps` one by one to a prioritized buffer, then return a sample whose rows have new `priorities`.

        The priorities are raw, (batch_size,) float64, above 0, and count from the next sample on.
        """
        self.add(steps)
        batch = self.sample(batch_size)
        self.update_priorities(batch["indexes"], priorities)
        return batch

    def learner_step_uniform(self, steps: Sequence[Step], batch_size: int) -> Columns:
        """Add `steps` one by one to a uniform buffer, then return a sample."""
        self.add(steps)
        return self.sample(batch_size)

    @abstractmethod
    def __len__(self) -> int:
        """Rows that can be sampled now."""

    @property
    def waiting(self) -> int:
        """Rows added last that the library has not been given yet, since a call takes a fixed number of them."""
        return 0

    def close(self) -> None:  # noqa: B027 (most peers have nothing to give back)
        """Give back processes, segments and files. Called once; the adapter is not used afterwards."""


@dataclass(frozen=True)
class PeerInfo:
    """What the record says of a peer; made from an adapter class by `adapters.registry.describe`."""

    name: str
    version: str | None
    usage: str
    features: dict[str, str] = field(default_factory=dict)
    reason: str | None = None  # why it can't be measured here
