"""Read pickles of NumPy arrays without Python's unpickler.

Python's unpickler calls whatever a pickle names, and hashes nested values of any depth. Here, opcodes act on
placeholders for arrays, their dtypes, and the four NumPy names that construct them. Nothing is called; only strings and
integers are hashed; depth and size are bounded.
"""

from __future__ import annotations

import io
import math
import pickletools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")  # NumPy 1, NumPy 2
NAMES = {("numpy", "ndarray"): "ndarray", ("numpy", "dtype"): "dtype"}
NAMES |= {(module, name): name for module in MULTIARRAY for name in ("_reconstruct", "scalar")}

SIMPLE_DTYPE = re.compile(r"[biufcmMSUO][0-9]{1,6}")
UNIT = re.compile(rb"[A-Za-z]{1,7}")
MOST_DEPTH = 8  # of nesting; cpprb's own files reach a depth of 7
MOST_DIMENSIONS = 32


def read_array(body: memoryview, most_steps: int) -> np.ndarray | dict | None:
    """Return the single object, a dict or None, in a pickled zero-dimensional array.

    The dict's values are dicts, strings, numbers and `Array`. Raises ValueError if `body` is not such a pickle or has
    more than `most_steps` opcodes, and other exceptions if it is malformed.
    """
    machine = _Machine(len(body))
    for count, (opcode, argument, _) in enumerate(pickletools.genops(io.BytesIO(body))):
        if count == most_steps:
            raise ValueError(f"the pickle has more than {most_steps} opcodes")
        machine.carry_out(opcode.name, argument)
    array = machine.result()
    if not isinstance(array, Array) or not array.holds_object:
        raise ValueError("the pickle must contain an array with one object")
    return array.value


def array_of(data: Any, dtype: np.dtype, shape: Any, fortran_order: Any) -> np.ndarray:
    """Return the array with the bytes `data`. Raises ValueError if they do not fit."""
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError(f"the array's dtype must not be {dtype}")
    # Check the number of dimensions first, since multiplying very many lengths takes a very long time.
    if not isinstance(shape, tuple) or len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"an array's shape must be a tuple of at most {MOST_DIMENSIONS} lengths")
    if not all(type(length) is int and 0 <= length < 2**63 for length in shape):
        raise ValueError("each length in an array's shape must be an integer from 0 to 2**63 - 1")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"shape {tuple(shape)} of {dtype} does not fit {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran_order else "C")


class _Name(str):
    """One of the NumPy names that occur in NumPy's pickles."""


class _Tuple(tuple):
    depth = 1


class _List(list):
    depth = 1


class _Dict(dict):
    depth = 1


class _Dtype:
    """Placeholder for a `numpy.dtype` of a simple type."""

    def __init__(self, name: Any) -> None:
        if type(name) is not str or not SIMPLE_DTYPE.fullmatch(name):
            raise ValueError(f"dtype {name[:40] if type(name) is str else type(name)!r} in a pickle is not supported")
        self._name, self.dtype = name, np.dtype(name)

    def build(self, state: _Tuple) -> None:
        # (version, byte order, subarray, names, fields, size, alignment, flags[, metadata])
        order, *compound = state[1:5]
        if order not in ("<", ">", "|", "=") or any(each is not None for each in compound):
            raise ValueError("a dtype in a pickle must be of a simple type")
        unit = ""
        if self._name[0] in "mM":
            base, number = state[8][1][:2]
            if type(base) is not bytes or not UNIT.fullmatch(base) or type(number) is not int or number < 1:
                raise ValueError("a dtype in a pickle has an unknown time unit")
            unit = f"[{number}{base.decode('ascii')}]"
        if order in "<>":
            self.dtype = np.dtype(f"{order}{self._name}{unit}")


class Array:
    """Placeholder for `numpy.ndarray`, empty until its state is set."""

    depth = 1
    value: np.ndarray | dict | None = None
    holds_object = False  # whether it holds a dict or None

    def build(self, state: _Tuple) -> None:
        """Set the state, as the opcode BUILD does."""
        _, shape, dtype, fortran_order, data = state
        if dtype.dtype == np.dtype(object):
            if shape != () or type(data) is not _List or len(data) != 1 or type(data[0]) not in (_Dict, type(None)):
                raise ValueError("an array of objects is not supported")
            self.value, self.holds_object, self.depth = data[0], True, state.depth
        elif type(data) is bytes:
            self.value = array_of(data, dtype.dtype, shape, fortran_order)
        else:
            raise ValueError("an array has no bytes")


_MARK = object()


