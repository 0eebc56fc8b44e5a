"""Fields of Python objects: the native row holds an object's number, and a NumPy array holds the object."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cpprb_impl._native import Ring
from cpprb_impl.layout.fields import NativeField, object_shapes
from cpprb_impl.processes.fork_safety import ForkSafe


def read_objects(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return `value` as a new array of objects (rows, *shape).

    Lists, tuples and arrays are interpreted as in NumPy, so a list of two objects is two rows of one object each.
    Anything else is a single object. Raises ValueError naming the field.
    """
    if isinstance(value, (list, tuple, np.ndarray)):
        try:
            array = np.array(value, dtype=object)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    else:
        array = np.empty((), dtype=object)
        array[()] = value
    wanted = math.prod(shape)
    flat = array.ndim <= 1 or wanted == 1 or array.shape[1:] == (wanted,)
    if not flat and len(shape) == 1:  # the axes of such rows cannot be in a different order
        flat = array.size == wanted or len(array) * wanted == array.size
    if (not flat and array.shape[-len(shape) :] != shape) or array.size % wanted:
        raise ValueError(f"{name}: shape {array.shape} does not hold rows of shape {shape}")
    if array.size == 0:
        raise ValueError(f"{name}: no rows")
    return array.reshape(-1, *shape)


class ObjectColumns(ForkSafe):
    """The Python objects in a ring's rows.

    Rows are numbered in the order in which they are added, and no number is reused. This class holds the newest
    `capacity` objects of each field; the ring stores their numbers. An object is released when its row is overwritten
    or cleared.
    """

    def __init__(self, fields: Sequence[NativeField], capacity: int) -> None:
        super().__init__()
        self._capacity = capacity
        self._columns = {name: np.empty((capacity, *shape), object) for name, shape in object_shapes(fields).items()}
        self._numbers = np.full(capacity, -1, np.int64)
        self._next = 0

    @property
    def names(self) -> list[str]:
        """The fields that hold objects."""
        return list(self._columns)

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            columns = {name: column.copy() for name, column in self._columns.items()}
            return {**super().__getstate__(), "_columns": columns, "_numbers": self._numbers.copy()}

    def add(self, rows: dict[str, np.ndarray], ring: Ring) -> int:
        """Add `rows` to `ring` with numbers in place of objects, and store the objects; return the first row's index.

        If the ring raises an exception, nothing has changed. The rows are arrays already, so the call does not run any
        code of the objects. Overwritten objects are released only at the end, because their finalizers may run code
        that adds rows.
        """
        overwritten: list[np.ndarray] = []
        with self._lock:
            count = len(rows[next(iter(self._columns))])
            numbers = self._next + np.arange(count)
            first = self._add_then(
                ring,
                lambda: ring._add_rows(**{**rows, **dict.fromkeys(self._columns, numbers)}),
                lambda: overwritten.extend(self._keep(rows, numbers)),
            )
        overwritten.clear()
        return first

    def _keep(self, rows: dict[str, np.ndarray], numbers: np.ndarray) -> list[np.ndarray]:
        """Store the objects of `rows`; return the objects that they replace."""
        kept = numbers[-self._capacity :] % self._capacity
        overwritten = [column[kept] for column in self._columns.values()]
        for name, column in self._columns.items():
            column[kept] = rows[name][-self._capacity :]
        self._numbers[kept] = numbers[-self._capacity :]
        self._next = int(numbers[-1]) + 1
        return overwritten

    def fill(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Replace the numbers in `batch` with the objects.

        Raises RuntimeError if another thread has overwritten one of the rows since they were read from the ring.
        """
        with self._lock:
            for name, column in self._columns.items():
                numbers = batch[name].ravel()
                slots = numbers % self._capacity
                if (self._numbers[slots] != numbers).any():
                    raise RuntimeError(f"{name}: another thread overwrote a transition while it was being read")
                batch[name] = column[slots]
        return batch

    def numbers(self, rows: int) -> dict[str, np.ndarray]:
        """Return the numbers of the newest `rows` rows for each field, oldest first, as the ring stores them."""
        with self._lock:
            return dict.fromkeys(self._columns, self._next - rows + np.arange(rows))

    def clear(self, clear_ring: Callable[[], None]) -> None:
        """Clear the ring and release every object; no row can be added in between."""
        empty = {name: np.empty_like(column) for name, column in self._columns.items()}
        with self._lock:
            clear_ring()
            self._numbers.fill(-1)
            cleared, self._columns = self._columns, empty
        del cleared  # released last, as in `add`
