"""Convert cpprb's `env_dict` to the native ring's fields, and check the constructors' arguments."""

from __future__ import annotations

import operator
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

LARGEST = 2**63 - 1  # the largest integer that the native ring accepts

OF_A_FIELD = ("shape", "dtype", "add_shape")  # cpprb writes "add_shape" into the dicts that it receives

NativeField = tuple[str, np.dtype, tuple[int, ...]]


def native_fields(env_dict: Mapping[str, Mapping[str, Any]] | None, default_dtype: Any = None) -> list[NativeField]:
    """Return (name, dtype, shape) for each key of `env_dict`.

    "shape" is an int or a sequence of ints (default 1), "dtype" anything that `numpy.dtype` accepts
    (default `default_dtype`, or float32). `env_dict` itself is not modified.
    """
    if not isinstance(env_dict, Mapping | None):
        raise TypeError(f"env_dict must be a dict of dicts, got {env_dict!r}")
    default = _dtype("default_dtype", np.float32 if default_dtype is None else default_dtype)
    fields = []
    for name, options in (env_dict or {}).items():
        if not isinstance(name, str):
            raise TypeError(f"env_dict: key {name!r} must be a str")
        if not isinstance(options, Mapping):
            raise TypeError(f"env_dict[{name!r}] must be a dict with 'shape' and 'dtype', got {options!r}")
        if unknown := [key for key in options if key not in OF_A_FIELD]:
            raise TypeError(f"env_dict[{name!r}] must have no keys but 'shape' and 'dtype', got {unknown[0]!r}")
        dtype = options.get("dtype")
        dtype = default if dtype is None else _dtype(f"env_dict[{name!r}]: dtype", dtype)
        fields.append((name, dtype, _shape(name, options.get("shape", 1))))
    return fields


def _dtype(what: str, dtype: Any) -> np.dtype:
    try:
        return np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} must be a NumPy dtype, got {dtype!r}: {error}") from None


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    try:
        lengths = tuple(operator.index(length) for length in np.atleast_1d(np.asarray(shape, dtype=object)))
    except TypeError:
        raise TypeError(f"env_dict[{name!r}]: shape must be an int or a sequence of ints, got {shape!r}") from None
    if any(abs(length) > LARGEST for length in lengths):
        raise ValueError(f"env_dict[{name!r}]: shape must be below 2**63 in every dimension, got {shape!r}")
    return lengths


def field_names(option: str, names: str | Sequence[str] | None) -> list[str]:
    """Return a list without duplicates for a name, a sequence of names, or None. Raises TypeError naming the option."""
    if isinstance(names, str):
        return [names] if names else []
    try:
        return [] if names is None else list(dict.fromkeys(names))
    except TypeError:
        raise TypeError(f"{option} must be the name of a field, or a sequence of names, got {names!r}") from None


def stack_axes(names: str | Sequence[str] | Mapping[str, int] | None, fields: Sequence[NativeField]) -> dict[str, int]:
    """Return `stack_compress` as the axis of each field's frames, which may be negative.

    Raises TypeError or ValueError for an axis that a field does not have. Names that are not fields are not checked.
    """
    if not isinstance(names, Mapping):
        return dict.fromkeys(field_names("stack_compress", names), -1)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"stack_compress must be a mapping from field names, got {names!r}")
    axes = {name: integer(f"stack_compress[{name!r}]", axis) for name, axis in names.items()}
    shapes = {name: shape for name, _, shape in fields}
    for name, axis in axes.items():
        shape = shapes.get(name, shapes.get(name.removeprefix("next_")))
        most = LARGEST if shape is None else max(len(shape), 1) - 1
        if not -most - 1 <= axis <= most:
            raise ValueError(
                f"stack_compress[{name!r}] must be an axis of the shape {shape}, from {-most - 1} to {most}, got {axis}"
            )
    return axes


def check_compress(compress: str | None, stacks: Collection[str], prefix: str | None) -> None:
    """Raise ValueError if the frames of `stacks` cannot be compressed in this way; None means no compression."""
    if compress is None:
        return
    if compress != "lz4":
        raise ValueError(f"compress must be 'lz4' or None, got {compress!r}")
    if not stacks:
        raise ValueError("compress must be None unless stack_compress names the fields whose frames are compressed")
    if prefix is not None:
        raise ValueError("compress must be None if mmap_prefix is given: frames are compressed only in memory")


