"""Values that a caller might pass to `add`: plain values, odd arrays, and objects that run code when converted."""

from __future__ import annotations

import array
import decimal
import fractions
import random
from collections.abc import Callable
from typing import Any

import numpy as np

# No times: NumPy 1.26 writes beyond its memory when it converts timedelta64 to S4, and crashes when it converts b"x"
# to datetime64.
FIELD_DTYPES = ["f4", "f8", "i8", "u1", "?", "f2", ">i4", "c8", "S4", "U3", "V3", "i4,f8", "g", "i2"]
ARRAY_DTYPES = [*FIELD_DTYPES, "O", "<u8", ">f8", "S1", "c16", "u4,S2", "S0", "i1", "u2"]
SHAPES = [(), (1,), (2,), (4,), (2, 3), (1, 1), (3, 1, 2)]


class RefusedError(Exception):
    """Raised by the objects below, and by nothing else."""


def scalar(rng: random.Random) -> Any:
    return rng.choice(
        [
            lambda: rng.randrange(-300, 300),
            lambda: rng.choice([0, 1, 255, 256, 2**31, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**400]),
            lambda: rng.getrandbits(rng.randrange(1, 80)) * rng.choice([1, -1]),
            lambda: rng.choice([0.0, -0.0, 1.5, 1e300, -1e-300, float("nan"), float("inf")]),
            lambda: rng.choice([True, False, None, ..., NotImplemented, object(), type]),
            lambda: rng.choice(["", "1", "nan", "left", "\ud800", "2020-01-01", b"", b"12", b"\xff"]),
            lambda: rng.choice([1j, decimal.Decimal("1.5"), fractions.Fraction(1, 3)]),
            lambda: np.zeros((), rng.choice(ARRAY_DTYPES))[()],
        ]
    )()


def contents(rng: random.Random, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return a plain array of arbitrary values. Text is valid, since NumPy doesn't check that."""
    size = int(np.prod(shape))
    if dtype.hasobject:
        return np.array([*(scalar(rng) for _ in range(size)), None], dtype=object)[:-1].reshape(shape)
    if dtype.kind in "SU":
        text = ["".join(chr(rng.randrange(1, 128)) for _ in range(rng.randrange(5))) for _ in range(size)]
        return np.array([*text, ""]).astype(dtype)[:-1].reshape(shape)
    if rng.randrange(2):
        return np.zeros(shape, dtype)
    return np.frombuffer(bytearray(rng.randbytes(size * dtype.itemsize)), dtype).reshape(shape)


def odd_array(rng: random.Random, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Return an array of any dtype, layout and class."""
    if shape is None:
        shape = tuple(rng.choice([0, 1, 1, 2, 3, 4, 6]) for _ in range(rng.randrange(4)))
    made = contents(rng, np.dtype(rng.choice(ARRAY_DTYPES)), shape)
    layouts: list[Callable[[], np.ndarray]] = [
        lambda: made,
        lambda: np.asfortranarray(made),
        lambda: made.T,
        lambda: np.repeat(made, 2, axis=0)[::2] if made.ndim else made,
        lambda: made[::-1] if made.ndim else made,
        lambda: np.broadcast_to(made, (3, *made.shape)),
        lambda: unaligned(made),
        lambda: made.view(np.ma.MaskedArray),
        lambda: made.view(np.matrix) if made.ndim == 2 else made,
        lambda: made.astype(made.dtype.newbyteorder()),
    ]
    result = rng.choice(layouts)()
    if rng.randrange(4) == 0 and type(result) is np.ndarray:
        result.flags.writeable = False
    return result


def unaligned(of: np.ndarray) -> np.ndarray:
    if of.dtype.hasobject:
        return of
    moved = np.zeros(of.nbytes + 1, np.uint8)[1:].view(of.dtype) if of.dtype.itemsize and of.size else None
    if moved is None:
        return of
    moved = moved.reshape(of.shape)
    moved[...] = of
    return moved


def hooked(rng: random.Random, payload: Any, act: Callable[[], None]) -> Any:
    """Return an object that, by one of the protocols that NumPy uses, runs `act` and then returns `payload`."""

    def give(*_: Any, **__: Any) -> Any:
        act()
        return payload

    def give_array(*_: Any, **__: Any) -> Any:
        act()
        return np.asarray(payload) if rng_says_array else payload

    rng_says_array = rng.randrange(4) > 0
    way = rng.choice(["__array__", "__float__", "__int__", "__index__", "sequence", "interface", "struct"])
    members: dict[str, Any] = {way: give}
    if way == "__array__":
        members = {way: give_array}
    elif way == "sequence":
        length = rng.randrange(4)
        members = {"__len__": lambda self: length, "__getitem__": lambda self, at: give() if at < length else [][at]}
    elif way == "interface":
        members = {"__array_interface__": property(give)}
    elif way == "struct":
        members = {"__array_struct__": property(give)}
    return type("Hooked", (), members)()


def nested(rng: random.Random, leaf: Callable[[], Any], depth: int = 0) -> Any:
    """Return nested lists: some are ragged, some use other containers, some contain themselves."""
    if depth == 3 or (depth and rng.randrange(3) == 0):
        return leaf()
    items = [nested(rng, leaf, depth + 1) for _ in range(rng.randrange(4))]
    if rng.randrange(20) == 0:
        items.append(items)
    kinds: list[Callable[[list], Any]] = [list, list, list, tuple, iter, lambda x: dict(enumerate(x))]
    return rng.choice(kinds)(items)


def buffer_like(rng: random.Random) -> Any:
    numbers = [rng.randrange(100) for _ in range(rng.randrange(8))]
    return rng.choice(
        [
            lambda: memoryview(bytes(numbers)),
            lambda: memoryview(array.array("d", numbers))[::2],
            lambda: bytearray(numbers),
            lambda: array.array(rng.choice("bBhHiIlLfd"), numbers),
            lambda: range(len(numbers)),
        ]
    )()


def value(rng: random.Random, act: Callable[[], None], row_shape: tuple[int, ...], dtype: np.dtype, rows: int) -> Any:
    """Return any value; half of the time one that fits the field, so that many calls succeed."""
    if rng.randrange(2):
        shape = rng.choice([(rows, *row_shape), row_shape] if rows == 1 else [(rows, *row_shape)])
        if rng.randrange(2):
            return odd_array(rng, shape)
        fitting = contents(rng, dtype, shape)
        return fitting if rng.randrange(4) else fitting.tolist()
    return rng.choice(
        [
            lambda: scalar(rng),
            lambda: odd_array(rng),
            lambda: buffer_like(rng),
            lambda: nested(rng, lambda: scalar(rng)),
            lambda: nested(rng, lambda: hooked(rng, scalar(rng), act)),
            lambda: hooked(rng, odd_array(rng, (rows, *row_shape)), act),
            lambda: hooked(rng, scalar(rng), act),
        ]
    )()
