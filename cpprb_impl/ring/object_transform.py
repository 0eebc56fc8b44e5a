"""The transform of buffers with fields of Python objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cpprb_impl._native import PrioritizedRing
from cpprb_impl.layout.layout import Given
from cpprb_impl.ring.base import BufferBase
from cpprb_impl.ring.nstep import NstepWindow
from cpprb_impl.ring.objects import ObjectColumns
from cpprb_impl.ring.order import OrderOfObjects, harm_of
from cpprb_impl.ring.row_reader import Columns, RowReader
from cpprb_impl.ring.transform import Transform


class ObjectTransform(Transform):
    """Reads rows, forms n-step transitions, and replaces the numbers that the native ring stores with objects.

    Parameters
    ----------
    columns : ObjectColumns
        The objects of the rows in the ring.
    reader : RowReader
        Reads the arguments of `add`.
    window : NstepWindow, optional
        The pending steps of n-step transitions.
    order : OrderOfObjects
        Watches the order of the first rows.
    """

    def __init__(
        self, columns: ObjectColumns, reader: RowReader, window: NstepWindow | None, order: OrderOfObjects
    ) -> None:
        super().__init__()
        self.columns, self.reader, self.window, self.order = columns, reader, window, order

    @classmethod
    def of(cls, given: Given) -> ObjectTransform:
        """Return a new buffer's transform."""
        nstep, exponents = given.layout.nstep, given.layout.exponents
        window = None if nstep is None else NstepWindow(nstep, given.added, exponents)
        reader = RowReader(given.added, exponents) if window is None else window.reader
        order = OrderOfObjects(
            given.added, nstep, harm_of(nstep, given.next_of, given.layout.options["stack_compress"])
        )
        return cls(ObjectColumns(given.stored, given.layout.size), reader, window, order)

    def add(self, rows: Mapping[str, Any], buffer: BufferBase) -> int | None:
        """Implement `add`. Returns None if the steps complete no n-step transition."""
        columns = self.reader(rows)  # without a lock, since reading may run code that adds to this buffer
        self.order.look(columns)
        if self.window is None:
            return self._store(columns, buffer)
        return self.window.push(columns, buffer, self._store)

    def _store(self, rows: Columns, buffer: BufferBase) -> int:
        if isinstance(buffer, PrioritizedRing):
            given = rows["priorities"]
            rows["priorities"] = np.where(np.isnan(given), buffer.get_max_priority(), given)
        return self.columns.add(rows, buffer)

    def fill(self, batch: Columns) -> Columns:
        """Replace the numbers in `batch` with the objects."""
        return self.columns.fill(batch)

    def end_episodes(self, buffer: BufferBase) -> None:
        """Add the transitions formed by the pending steps to `buffer`, and restart all streams."""
        if self.window is not None:
            self.window.flush(buffer, self._store)
        self.order.forget()

    def clear(self, clear_ring: Callable[[], None]) -> None:
        """Clear the ring, release every object, and forget the streams."""
        self.columns.clear(clear_ring)
        if self.window is not None:
            self.window.clear()
        self.order.forget()