def path_prefix(prefix: str | os.PathLike[str] | None) -> str | None:
    """Return `mmap_prefix` as a str, or None if it is None or empty. Raises TypeError for other types, even bytes."""
    path = os.fspath(prefix) if isinstance(prefix, os.PathLike) else prefix
    if not isinstance(path, str | None):
        raise TypeError(f"mmap_prefix must be a str or a path, got {prefix!r}")
    return path or None


def next_fields(fields: list[NativeField], names: Sequence[str]) -> list[NativeField]:
    """Return a field "next_NAME", like NAME, for each of `names` that has no such field yet.

    Raises KeyError for a name that is not a field.
    """
    by_name = {name: (dtype, shape) for name, dtype, shape in fields}
    for name in names:
        if name not in by_name:
            raise KeyError(f"next_of: there is no field {name!r}")
    return [(f"next_{name}", *by_name[name]) for name in names if f"next_{name}" not in by_name]


def parse_size(size: Any) -> int:
    """Return a capacity as cpprb interprets it: an int, or a truncated float (1e6, 10.7 -> 10).

    Raises TypeError for anything else, OverflowError if it is negative or too large, ValueError if 0 or not finite.
    """
    if isinstance(size, (str, bytes)) or not hasattr(size, "__int__"):
        raise TypeError(f"size must be a number of transitions, got {size!r}")
    if size != size or size in (float("inf"), float("-inf")):
        raise ValueError(f"size must be finite, got {size!r}")
    whole = int(size)
    if whole < 0:
        raise OverflowError(f"size must not be negative, got {size!r}")
    if whole > LARGEST:
        raise OverflowError(f"size must be below 2**63, got {size!r}")
    if whole == 0:
        raise ValueError("size must be at least 1")
    return whole


def integer(name: str, value: Any) -> int:
    """Return `value` as an int. Raises TypeError naming `name` for any other type, including floats."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got {value!r}") from None


def flag(name: str, value: Any) -> bool:
    """Return `value` as a bool. Raises TypeError naming `name` for text, since even "no" would be true."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} must be a bool, got {value!r}")
    return bool(value)


def parse_seed(seed: Any) -> int | None:
    """Return `seed` as an int, or None. Raises TypeError (for bools, too) or ValueError if it is not a valid seed."""
    if seed is None:
        return None
    try:
        number = None if isinstance(seed, (bool, np.bool_)) else operator.index(seed)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"seed must be an int, got {seed!r}")
    if not 0 <= number < 2**64:
        raise ValueError(f"seed must be from 0 to 2**64 - 1, got {number}")
    return number


def positive_integer(name: str, value: Any) -> int:
    """Return `value` as an int of at least 1; a float is truncated. Raises TypeError or ValueError naming `name`."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__int__"):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not (1 <= value < float("inf")):  # NaN fails too
        raise ValueError(f"{name} must be at least 1 and finite, got {value!r}")
    return int(value)


def object_shapes(fields: Sequence[NativeField]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each object field, by name. Raises ValueError if a shape is invalid."""
    shapes = {name: shape for name, dtype, shape in fields if dtype.kind == "O"}
    for name, shape in shapes.items():
        if min(shape, default=1) < 1:
            raise ValueError(f"{name}: shape must be positive in every dimension, got {shape}")
    return shapes


def without_objects(fields: Sequence[NativeField]) -> list[NativeField]:
    """Return the fields as the native ring stores them, with int64 numbers in place of objects."""
    return [(n, np.dtype(np.int64), (1,)) if dtype.kind == "O" else (n, dtype, shape) for n, dtype, shape in fields]


def refuse_objects(objects: Collection[str], stack_compress: Collection[str], mmap_prefix: Any) -> None:
    """Raise ValueError for options that do not work with object fields."""
    for name in stack_compress:
        if name in objects:
            raise ValueError(f"stack_compress: {name!r} holds Python objects, which have no frames")
    if mmap_prefix is not None:
        raise ValueError(f"mmap_prefix: Python objects ({', '.join(objects)}) cannot be kept in files")
