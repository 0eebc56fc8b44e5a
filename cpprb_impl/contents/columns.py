"""The columns of transitions in a file: one value per transition, or frames that several values share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from cpprb_impl._native import Ring
from cpprb_impl.archive.json_object import JsonObject
from cpprb_impl.archive.npz import ArrayReader, ArrayWriter, StoredArray
from cpprb_impl.contents.held import NUMBERS, HeldSlots
from cpprb_impl.contents.pieces import NUMBER, Framed, framed_fields
from cpprb_impl.contents.state import PIECE, Columns, Frames, Kinds, Stored, rows_per_piece


def plain(dtype: np.dtype) -> np.dtype:
    """Return `dtype` if its .npy name describes it completely, else a raw-bytes dtype of its size."""
    try:
        same = dtype.fields is None and np.dtype(dtype.str) == dtype
    except TypeError:
        same = False
    return dtype if same else np.dtype(("V", dtype.itemsize))


def write_columns(writer: ArrayWriter, buffer: Ring, slots: HeldSlots, kinds: Kinds) -> list[dict[str, Any]]:
    """Write all transitions, which are in `slots`; return the description of each member."""
    framed = framed_fields(buffer, kinds)
    described: list[dict[str, Any]] = []
    for name, (dtype, shape) in kinds.items():
        if any(name in column["names"] for column in described):
            continue
        about: dict[str, Any] = {"names": [name], "kind": "rows", "dtype": str(dtype)}
        member = f"column_{len(described)}"
        field = framed.get(name)
        if field is not None:
            about["names"] += [f"next_{name}"] if field.has_next else []
            about |= {"kind": "frames", "stack": field.stack}
            about |= {"axis": field.axis} if field.stack is not None and field.axis < len(field.frame) else {}
            writer.write(member, plain(dtype), (field.frames, *field.frame), _frame_pieces(buffer, name, field))
            for number in range(len(about["names"])):
                pieces = _number_pieces(buffer, name, number, len(slots))
                writer.write(f"{member}_first_{number}", NUMBER, (len(slots),), pieces)
        else:
            pieces = _pieces(buffer, name, slots, rows_per_piece(kinds))
            writer.write(member, plain(dtype), (len(slots), *shape), pieces)
        described.append(about)
    return described


def _pieces(buffer: Ring, name: str, slots: HeldSlots, step: int) -> Iterator[np.ndarray]:
    view = buffer._view(name)
    # Smaller pieces for `get`, which returns all columns, and whose arrays the ring keeps for several calls.
    for each in slots.pieces(step if view is not None else max(1, step // 4)):
        yield buffer.get(each)[name] if view is None else view[each]


def _frame_pieces(buffer: Ring, name: str, field: Framed) -> Iterator[np.ndarray]:
    step = max(1, PIECE // max(1, field.dtype.itemsize * math.prod(field.frame)))
    for at in range(0, field.frames, step):
        yield buffer._read_frames(name, np.arange(at, min(at + step, field.frames)))


def _number_pieces(buffer: Ring, name: str, which: int, rows: int) -> Iterator[np.ndarray]:
    for at in range(0, rows, NUMBERS):
        numbers = buffer._get_frame_numbers(name, at, min(at + NUMBERS, rows))[which]
        assert numbers is not None
        yield numbers


def read_columns(reader: ArrayReader, descriptions: list[JsonObject], rows: int) -> tuple[Columns, dict[str, str]]:
    """Return a file's columns, and the dtypes that the file states for them. Raises ValueError for invalid frames."""
    columns: dict[str, Stored | Frames] = {}
    dtypes: dict[str, str] = {}
    for number, about in enumerate(descriptions):
        names, kind, member = about.strings("names"), about.string("kind"), f"column_{number}"
        array = reader.scan(member)
        dtypes |= dict.fromkeys(names, about.string("dtype"))
        if kind == "rows" and len(names) == 1:
            columns[names[0]] = array
        elif kind == "frames":
            stack = None if about.is_null("stack") else about.integer("stack", least=1)
            axis = about.integer("axis", most=len(array.shape) - 1) if "axis" in about else -1
            for place, name in enumerate(names):
                first = reader.scan(f"{member}_first_{place}")
                columns[name] = _frames(name, array, first, stack, axis, rows)
        else:
            raise ValueError(f"{member} must be of the kind 'rows', with one name, or 'frames', got {kind[:20]!r}")
    return columns, dtypes


def _frames(name: str, frames: StoredArray, first: StoredArray, stack: int | None, axis: int, rows: int) -> Frames:
    if first.dtype != np.int64 or first.shape != (rows,) or not frames.shape:
        raise ValueError(
            f"{name}: frame numbers must be int64 of shape ({rows},), got {first.dtype} of shape {first.shape}"
        )
    most = len(frames) - (stack or 1)
    for at in range(0, rows, NUMBERS):
        numbers = first[at : at + NUMBERS]
        if not 0 <= numbers.min() <= numbers.max() <= most:
            raise ValueError(f"{name}: frame numbers must be from 0 to {most}, got {numbers.min()} to {numbers.max()}")
    return Frames(frames, first, stack, axis)


def fitting(columns: Columns, rows: int, dtypes: dict[str, str], kinds: Kinds) -> Columns:
    """Return the columns with the buffer's own dtypes. `dtypes` has those that the file states for them, if any.

    Raises ValueError naming the mismatched field.
    """
    if columns.keys() != kinds.keys():
        raise ValueError(f"the file's fields are {sorted(columns)}, but the buffer's are {sorted(kinds)}")
    for name, (dtype, shape) in kinds.items():
        stored = dtypes.get(name, str(dtype))
        if columns[name].dtype != plain(dtype) or stored != str(dtype):
            other = stored if name in dtypes else columns[name].dtype
            raise ValueError(f"{name}: dtype {other} in the file, but {dtype} in the buffer")
        if columns[name].shape != (rows, *shape):
            raise ValueError(
                f"{name}: shape {columns[name].shape} in the file, but {rows} rows of {shape} in the buffer"
            )
    return {name: _of_dtype(columns[name], dtype) for name, (dtype, _) in kinds.items()}


def _of_dtype(column: Stored | Frames, dtype: np.dtype) -> Stored | Frames:
    return np.ascontiguousarray(column).view(dtype) if isinstance(column, np.ndarray) else column.view(dtype)
