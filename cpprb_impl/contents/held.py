"""Which slots of a buffer hold a transition, oldest first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from cpprb_impl._native import Ring

NUMBERS = 1 << 16  # frame numbers, slots or leaves that are read or written at a time
CHANGED = "another thread or process changed the buffer while it was being saved"


def slots_between(buffer: Ring, first: int, end: int) -> np.ndarray:
    """Return the slots of a private buffer's transitions first, first + 1, ..., end - 1, counted from the oldest."""
    oldest = buffer.get_next_index() - buffer.get_stored_size()
    slots: np.ndarray = np.arange(oldest + first, oldest + end) % buffer.get_buffer_size()
    return slots


class HeldSlots:
    """The slots that hold a transition, oldest first. Slicing returns an int64 array.

    Attributes
    ----------
    numbers : int64 (n,), or None
        The numbers of a shared buffer's transitions, which may have gaps. Those of a private buffer have none, so its
        slots are computed slice by slice.
    """

    def __init__(self, buffer: Ring) -> None:
        self._buffer, self.numbers, self._rows = buffer, None, buffer.get_stored_size()
        if buffer.segment:
            numbers = buffer._get_rows_in(buffer._get_stored_slots())
            self.numbers = numbers[numbers >= 0]
            self.numbers.sort()
            self._rows = len(self.numbers)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, rows: slice) -> np.ndarray:
        if self.numbers is not None:
            slots: np.ndarray = self.numbers[rows] % self._buffer.get_buffer_size()
            return slots
        first, end, _ = rows.indices(self._rows)
        return slots_between(self._buffer, first, end)

    def pieces(self, step: int) -> Iterator[np.ndarray]:
        """Yield all slots, `step` at a time."""
        return (self[at : at + step] for at in range(0, self._rows, step))

    def check(self) -> None:
        """Raise RuntimeError if a shared buffer's slot does not hold the same transition any more."""
        if self.numbers is None:
            return
        for at in range(0, self._rows, NUMBERS):
            some = slice(at, at + NUMBERS)
            if not np.array_equal(self._buffer._get_rows_in(self[some]), self.numbers[some]):
                raise RuntimeError(CHANGED)


class Numbers(Protocol):
    """One or more numbers per row, such as its leaf, (priority + eps)^alpha. Slicing returns an array."""

    def __getitem__(self, rows: slice, /) -> np.ndarray: ...
