"""What a buffer of one process holds, as plain arrays and numbers, and back again: for copies and for files."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from cpprb_impl._native import PrioritizedRing, Ring

Columns = dict[str, np.ndarray]


def held_slots(buffer: Ring) -> np.ndarray:
    """The slots that hold a transition, int64 (stored size,), the oldest one's first."""
    stored = buffer.get_stored_size()
    return (buffer.get_next_index() - stored + np.arange(stored)) % buffer.get_buffer_size()


def leaves_of(buffer: Ring, slots: np.ndarray) -> np.ndarray | None:
    """(priority + eps)^alpha in each of `slots`, float32 (len(slots),); None without priorities."""
    return buffer._get_leaves(slots) if isinstance(buffer, PrioritizedRing) else None


def position_of(buffer: Ring) -> dict[str, Any]:
    """Where the buffer stands, beside its transitions and their priorities: numbers only."""
    position = {
        "next_index": buffer.get_next_index(),
        "episode_len": buffer.get_current_episode_len(),
        "random": buffer._get_random(),
        "unseen": buffer._get_unseen(),
    }
    if isinstance(buffer, PrioritizedRing):
        position["max_priority"] = buffer.get_max_priority()
    return position


def restore(buffer: Ring, position: dict[str, Any], columns: Columns, rows: int, leaves: np.ndarray | None) -> None:
    """Make an empty buffer one that holds `rows` transitions, oldest first in `columns`, and stands at `position`.

    Everything must have been checked to fit: a call that fails here leaves half of it.
    """
    buffer._begin_at((position["next_index"] - rows) % buffer.get_buffer_size())
    if rows:
        buffer._add_rows(**columns)
    if leaves is not None:
        buffer._set_leaves(held_slots(buffer), leaves)
        buffer._set_max_priority(position["max_priority"])
    buffer._set_unseen(position["unseen"])
    buffer._set_episode_len(position["episode_len"])
    buffer._set_random(position["random"])


class Portable:
    """A buffer that can be copied, deep-copied and pickled: mixed in before the native ring.

    A copy holds the same transitions in the same slots with the same priorities, and draws the numbers that the
    original would draw next. From then on each goes its own way. `__init__` is not called for a copy: attributes
    are copied as any object's are, through `__getstate__` and `__setstate__` where a subclass has them. Those named
    in `_parts` belong to the buffer: every copy has its own.
    """

    _parts: tuple[str, ...] = ()

    def _make(self, capacity: int, fields: list, *, seed: int | None = None, **options: Any) -> None:
        """Make the native ring, and keep how."""
        super().__init__(capacity, fields, seed=seed, **options)
        self._recipe = (capacity, fields, options)

    def __reduce__(self) -> tuple:
        if self._recipe[2].get("mmap_prefix") is not None:
            raise TypeError("a buffer with mmap_prefix can't be copied: its data is in files; see save_transitions")
        head, slots = self._get_head(), held_slots(self)
        held = (position_of(self), self._held_columns(slots), len(slots), leaves_of(self, slots))
        parts = {name: copy.copy(getattr(self, name)) for name in self._parts if name in self.__dict__}
        if self._get_head() != head:
            raise RuntimeError("another thread changed the buffer while it was copied")
        return _revive, (type(self), self._recipe, held, parts), _without(self.__getstate__(), self._parts)

    def _held_columns(self, slots: np.ndarray) -> Columns:
        """What the native ring holds in `held_slots`."""
        return self._gather(slots)


def _without(state: Any, names: tuple[str, ...]) -> Any:
    """The state of an object without these attributes: a copy.copy would share them."""
    if isinstance(state, tuple):  # of a class with __slots__
        return _without(state[0], names), *state[1:]
    return {name: value for name, value in state.items() if name not in names} if isinstance(state, dict) else state


def _revive(kind: type[Portable], recipe: tuple, held: tuple, parts: dict[str, Any]) -> Portable:
    capacity, fields, options = recipe
    buffer = kind.__new__(kind)
    buffer._make(capacity, fields, **options)
    restore(buffer, *held)
    buffer.__dict__.update(parts)
    return buffer
