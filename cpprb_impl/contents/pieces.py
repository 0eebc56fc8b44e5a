"""A private buffer's contents in pieces, so that copying and pickling never hold them in memory twice.

A pickled buffer contains a `PickledRows`, whose `Piece` objects are pickled one after the other. On loading, a
`Filling` replaces the `PickledRows`: each pickled piece sets the state of the `Filling`, which adds the piece's rows to
a new buffer. A pickler keeps a reference to almost everything that it has written, and an unpickler to almost
everything that it has read. A piece is therefore a byte array that both sides empty after use. Protocols below 5 have
no such arrays; there, a piece is an integer, to which neither side keeps a reference.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cpprb_impl._native import PrioritizedRing, Ring
from cpprb_impl.contents.held import slots_between
from cpprb_impl.contents.state import (
    Columns,
    Frames,
    Kinds,
    add_columns,
    attributes_of,
    kinds_of,
    layout_of,
    position_of,
    rows_per_piece,
    set_position,
)
from cpprb_impl.layout.layout import Layout
from cpprb_impl.ring.base import BufferBase

LEAST = 64  # fewest rows per environment in a piece, whose first row stores the frames before it again
NUMBER = np.dtype(np.int64)


class Framed(NamedTuple):
    """The layout of a field's frames, which are stored once."""

    stack: int | None  # frames per value; None if a value is a single frame
    axis: int
    has_next: bool  # whether next_* also consists of these frames
    frame: tuple[int, ...]  # shape
    dtype: np.dtype
    frames: int  # total number of frames


def native_kinds(buffer: Ring) -> Kinds:
    """Return the dtype and shape of each column as the native ring stores it: Python objects as their numbers."""
    return {name: (NUMBER, (1,)) if d.hasobject else (d, shape) for name, (d, shape) in kinds_of(buffer).items()}


def framed_fields(buffer: Ring, kinds: Kinds) -> dict[str, Framed]:
    """Return the fields whose frames are stored once, without their next_*."""
    fields = {}
    for name, (dtype, shape) in kinds.items():
        found = buffer._get_frames(name)
        if found is not None:
            none, count, has_next, axis = found
            stack = shape[axis] if none.ndim == len(shape) else None
            fields[name] = Framed(stack, axis, has_next, none.shape[1:], dtype, count)
    return fields


