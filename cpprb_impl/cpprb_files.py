"""Files that cpprb 11 saved, read without trusting them.

They hold pickles of dicts of arrays. Here a pickle may ask for the four names that NumPy's own pickles consist of,
and gets stand-ins for them: not even NumPy's code that takes pickled state is run, for it believes what it is told.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable, Set
from typing import Any

import numpy as np

from cpprb_impl.npz import MOST_HEADER, ArrayReader, as_value_errors
from cpprb_impl.state import Columns

MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")  # NumPy 1, NumPy 2
# What NumPy's pickles of arrays, in protocols 3 and 4, are written with, and nothing else.
OPCODES = frozenset(
    """PROTO FRAME STOP GLOBAL STACK_GLOBAL REDUCE BUILD MARK TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_TUPLE EMPTY_LIST
    EMPTY_DICT APPEND APPENDS SETITEM SETITEMS NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINUNICODE
    SHORT_BINUNICODE BINBYTES SHORT_BINBYTES BINBYTES8 BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET""".split()  # noqa: SIM905
)
SIMPLE_DTYPE = re.compile(r"[biufcmMSUO][0-9]{1,6}")


def read(reader: ArrayReader, fields: Set[str], most: int) -> tuple[Columns, int, bool]:
    """The transitions of a file of cpprb's: columns by field, their number of rows, and whether they are n-step ones.

    `fields` are those that a transition may have, and `most` the bytes that they may take before they are compressed.

    Rows are in the order of their indexes, as cpprb keeps them, with everything that `next_of` and `stack_compress`
    had left out. Raises ValueError for what cpprb does not write.
    """
    if "version.npy" not in reader.members or "data.npy" not in reader.members:
        raise ValueError("the file holds no transitions, neither cpprb_impl's nor cpprb's")
    members = {name: _read(reader, name, most) for name in ("version", "safe", "Nstep", "data", "cache", "next_of")}
    if members["version"] != 1:
        raise ValueError(f"the file is of cpprb's version {str(members['version'])[:20]}; known here is 1")
    columns = _columns(members["data"], fields)
    counts = {len(column) for column in columns.values()}
    if len(counts) > 1:
        raise ValueError(f"data: columns of {sorted(counts)} rows")
    rows = max(counts, default=0)
    if not members["safe"]:
        columns = _expanded(columns, _cache(members["cache"], fields, rows), _names(members["next_of"]))
    return columns, rows, bool(members["Nstep"])


def _columns(data: Any, fields: Set[str]) -> Columns:
    if not isinstance(data, dict):
        raise ValueError("data: not a dict of arrays")
    for name in data:
        if name not in fields:
            raise ValueError(f"the file has a field {str(name)[:40]!r}, but the buffer's are {sorted(fields)}")
    columns = {name: _array(f"data: {name}", value) for name, value in data.items()}
    if not all(column.ndim for column in columns.values()):
        raise ValueError("data: a column without rows")
    return columns


def _cache(cache: Any, fields: Set[str], rows: int) -> dict[int, Columns]:
    """What the cache has for each row."""
    if not isinstance(cache, dict | None):
        raise ValueError("cache: not a dict")
    entries = {}
    for row, entry in (cache or {}).items():
        if type(row) is not int or not 0 <= row < rows or not isinstance(entry, dict) or not entry.keys() <= fields:
            raise ValueError(f"cache: not one of {rows} rows, or not of the fields {sorted(fields)}")
        entries[row] = {name: _array(f"cache: {name}", value) for name, value in entry.items()}
    return entries


def _names(next_of: Any) -> list[str]:
    if next_of is None:
        return []
    if not isinstance(next_of, np.ndarray) or next_of.dtype.kind != "U":
        raise ValueError("next_of: not an array of names")
    return sorted(set(next_of.ravel().tolist()))


def _expanded(columns: Columns, cache: dict[int, Columns], next_of: list[str]) -> Columns:
    """The columns as they would be without compression.

    cpprb lays the stacked frames of neighbouring rows over each other, and takes next_x from the following row's x.
    Where that is wrong, at the ends of episodes and where old rows were overwritten, the cache has the row's own
    values.
    """
    whole = {name: column.copy() for name, column in columns.items()}
    _fill_in(whole, cache)
    for of in next_of:
        if of not in columns or f"next_{of}" in columns:
            raise ValueError(f"next_of: {of[:40]!r} is no field, or what follows it is stored too")
        whole[f"next_{of}"] = np.roll(whole[of], -1, axis=0)
    _fill_in({f"next_{of}": whole[f"next_{of}"] for of in next_of}, cache)
    return whole


def _fill_in(columns: Columns, cache: dict[int, Columns]) -> None:
    for row, entry in cache.items():
        for name in entry.keys() & columns.keys():
            if entry[name].shape != columns[name].shape[1:] or entry[name].dtype != columns[name].dtype:
                raise ValueError(f"cache: row {row} has {name} of another shape or dtype")
            columns[name][row] = entry[name]


# Reading members


def _read(reader: ArrayReader, name: str, most: int) -> Any:
    """A member's array, or for one without dimensions the one object in it."""
    with as_value_errors(name):
        data = reader.read_compressed(f"{name}.npy", most)
        header = io.BytesIO(data[:MOST_HEADER])
        if np.lib.format.read_magic(header) != (1, 0):
            raise ValueError("an .npy header of another version")
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(header)
        body = memoryview(data)[header.tell() :]
        if dtype != np.dtype(object):
            array = _array_of(body, dtype, shape, fortran_order)
            return array if array.ndim else array.item()
        if shape != ():
            raise ValueError("an array of objects")
        return _unpickled(body)


