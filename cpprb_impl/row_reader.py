"""Reading `add`'s arguments without storing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cpprb_impl._native import Ring
from cpprb_impl.fields import NativeField


class RowReader:
    """Reads rows as a native ring does: the same checks, the same errors, each field in its own dtype.

    Parameters
    ----------
    fields : sequence of (name, dtype, shape)
        What `native_fields` gives.
    kind : type
        `Ring`, or `PrioritizedRing` to have `priorities` checked too.
    **options
        Of that ring.
    """

    def __init__(self, fields: Sequence[NativeField], kind: type[Ring] = Ring, **options: Any) -> None:
        self._recipe = (list(fields), kind, options)
        self._ring = self._make(1)

    def _make(self, rows: int) -> Ring:
        fields, kind, options = self._recipe
        return kind(rows, fields, **options)

    def __getstate__(self) -> tuple:
        return self._recipe

    def __setstate__(self, recipe: tuple) -> None:
        self._recipe = recipe
        self._ring = self._make(1)

    def empty(self) -> dict[str, np.ndarray]:
        """Each field's column (0, *shape)."""
        return self._ring.get_all_transitions()

    def __call__(self, rows: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Each field's column (count, *shape) as a fresh array; raises what `add` raises."""
        while True:
            # A value's __array__ may come back to this very reader: the ring is empty before and after each reading,
            # and what is read first is the innermost.
            ring = self._ring
            try:
                ring.add(**rows)
                count = ring.get_current_episode_len()
                if count <= ring.get_buffer_size():
                    return ring.get_all_transitions()
            finally:
                ring.clear()
                ring.on_episode_end()
            self._ring = self._make(count)
