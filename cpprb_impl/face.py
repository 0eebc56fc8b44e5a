"""What stands before a native ring in Python, whether it is shared or not: the n-step window, and cpprb's own name."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpprb_impl.nstep import NstepWindow


class Face:
    """Mixed in before `Ring`."""

    _window: NstepWindow | None = None

    def _add_through(self, **rows: Any) -> int | None:
        """What `add` is with an n-step window."""
        return self._window.push(rows, self._add_read)

    def _add_read(self, **rows: np.ndarray) -> int:
        """Store rows that a `RowReader` has read."""
        return self._add_rows(**rows)

    def on_episode_end(self) -> None:
        """The next `add` begins an episode; n-step transitions that wait are completed with the steps there are."""
        if self._window is not None:
            self._window.flush(self._add_read)
        super().on_episode_end()

    def clear(self) -> None:
        """Forget every transition, those that wait for further steps included."""
        super().clear()
        if self._window is not None:
            self._window.clear()

    def is_Nstep(self) -> bool:  # noqa: N802 - cpprb's own name
        """Whether N-step transitions are stored."""
        return self._window is not None

    def _encode_sample(self, idx: Any) -> dict[str, np.ndarray]:
        """The transitions at `idx` as a dict of fresh arrays (*idx.shape, *shape).

        `idx` is what NumPy takes as an index array for a ring of `get_buffer_size()` transitions: ints, negative ones
        counted from the ring's end, of any shape, or a mask of bools; an int is a sequence of one. Raises IndexError
        where nothing is stored, and for anything else.
        """
        index = np.atleast_1d(np.asarray(idx))
        capacity = self.get_buffer_size()
        if index.dtype == bool and index.shape == (capacity,):
            index = np.flatnonzero(index)
        elif index.dtype.kind not in "iu" and index.size:
            raise IndexError(f"idx must be ints, or {capacity} bools, not {index.dtype} of shape {index.shape}")
        slots = index.astype(np.int64).ravel()
        batch = self._gather(np.where(slots < 0, slots + capacity, slots))
        if index.ndim == 1:
            return batch
        return {name: column.reshape(*index.shape, *column.shape[1:]) for name, column in batch.items()}


class PrioritizedFace(Face):
    """Mixed in before `PrioritizedRing`."""

    def _add_read(self, **rows: np.ndarray) -> int:
        given = rows["priorities"]
        rows["priorities"] = np.where(np.isnan(given), self.get_max_priority(), given)
        return super()._add_read(**rows)
