"""A peer's contract: what this project needs to know about its behaviour, stated once, as typed data.

It has three users: `adapters.checks` derives the right answers from it, the conformance suite compares it with what it
observes, and `adapters.features` generates the sentences of the report's feature table. No code parses the texts
(`detail`, `evidence`, `remarks`, `source`); they are for people.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Generic, TypeVar, get_type_hints

from adapters.behaviours import (
    BadPriority,
    BatchOverStored,
    Behaviour,
    Dtype,
    Empty,
    GivenPriority,
    ImportanceWeights,
    NewRowPriority,
    Prioritized,
    References,
    Replacement,
    ReturnedBatch,
    RingOrder,
    RoundTrip,
    Seed,
    Shape,
    StaleUpdate,
    Uniform,
)

Value = TypeVar("Value")


class RowFields(Enum):
    """The fields that a row may have."""

    FIXED = "the five fields of a Step"
    DICT_OBSERVATIONS = "the same, with observations that may be dicts of arrays"
    ANY = "any"


class Returns(Enum):
    """What the library's `sample` returns; the adapter stacks rows into columns."""

    COLUMNS = "columns"
    ROWS = "rows"


class Processes(Enum):
    """Which processes can use one buffer at the same time."""

    ONE = "no"
    ONE_LEARNER = "many explorers, one learner"
    ANY = "any"


@dataclass(frozen=True)
class Stated(Generic[Value]):
    """A fact, with a short detail for people and its evidence: where it is documented, or which test shows it."""

    value: Value
    detail: str = ""
    evidence: str = ""


def yes(detail: str = "", evidence: str = "") -> Stated[bool]:
    return Stated(True, detail, evidence)


def no(detail: str = "", evidence: str = "") -> Stated[bool]:
    return Stated(False, detail, evidence)


@dataclass(frozen=True)
class Release:
    """The pinned version of a library and its publication date on PyPI."""

    version: str
    date: datetime.date


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a peer does. The defaults are the most common behaviour.

    Behaviours that concern priorities are not checked for a peer without priorities.
    """

    # What it offers a user.
    batch_add: Stated[bool]  # many rows in one call
    fields: Stated[RowFields]
    priorities: Stated[bool]
    returns: Stated[Returns]
    n_step: Stated[bool]
    processes: Stated[Processes] = Stated(Processes.ONE)
    machines: Stated[bool] = Stated(False)  # usable from another machine
    disk: Stated[bool]  # can be saved, or kept in files
    compression: Stated[bool] = Stated(False)  # stores next_obs and the frames of a stack only once
    framework: str  # libraries that must be installed with it
    licence: str
    release: Release | None = None  # None: written in this project

    # What `adapters.checks` and the suites must take into account.
    #: added to a priority before it is raised to alpha
    eps: float = 0.0
    #: what priorities are clipped to, after eps is added
    largest: float = math.inf
    #: whether the library returns importance weights; if not, the adapter computes them from probabilities
    returns_weights: bool = True
    #: number of batches that are prefetched; an update of priorities does not affect these
    batches_ahead: int = 0
    #: whether whole episodes are overwritten, so that the number of stored rows is only close to the capacity
    whole_episodes: bool = False
    #: whether functions are compiled again for each capacity, which takes memory that is not part of the rows
    compiles: bool = False

    #: whether next_obs is not stored, but read from the next row
    next_of_rows: bool = False

    # What the conformance suite observes: one check per field.
    round_trip: RoundTrip = RoundTrip.EXACT
    dtype: Dtype = Dtype.KEPT
    shape: Shape = Shape.KEPT
    ring_order: RingOrder = RingOrder.OLDEST_FIRST
    uniform: Uniform = Uniform.EVEN
    prioritized: Prioritized = Prioritized.BY_PRIORITY
    new_row_priority: NewRowPriority = NewRowPriority.LARGEST
    given_priority: GivenPriority = GivenPriority.TAKEN
    weights: ImportanceWeights = ImportanceWeights.OVER_BUFFER
    replacement: Replacement = Replacement.WITH
    prioritized_replacement: Replacement = Replacement.WITH
    stale_update: StaleUpdate = StaleUpdate.CHANGES_NEW_ROW
    returned_batch: ReturnedBatch = ReturnedBatch.COPIES
    references: References = References.COPIES
    empty: Empty = Empty.REFUSED
    batch_over_stored: BatchOverStored = BatchOverStored.REPEATS_ROWS
    nan_priority: BadPriority = BadPriority.REFUSED
    negative_priority: BadPriority = BadPriority.REFUSED
    infinite_priority: BadPriority = BadPriority.REFUSED
    seed: Seed = Seed.OWN
    #: where the library documents these behaviours; undocumented ones were observed
    source: str = "undocumented, only observed"

    #: text added to the generated columns of the feature table: "weights", "duplicates", "copies_on_add"
    remarks: Mapping[str, str] = field(default_factory=dict)

    #: conformance check -> the behaviours that it can observe
    CHECKS: ClassVar[Mapping[str, type[Behaviour]]]

    @property
    def behaviours(self) -> dict[str, Behaviour]:
        """Return the stated behaviour of each conformance check."""
        return {check: getattr(self, check) for check in self.CHECKS}

    @property
    def draws_last_slot(self) -> bool:
        """Whether the row in the last occupied slot can be drawn by priority."""
        return self.prioritized is not Prioritized.NEVER_LAST_SLOT

    @property
    def withholds_sampled_rows(self) -> bool:
        """Whether a row sampled by priority cannot be sampled again before its priority is updated."""
        return self.prioritized_replacement is Replacement.WITHOUT


Contract.CHECKS = {
    name: kind
    for name, kind in get_type_hints(Contract).items()
    if isinstance(kind, type) and issubclass(kind, Behaviour)
}