def _array_of(data: Any, dtype: np.dtype, shape: Any, fortran_order: Any) -> np.ndarray:
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError(f"an array of {dtype}")
    if type(shape) is not tuple or not all(type(length) is int and 0 <= length < 2**63 for length in shape):
        raise ValueError("an impossible shape")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"shape {shape} of {dtype} is not what {len(data)} bytes hold")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran_order else "C")


def _unpickled(body: memoryview) -> Any:
    """What NumPy pickled as an array of no dimensions with one object in it."""
    # First a look at the pickle's text: the real unpickler believes the sizes that it is told.
    for count, (opcode, argument, _) in enumerate(pickletools.genops(io.BytesIO(body))):
        if opcode.name not in OPCODES:
            raise ValueError(f"the pickle in it uses {opcode.name}, which NumPy's own never do")
        if opcode.name == "LONG_BINPUT" and argument > count:
            raise ValueError("the pickle in it counts wrongly")
    array = _Unpickler(io.BytesIO(body)).load()
    if not isinstance(array, _Array) or not isinstance(array.value, _Single):
        raise ValueError("the pickle in it is not of an array with one object")
    return array.value.content


def _array(what: str, value: Any) -> np.ndarray:
    if not isinstance(value, _Array) or not isinstance(value.value, np.ndarray):
        raise ValueError(f"{what}: not an array of numbers")
    return value.value


class _Single:
    """The one object of an array without dimensions."""

    def __init__(self, content: Any) -> None:
        self.content = content


class _Stand:
    """What stands in for a name of NumPy's. A pickle can call it, and can't change it."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it sets attributes of NumPy's")


class _Dtype:
    """`numpy.dtype` of one simple type."""

    def __init__(self, name: Any, *_: Any) -> None:
        if type(name) is not str or not SIMPLE_DTYPE.fullmatch(name):
            raise ValueError(f"dtype {str(name)[:40]!r} can't be read from a file of cpprb's")
        self._name, self.dtype = name, np.dtype(name)

    def __setstate__(self, state: Any) -> None:
        # (version, byte order, subarray, names, fields, size, alignment, flags[, metadata])
        order, *compound = state[1:5]
        if order not in ("<", ">", "|", "=") or compound != [None] * 3:
            raise ValueError("a compound dtype can't be read from a file of cpprb's")
        unit = ""
        if self._name[0] in "mM":
            base, number = state[8][1][:2]
            unit = f"[{int(number)}{base.decode('ascii')}]"
        if order in "<>":
            self.dtype = np.dtype(f"{order}{self._name}{unit}")


class _Array:
    """`numpy.ndarray`, empty until its state is set."""

    value: np.ndarray | _Single | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran_order, data = state
        if dtype.dtype == np.dtype(object):
            if shape != () or type(data) is not list or len(data) != 1:
                raise ValueError("an array of objects can't be read")
            self.value = _Single(data[0])
        elif type(data) is bytes:
            self.value = _array_of(data, dtype.dtype, shape, fortran_order)
        else:
            raise ValueError("an array without bytes")


def _scalar(dtype: _Dtype, data: bytes) -> Any:
    """A scalar of NumPy's as Python's own: cpprb's caches have names of this kind."""
    return _array_of(data, dtype.dtype, (), False).item()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("numpy", "ndarray"):
            return _Stand(lambda *_: _Array())
        if (module, name) == ("numpy", "dtype"):
            return _Stand(_Dtype)
        if module in MULTIARRAY and name == "_reconstruct":
            return _Stand(lambda *_: _Array())
        if module in MULTIARRAY and name == "scalar":
            return _Stand(_scalar)
        raise pickle.UnpicklingError(f"it asks for {module[:40]}.{name[:40]}, which no file of cpprb's needs")