class Rows:
    """The rows of a private buffer, read or added a few at a time as columns, oldest first.

    Rows that are not stored, but whose data are in the slots after the stored rows, follow as if they were stored.
    """

    def __init__(self, buffer: Ring, stored: int) -> None:
        self.buffer, self.kinds, self.stored = buffer, native_kinds(buffer), stored
        self._has_links = buffer._get_streams() is not None
        self._has_errors = buffer._get_errors(0, 0) is not None
        self._unstored = 0  # rows that were added but are not stored
        self.framed = framed_fields(buffer, self.kinds)
        self._plain = [name for name in self.kinds if name not in self.framed and not self._is_next(name)]

    def _is_next(self, name: str) -> bool:
        field = self.framed.get(name.removeprefix("next_"))
        return field is not None and field.has_next and name.startswith("next_")

    def ranges(self, written: int) -> Iterator[tuple[int, int]]:
        """Yield (first, end) for each piece of the stored rows, and of further rows up to `written`."""
        n_envs = self.buffer.n_envs
        step = max(rows_per_piece(self.kinds), LEAST * n_envs if self.framed else 1)
        step += -step % n_envs
        for begin, rows in ((0, self.stored), (self.stored, 0 if self.framed else written)):
            yield from ((first, min(first + step, rows)) for first in range(begin, rows, step))

    def between(self, first: int, end: int) -> Columns:
        """Return the columns of the rows first, first + 1, ..., end - 1."""
        slots = slots_between(self.buffer, first, end)
        columns: dict[str, np.ndarray | Frames] = {}
        for name in self._plain:
            view = self.buffer._view(name)
            assert view is not None
            columns[name] = view[slots]
        for name, field in self.framed.items():
            numbers = self.buffer._get_frame_numbers(name, first, end)
            given = [each for each in numbers if each is not None]
            ahead = np.arange(field.stack or 1)
            used = np.unique(np.concatenate([np.unique(each)[:, None] + ahead for each in given]))
            frames = self.buffer._read_frames(name, used)
            places = [np.searchsorted(used, each) for each in given]
            for column, place in zip((name, f"next_{name}"), places, strict=False):
                columns[column] = Frames(frames, place, field.stack, field.axis)
        return {name: columns[name] for name in self.kinds}

    def leaves(self, first: int, end: int) -> np.ndarray | None:
        """Return (priority + eps)^alpha of these rows, float32, or None without priorities."""
        if not isinstance(self.buffer, PrioritizedRing):
            return None
        if first >= self.stored:
            return np.zeros(end - first, np.float32)
        return self.buffer._get_leaves(slots_between(self.buffer, first, end))

    def links(self, first: int, end: int) -> np.ndarray | None:
        """Return the links of these rows, as `Ring._get_links` does."""
        if not self._has_links:
            return None
        return self.buffer._get_links(first, end) if first < self.stored else np.zeros((end - first, 2), np.uint32)

    def errors(self, first: int, end: int) -> np.ndarray | None:
        """Return the errors of these rows, as `Ring._get_errors` does."""
        if not self._has_errors:
            return None
        return self.buffer._get_errors(first, end) if first < self.stored else np.zeros(end - first, np.float32)

    def packed(self, first: int, end: int) -> list[np.ndarray]:
        """Return the argument of `add_packed`: contiguous arrays, to be concatenated as bytes."""
        columns: Mapping[str, Any] = self.between(first, end)
        arrays = [np.array([end - first]), *(columns[name] for name in self._plain)]
        for name, field in self.framed.items():
            column = columns[name]
            arrays += [np.array([len(column.frames)]), column.frames, column.first]
            if field.has_next:
                arrays.append(columns[f"next_{name}"].first)
        more = self.leaves(first, end), self.links(first, end), self.errors(first, end)
        return [np.ascontiguousarray(array) for array in (*arrays, *more) if array is not None]

    def add_packed(self, data: Any) -> None:
        """Add the rows in the bytes of `packed` to the buffer, with their leaves."""
        at = 0

        def read(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
            nonlocal at
            array: np.ndarray = np.ndarray(shape, dtype, buffer=data, offset=at)
            at += array.nbytes
            return array

        rows = int(read(NUMBER, (1,))[0])
        columns: dict[str, np.ndarray | Frames] = {}
        for name in self._plain:
            dtype, shape = self.kinds[name]
            columns[name] = read(dtype, (rows, *shape))
        for name, field in self.framed.items():
            frames = read(field.dtype, (int(read(NUMBER, (1,))[0]), *field.frame))
            columns[name] = Frames(frames, read(NUMBER, (rows,)), field.stack, field.axis)
            if field.has_next:
                columns[f"next_{name}"] = Frames(frames, read(NUMBER, (rows,)), field.stack, field.axis)
        leaves = read(np.dtype(np.float32), (rows,)) if isinstance(self.buffer, PrioritizedRing) else None
        links = read(np.dtype(np.uint32), (rows, 2)) if self._has_links else None
        self.add(columns, rows, leaves, links, read(np.dtype(np.float32), (rows,)) if self._has_errors else None)

    def add(
        self,
        columns: Columns,
        rows: int,
        leaves: np.ndarray | None,
        links: np.ndarray | None,
        errors: np.ndarray | None,
    ) -> None:
        """Add rows to the buffer, with their leaves, links and errors."""
        stored = self.buffer.get_stored_size()
        if stored == self.stored:
            slots = slots_between(self.buffer, stored + self._unstored, stored + self._unstored + rows)
            self._unstored += rows
            for name, column in columns.items():
                view = self.buffer._view(name)
                assert view is not None
                view[slots] = column
            return
        add_columns(self.buffer, columns, 0, rows)
        if leaves is not None:
            self.buffer._set_leaves(slots_between(self.buffer, stored, stored + rows), leaves)
        if links is not None:
            self.buffer._set_links(stored, links)
        if errors is not None:
            self.buffer._set_errors(stored, errors)


class PickledRows:
    """A buffer's contents, read only while they are being copied or pickled.

    Parameters
    ----------
    buffer : BufferBase
    start : tuple
        Additional arguments of `Filling`.

    Raises
    ------
    RuntimeError
        While the contents are being read, if another thread adds to the buffer or clears it.
    """

    def __init__(self, buffer: BufferBase, *start: Any) -> None:
        self._buffer, self._head = buffer, buffer._get_head()
        self._rows = Rows(buffer, buffer.get_stored_size())
        self._start: tuple[Any, ...] = (
            type(buffer),
            buffer.get_stored_size(),
            position_of(buffer),
            buffer._get_pending(),
            *start,
        )
        self._packed: list[bytearray] = []  # of the last piece

    def check(self) -> None:
        """Raise RuntimeError if rows were added since reading began."""
        if self._buffer._get_head() != self._head:
            raise RuntimeError("another thread changed the buffer while it was being copied")

    def copied(self, parts: dict[str, Any]) -> Filling:
        """Return a new buffer with these rows, and with `parts` as attributes."""
        kind, stored, position, pending, recipe, _ = self._start
        filling = Filling(kind, stored, position, pending, recipe, parts)
        for first, end in self._rows.ranges(self._buffer._written):
            more = self._rows.leaves(first, end), self._rows.links(first, end), self._rows.errors(first, end)
            filling.rows.add(self._rows.between(first, end), end - first, *more)
            self.check()
        return filling

    def parts(self) -> dict[str, Any]:
        """Return the attributes that a copy must not share with its original."""
        parts: dict[str, Any] = self._start[-1]
        return parts

    def __deepcopy__(self, memo: dict[int, Any]) -> Filling:
        return self.copied(copy.deepcopy(self.parts(), memo))

    def __reduce__(self) -> tuple[Any, ...]:
        pieces = (Piece(self, first, end) for first, end in self._rows.ranges(self._buffer._written))
        return Filling, self._start, None, pieces

    def piece(self, first: int, end: int, protocol: int) -> bytearray | int:
        """Return these rows in pickled form. The previous piece's bytes are released."""
        # A pickler's file may keep the array instead of copying it; its bytes must then be kept.
        if self._packed and sys.getrefcount(self._packed[0]) <= REFERENCES:
            self._packed[0].clear()
        arrays = self._rows.packed(first, end)
        self.check()
        parts = [array.reshape(-1).view(np.uint8).data for array in arrays]
        if protocol < 5:
            return int.from_bytes(b"".join([*parts, b"\1"]), "little")  # the 1 preserves trailing zeros
        packed = bytearray().join(parts)
        self._packed = [packed]
        return packed


def _references_of_a_piece() -> int:
    pieces = [bytearray()]
    memo = {0: pieces[0]}  # as in a pickler
    return sys.getrefcount(pieces[0]) + len(memo) - 1


REFERENCES = _references_of_a_piece()


class Piece:
    """Some rows of a `PickledRows`, read when they are pickled."""

    def __init__(self, contents: PickledRows, first: int, end: int) -> None:
        self._contents, self._first, self._end = contents, first, end

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return itself, (self._contents,), self._contents.piece(self._first, self._end, int(protocol))


def itself(filling: Filling) -> Filling:
    """Return the argument, so that a piece's state is set as the filling's state."""
    return filling


class Filling:
    """A new buffer that receives another buffer's rows in pieces, each through `__setstate__`."""

    def __init__(
        self,
        kind: type[BufferBase],
        stored: int,
        position: dict[str, Any],
        pending: dict[str, np.ndarray],
        recipe: Layout | tuple[Any, ...],
        parts: dict[str, Any],
    ) -> None:
        layout = layout_of(kind, recipe, parts)
        buffer: Any = kind.__new__(kind)
        buffer._make(layout)
        self._buffer: BufferBase = buffer
        vars(self._buffer).update(attributes_of(parts, layout))
        self._buffer._begin_at((position["next_index"] - stored) % layout.size)
        self._position, self._pending, self.rows = position, pending, Rows(self._buffer, stored)

    def __setstate__(self, piece: bytearray | int) -> None:
        if isinstance(piece, int):
            self.rows.add_packed(piece.to_bytes((piece.bit_length() + 7) // 8, "little"))
        else:
            self.rows.add_packed(piece)
            piece.clear()

    def extend(self, pieces: Sequence[Filling]) -> None:
        """Do nothing: the rows of these pieces were added when each was read."""

    append = extend

    def finish(self) -> BufferBase:
        """Return the buffer, after restoring the rest of its state."""
        set_position(self._buffer, self._position, self._pending)
        return self._buffer
