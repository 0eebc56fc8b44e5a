"""A workload from a TOML file: names, shapes and dtypes of the fields, and what is asked of the buffer.

    name = "my-robot"                     # how the report calls it; default: the file's name
    capacity = 50_000                     # rows; default: by the size of a row and the profile
    add = [1, 64]                         # rows a call; default [1, 100]
    sample = [128]                        # rows a batch; default [32, 256]

    [fields]
    obs.image = { shape = [64, 64, 3], dtype = "uint8" }
    rew = { dtype = "float32" }           # a scalar

The content is random, seeded, and says so in the report. A field next_X of the same shape and dtype as X holds the X
of the row after it, as in an episode.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from adapters.base import Columns, Field, Step
from adapters.checks import AddedRows, keyed_columns
from suites.workloads import SEED
from suites.workloads.own import SMALLEST_CAPACITY, BadWorkload, Own
from suites.workloads.recipes import RECIPES

KEYS = ("name", "capacity", "add", "sample", "fields")
FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+-]*")
DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64"),
)
TAKEN = ("weights", "indexes", "priorities")
CHECKED_ROWS = 64


def of_file(path: Path) -> Own:
    try:
        return _own(tomllib.loads(path.read_text(encoding="utf-8")), path.stem)
    except OSError as error:
        raise BadWorkload(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadWorkload(f"{path}: not a TOML file: {error}") from None
    except BadWorkload as error:
        raise BadWorkload(f"{path}: {error}") from None


def _own(told: dict[str, Any], stem: str) -> Own:
    if unknown := [key for key in told if key not in KEYS]:
        raise BadWorkload(f"unknown key {unknown[0]!r}; known: {', '.join(KEYS)}")
    name = told.get("name", stem)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadWorkload(f"name must be letters, digits and any of . _ : / + -, got {name!r}")
    if name in RECIPES:
        raise BadWorkload(f"name: {name} is one of this project's own workloads")
    fields = _fields(told.get("fields"))
    sizes = {key: _sizes(key, told[key]) for key in ("add", "sample") if key in told}
    own = Own(
        name,
        "Made up from a TOML file: seeded random content (floats of a normal distribution, integers of the whole range "
        "of their dtype, flags a fair coin; next_x is the x of the row after it)",
        fields,
        lambda rows: random_columns(fields, rows),
        **{f"{key}s": rows for key, rows in sizes.items()},
    )
    if "capacity" in told:
        own = replace(own, capacity=_capacity(told["capacity"], own))
    return own


def _capacity(capacity: Any, own: Own) -> int:
    fewest = max(SMALLEST_CAPACITY, *own.adds, *own.samples)
    if not _is_whole(capacity) or capacity < fewest:
        raise BadWorkload(f"capacity must be a whole number of rows, at least {fewest}, got {capacity!r}")
    needed, there = capacity * own.row_bytes, psutil.virtual_memory().total
    if needed > there:
        raise BadWorkload(
            f"capacity: {capacity:,} rows of {own.row_bytes:,} bytes are {needed / 2**30:,.1f} GiB; "
            f"this machine has {there / 2**30:,.1f}"
        )
    return capacity


def _sizes(key: str, told: Any) -> tuple[int, ...]:
    if not isinstance(told, list) or not told or not all(_is_whole(rows) and rows > 0 for rows in told):
        raise BadWorkload(f"{key} must be a list of rows per call, such as [1, 64], got {told!r}")
    return tuple(dict.fromkeys(told))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _fields(told: Any) -> dict[str, Field]:
    if not isinstance(told, dict) or not told:
        raise BadWorkload('fields must be a table, such as: obs = { shape = [4], dtype = "float32" }')
    fields: dict[str, Field] = {}
    for name, about in _leaves(told, ""):
        if not FIELD.fullmatch(name):
            raise BadWorkload(f"fields: a name must be a letter, then letters, digits, _ and dots, got {name!r}")
        if name in TAKEN:
            raise BadWorkload(f"fields: {name!r} is what a prioritized batch has beside its fields: take another name")
        if name in fields:
            raise BadWorkload(f"fields: {name!r} is there twice")
        fields[name] = _field(name, about)
    if set(fields) == set(Step._fields):  # the order that makes them a step's
        fields = {name: fields[name] for name in Step._fields}
    _check_that_rows_differ(fields)
    return fields


def _leaves(table: dict[str, Any], prefix: str) -> Iterator[tuple[str, dict]]:
    """The fields; a table that holds nothing but tables is an observation's or action's parts."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if not isinstance(value, dict) or not value or not key:
            raise BadWorkload(
                f'fields.{name} must be a table, such as {{ shape = [4], dtype = "float32" }}, got {value!r}'
            )
        if all(isinstance(part, dict) for part in value.values()):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _field(name: str, about: dict[str, Any]) -> Field:
    if unknown := [key for key in about if key not in ("shape", "dtype")]:
        raise BadWorkload(f"fields.{name}: unknown key {unknown[0]!r}; known: shape, dtype")
    dtype, shape = about.get("dtype"), about.get("shape", [])
    if dtype not in DTYPES:
        raise BadWorkload(f"fields.{name}: dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    if not isinstance(shape, list) or not all(_is_whole(length) and length > 0 for length in shape):
        raise BadWorkload(
            f"fields.{name}: shape must be a list of lengths above 0 (of none for a scalar), got {shape!r}"
        )
    return Field(tuple(shape), dtype)


def _check_that_rows_differ(fields: dict[str, Field]) -> None:
    columns = keyed_columns(fields, CHECKED_ROWS)
    if len(set(AddedRows(columns, fields).check(columns).tolist())) < CHECKED_ROWS:
        raise BadWorkload("fields: such rows have too few values to be told apart, so no answer could be checked")


def random_columns(fields: dict[str, Field], rows: int) -> Columns:
    columns: Columns = {}
    for number, (name, field) in enumerate(fields.items()):
        before = name.removeprefix("next_")
        if before == name or fields.get(before) != field:
            columns[name] = _random(np.random.default_rng([SEED, number]), field, rows + 1)
    following = {name: columns[name.removeprefix("next_")][1:] for name in fields if name not in columns}
    return {name: following[name] if name in following else columns[name][:rows] for name in fields}


def _random(generator: np.random.Generator, field: Field, rows: int) -> np.ndarray:
    dtype, shape = np.dtype(field.dtype), (rows, *field.shape)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "f":
        return generator.standard_normal(shape, np.float32).astype(dtype)
    range_ = np.iinfo(dtype)
    return generator.integers(range_.min, range_.max, shape, dtype, endpoint=True)