class _Machine:
    """The state of an unpickler: a stack, and numbered values (the memo)."""

    def __init__(self, size: int) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._left = size  # bytes left for scalars, whose total size may not exceed the pickle's

    def carry_out(self, opcode: str, argument: Any) -> None:
        push = self._stack.append
        match opcode:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINUNICODE" | "SHORT_BINUNICODE":
                push(argument)
            case "BINBYTES" | "SHORT_BINBYTES" | "BINBYTES8":
                push(argument)
            case "NONE":
                push(None)
            case "NEWTRUE" | "NEWFALSE":
                push(opcode == "NEWTRUE")
            case "MARK":
                push(_MARK)
            case "EMPTY_TUPLE":
                push(())
            case "EMPTY_LIST":
                push(_List())
            case "EMPTY_DICT":
                push(_Dict())
            case "TUPLE":
                items = self._pop_to_mark()
                push(_holding(_Tuple(items), items))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                items = self._pop(int(opcode[-1]))
                push(_holding(_Tuple(items), items))
            case "APPEND":
                self._append(*self._pop(1))
            case "SETITEM":
                self._set_items(self._pop(2))
            case "SETITEMS":
                self._set_items(self._pop_to_mark())
            case "GLOBAL":
                push(_named(*argument.split(" ", 1)))
            case "STACK_GLOBAL":
                push(_named(*self._pop(2)))
            case "REDUCE":
                push(self._called(*self._pop(2)))
            case "BUILD":
                self._build(*self._pop(1))
            case "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = self._stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = self._stack[-1]
            case "BINGET" | "LONG_BINGET":
                push(self._remembered(argument))
            case _:
                raise ValueError(f"the pickle uses the opcode {opcode}, which pickled NumPy arrays never contain")

    def result(self) -> Any:
        return self._stack[0] if len(self._stack) == 1 else None

    def _pop(self, count: int) -> list[Any]:
        items = self._stack[-count:]
        if len(items) < count or any(item is _MARK for item in items):
            raise ValueError("the pickle has too few values for its opcodes")
        del self._stack[-count:]
        return items

    def _pop_to_mark(self) -> list[Any]:
        items = []
        while (item := self._stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _append(self, item: Any) -> None:
        target = self._stack[-1]
        if type(target) is not _List or target:
            raise ValueError("an array of objects is not supported")
        target.append(item)
        _holding(target, target)

    def _set_items(self, items: list[Any]) -> None:
        target, keys, values = self._stack[-1], items[::2], items[1::2]
        # Many larger integers can have the same hash, and building a dict with n such keys takes O(n^2) time.
        if type(target) is not _Dict or not all(
            type(key) is str or (type(key) is int and 0 <= key < 2**32) for key in keys
        ):
            raise ValueError("the keys of a dict must be strings or integers from 0 to 2**32 - 1")
        target.update(zip(keys, values, strict=True))
        _holding(target, values)

    def _remembered(self, number: int) -> Any:
        value = self._memo[number]
        if type(value) in (_List, _Dict):  # such a value could contain itself
            raise ValueError("the pickle must not refer to the same dict or list twice")
        return value

    def _called(self, name: Any, arguments: Any) -> Any:
        match name, arguments:
            case _Name("_reconstruct"), (_Name("ndarray"), *_):
                return Array()
            case _Name("dtype"), (text, *_):
                return _Dtype(text)
            case _Name("scalar"), (_Dtype() as dtype, bytes() as data):
                self._left -= len(data)
                if self._left < 0:
                    raise ValueError("the pickle's scalars take more bytes than the pickle itself")
                # Convert a NumPy string to Python's own: cpprb's caches have such names.
                return array_of(data, dtype.dtype, (), False).item()
        raise ValueError("the pickle creates an object that is neither an array nor a dtype")

    def _build(self, state: Any) -> None:
        target = self._stack[-1]
        if not isinstance(target, (Array, _Dtype)):
            raise ValueError("the pickle sets attributes of NumPy's functions")
        if type(state) is not _Tuple:
            raise ValueError("the state of an array must be a tuple")
        target.build(state)


def _named(module: Any, name: Any) -> _Name:
    if type(module) is not str or type(name) is not str:
        raise ValueError("a name in the pickle must be a string")
    if (module, name) not in NAMES:
        raise ValueError(f"the pickle refers to {module[:40]}.{name[:40]}, which no cpprb file needs")
    return _Name(NAMES[module, name])


def _holding(holder: Any, items: Sequence[Any]) -> Any:
    """Return `holder`, which now contains `items`. Raises ValueError if the nesting is too deep."""
    holder.depth = max(holder.depth, 1 + max((getattr(item, "depth", 0) for item in items), default=0))
    if holder.depth > MOST_DEPTH:
        raise ValueError(f"the pickle nests values more than {MOST_DEPTH} deep")
    return holder
