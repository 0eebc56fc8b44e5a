"""The protocol of buffers that draw sequences of consecutive steps, each in its library's own way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Self, get_type_hints

from adapters.base import Array, Columns, Field, Peer
from adapters.behaviours import (
    Behaviour,
    LastSteps,
    SequenceBounds,
    SequencePadding,
    SequencePriorities,
    SequenceStarts,
)


@dataclass(frozen=True)
class SequenceSpec:
    """The steps that a buffer must store, and the sequences that it must draw.

    `capacity` counts the steps of all streams. A sequence has `burn_in` + `size` steps of one stream, and may begin at
    any step (period 1). An episode ends where the field "done" is true.

    If `size` is 0, the buffer stores the same steps but draws no sequences; only this project's adapters make one.
    """

    capacity: int
    fields: Mapping[str, Field]
    size: int
    burn_in: int = 0
    streams: int = 1
    prioritized: bool = False
    alpha: float = 0.6
    beta: float = 0.4
    seed: int = 0

    @property
    def length(self) -> int:
        return self.burn_in + self.size


@dataclass(frozen=True, kw_only=True)
class SequenceContract:
    """What a peer's sequences are. The conformance suite compares this with what it observes."""

    bounds: SequenceBounds = SequenceBounds.ONE_EPISODE
    starts: SequenceStarts = SequenceStarts.EVEN
    padding: SequencePadding = SequencePadding.NONE
    last_steps: LastSteps = LastSteps.DRAWN
    prioritized_bounds: SequenceBounds = SequenceBounds.ONE_EPISODE
    prioritized: SequencePriorities = SequencePriorities.BY_PRIORITY
    #: whether the capacity is a number of sequences: that many of the newest can be drawn
    counts_sequences: bool = False
    #: where the library documents this
    source: str = "undocumented, only observed"

    #: check -> the behaviours that it can observe
    CHECKS: ClassVar[Mapping[str, type[Behaviour]]]

    @property
    def behaviours(self) -> dict[str, Behaviour]:
        """Return the stated behaviour of each check."""
        return {check: getattr(self, check) for check in self.CHECKS}


SequenceContract.CHECKS = {
    field.name: kind
    for field in fields(SequenceContract)
    if issubclass(kind := get_type_hints(SequenceContract)[field.name], Behaviour)
}


class SequenceAdapter(Peer):
    """One buffer of one peer. The constructor takes a `SequenceSpec` and imports the library."""

    sequences: ClassVar[SequenceContract]

    @classmethod
    def make(cls, spec: SequenceSpec) -> Self:
        """Return the adapter. Raises `Unavailable`, `NotInstalled` and NotImplementedError, as `Adapter.check` does."""
        cls.version()
        if spec.prioritized and not cls.contract.priorities.value:
            raise NotImplementedError(f"{cls.name} has no prioritized sequences")
        return cls(spec)

    @abstractmethod
    def __init__(self, spec: SequenceSpec) -> None: ...

    @abstractmethod
    def add(self, columns: Columns) -> None:
        """Store the next steps of all streams, (steps, streams, *shape) each, in as few calls as the library allows.

        New sequences have the library's own priority.
        """

    def prepared(self, columns: Columns) -> Columns:
        """Return steps, as for `add`, in the form that the library takes."""
        return columns

    def add_prepared(self, calls: Iterable[Columns]) -> None:
        """Add prepared steps, with one call of the library for each of `calls`."""
        for columns in calls:
            self.add(columns)

    @abstractmethod
    def sample(self, batch_size: int) -> Columns:
        """Return sequences as columns, (batch_size, burn_in + size, *shape) each.

        A peer that pads adds "mask", (batch_size, burn_in + size), which is false where a step is padded. A peer that
        joins episodes adds "gaps", of the same shape, true for what is between two episodes and no step. A prioritized
        buffer adds "weights", (batch_size,), and "indexes" (anything that `update_priorities` accepts). A batch is only
        valid until the next call.
        """

    @abstractmethod
    def update_priorities(self, indexes: Array, priorities: Array) -> None:
        """Set new raw priorities, (batch_size,) float64, above 0, for the sequences of the last sample."""

    def close(self) -> None:
        """Release what the buffer holds. Called once; the adapter is not used after that."""
