"""Read `add`'s arguments without storing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cpprb_impl._native import PrioritizedRing, Ring
from cpprb_impl.layout.arrays import array_of
from cpprb_impl.layout.fields import NativeField, object_shapes, without_objects
from cpprb_impl.layout.layout import Layout
from cpprb_impl.processes.fork_safety import ForkSafe
from cpprb_impl.ring.objects import read_objects

Columns = dict[str, np.ndarray]


MOST_KEPT = 2**20  # bytes; a larger ring is released after the call instead of being reused


class RowReader(ForkSafe):
    """Read rows like a native ring: with the same checks and errors, and each field in its own dtype.

    Parameters
    ----------
    fields : sequence of (name, dtype, shape)
        As returned by `native_fields`; dtype object is accepted.
    prioritized : dict, optional
        Options of a `PrioritizedRing`. Rows may then have "priorities", and the result always has them: float64
        (count,), with NaN for a row without a priority.
    """

    def __init__(self, fields: Sequence[NativeField], prioritized: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._made_with = (list(fields), prioritized)
        self._names, self._objects = {name for name, _, _ in fields}, object_shapes(fields)
        self._kind = Ring if prioritized is None else PrioritizedRing
        self._fields, self._options = without_objects(fields), dict(prioritized or {})
        self._ring = self._make(1)

    def __reduce__(self) -> tuple:
        return type(self), self._made_with

    def _finish(self) -> None:
        self._ring = self._make(1)  # the old ring may hold rows

    def _make(self, rows: int) -> Ring:
        return self._kind(Layout(rows, self._fields, self._options, self._kind is PrioritizedRing))

    def empty(self) -> Columns:
        """Return every column, each with no rows."""
        columns = self._ring.get([])  # no rows, even if another thread is reading some
        columns.update({name: np.empty((0, *shape), object) for name, shape in self._objects.items()})
        return columns if self._kind is Ring else {**columns, "priorities": np.empty(0)}

    def __call__(self, rows: Mapping[str, Any]) -> Columns:
        """Return each field's column (count, *shape) as a new array. Raises the exceptions of `add`."""
        rows = dict(rows)
        if "env_ids" in rows and "env_ids" not in self._names:
            raise ValueError(
                "env_ids must not be given, since all rows of this buffer are from one environment: make one buffer "
                "per environment"
            )
        objects = {name: read_objects(name, rows[name], self._objects[name]) for name in self._objects if name in rows}
        # The ring also counts the rows of these columns, and reports a missing field.
        rows.update({name: np.zeros(len(column), np.int64) for name, column in objects.items()})
        given = rows.get("priorities") if self._kind is PrioritizedRing else None
        if given is not None:
            rows["priorities"] = given = np.array(array_of("priorities", given))
        columns = {**self._read(rows), **objects}
        if self._kind is PrioritizedRing:
            count = len(next(iter(columns.values())))
            columns["priorities"] = np.full(count, np.nan) if given is None else given.astype(np.float64).ravel()
        return columns

    def _read(self, rows: Mapping[str, Any]) -> Columns:
        with self._lock:
            ring = self._ring
            while True:
                # A value's __array__ may call this reader again. The ring is empty before and after each call, and
                # the innermost call finishes first.
                try:
                    ring.add(**rows)
                    count = ring.get_current_episode_len()
                    if count <= ring.get_buffer_size():
                        return ring.get_all_transitions()
                finally:
                    ring.clear()
                smaller, ring = ring, self._make(count)
                ring._warn_no_more_than(smaller)
                if ring.nbytes <= MOST_KEPT:
                    self._ring = ring
