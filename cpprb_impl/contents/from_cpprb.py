"""Read files saved by cpprb 11 without trusting them.

The files hold pickles of dicts of arrays, which numpy_pickle.py reads. Python's and NumPy's own code for unpickling is
not run, because it trusts its input.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np

from cpprb_impl.archive.npz import ArrayReader, as_value_errors, read_header
from cpprb_impl.archive.numpy_pickle import Array, array_of, read_array

# A pickle may have one opcode per 16 bytes of its member's largest size: at least 64 per array, while cpprb uses 25.
BYTES_PER_OPCODE = 16

Arrays = dict[str, np.ndarray]  # columns by field


def read(reader: ArrayReader, fields: Set[str], most: int) -> tuple[Arrays, int, bool]:
    """Return the transitions of a cpprb file: columns by field, the number of rows, and whether rows are n-step.

    `fields` are the fields that a transition may have; `most` is the largest uncompressed size of a member in bytes.

    Rows are in index order, as in cpprb, and include everything that cpprb's `next_of` and `stack_compress` omit.
    Raises ValueError for anything that cpprb does not write.
    """
    if "version.npy" not in reader.members or "data.npy" not in reader.members:
        raise ValueError("the file must have been saved by cpprb_impl or cpprb, but contains no transitions")
    members = {name: _read(reader, name, most) for name in ("version", "safe", "Nstep", "data", "cache", "next_of")}
    version = members["version"]
    if type(version) is not int or version != 1:
        of = version if type(version) is int else type(version).__name__
        raise ValueError(f"version must be 1, the format of cpprb 11, got {of}")
    for name in ("safe", "Nstep"):
        if type(members[name]) is not bool:
            raise ValueError(f"{name} must be a bool, got {type(members[name]).__name__}")
    columns = _columns(members["data"], fields)
    counts = {len(column) for column in columns.values()}
    if len(counts) > 1:
        raise ValueError(f"data: columns must have the same number of rows, got {sorted(counts)}")
    rows = max(counts, default=0)
    if not members["safe"]:
        columns = _expanded(columns, _cache(members["cache"], fields, rows), _names(members["next_of"]))
    return columns, rows, bool(members["Nstep"])


def _columns(data: Any, fields: Set[str]) -> Arrays:
    if not isinstance(data, dict):
        raise ValueError("data must be a dict of arrays")
    for name in data:
        if name not in fields:
            raise ValueError(f"the file's fields must be among the buffer's, {sorted(fields)}, got {str(name)[:40]!r}")
    columns = {name: _array(f"data: {name}", value) for name, value in data.items()}
    if not all(column.ndim for column in columns.values()):
        raise ValueError("data: each column must have a first dimension of rows")
    return columns


def _cache(cache: Any, fields: Set[str], rows: int) -> dict[int, Arrays]:
    """Return the cached values of each row."""
    if not isinstance(cache, dict | None):
        raise ValueError("cache must be a dict or None")
    entries = {}
    for row, entry in (cache or {}).items():
        if type(row) is not int or not 0 <= row < rows or not isinstance(entry, dict) or not entry.keys() <= fields:
            raise ValueError(f"cache must only have entries for rows below {rows} and fields among {sorted(fields)}")
        entries[row] = {name: _array(f"cache: {name}", value) for name, value in entry.items()}
    return entries


def _names(next_of: Any) -> list[str]:
    if next_of is None:
        return []
    if not isinstance(next_of, np.ndarray) or next_of.dtype.kind != "U":
        raise ValueError("next_of must be an array of names")
    return sorted(set(next_of.ravel().tolist()))


def _expanded(columns: Arrays, cache: dict[int, Arrays], next_of: list[str]) -> Arrays:
    """Return the columns as they would be without compression.

    cpprb overlaps the stacked frames of neighbouring rows, and takes next_x from the following row's x. Where that
    would be wrong (at the ends of episodes, and where old rows were overwritten), the cache holds the row's own values.
    """
    whole = {name: column.copy() for name, column in columns.items()}
    _fill_in(whole, cache)
    for of in next_of:
        if of not in columns or f"next_{of}" in columns:
            raise ValueError(f"next_of: {of[:40]!r} must be a field whose next_{of[:40]} is not stored")
        whole[f"next_{of}"] = np.roll(whole[of], -1, axis=0)
    _fill_in({f"next_{of}": whole[f"next_{of}"] for of in next_of}, cache)
    return whole


def _fill_in(columns: Arrays, cache: dict[int, Arrays]) -> None:
    for row, entry in cache.items():
        for name in entry.keys() & columns.keys():
            if entry[name].shape != columns[name].shape[1:] or entry[name].dtype != columns[name].dtype:
                raise ValueError(f"cache: {name} of row {row} must have the shape and dtype of its column")
            columns[name][row] = entry[name]


# Reading members


def _read(reader: ArrayReader, name: str, most: int) -> Any:
    """Return a member's array, or the single object of an array without dimensions."""
    with as_value_errors(name):
        data = reader.read_compressed(f"{name}.npy", most)
        header = read_header(data)
        body = memoryview(data)[header.size :]
        if header.dtype != np.dtype(object):
            array = array_of(body, header.dtype, header.shape, header.fortran_order)
            return array if array.ndim else array.item()
        if header.shape != ():
            raise ValueError(f"an object array must have no dimensions, got shape {header.shape}")
        return read_array(body, most // BYTES_PER_OPCODE)


def _array(what: str, value: Any) -> np.ndarray:
    if not isinstance(value, Array) or not isinstance(value.value, np.ndarray):
        raise ValueError(f"{what} must be an array of numbers")
    return value.value
