"""What stands before a native ring in Python, whether it is shared or not: a method of cpprb's."""

from __future__ import annotations

from typing import Any

import numpy as np


class Face:
    """Mixed in before `Ring`."""

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
            raise IndexError(f"idx must be ints, or {capacity} bools, got {index.dtype} of shape {index.shape}")
        batch = self._gather(index)
        if index.ndim == 1:
            return batch
        return {name: column.reshape(*index.shape, *column.shape[1:]) for name, column in batch.items()}
