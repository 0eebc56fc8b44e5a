"""A workload from a TOML file: names, shapes and dtypes of the fields, and the sizes to measure.

    name = "my-robot"                     # its name in the report; default: the file's name
    capacity = 50_000                     # rows; default: depends on the size of a row and on the profile
    add = [1, 64]                         # rows per call; default [1, 100]
    sample = [128]                        # rows per batch; default [32, 256]

    [fields]
    obs.image = { shape = [64, 64, 3], dtype = "uint8" }
    rew = { dtype = "float32" }           # a scalar

The content is random and seeded, as the report says. A field next_X with the shape and dtype of X contains the X of the
following row, as in an episode.
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
from suites.workloads.recipes import RECIPES
from suites.workloads.user_workload import SMALLEST_CAPACITY, BadWorkload, UserWorkload

KEYS = ("name", "capacity", "add", "sample", "fields")
FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+-]*")
DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64"),
)
TAKEN = ("weights", "indexes", "priorities")
CHECKED_ROWS = 64


def of_file(path: Path) -> UserWorkload:
    try:
        return _workload(tomllib.loads(path.read_text(encoding="utf-8")), path.stem)
    except OSError as error:
        raise BadWorkload(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadWorkload(f"{path}: not a TOML file: {error}") from None
    except BadWorkload as error:
        raise BadWorkload(f"{path}: {error}") from None


def _workload(table: dict[str, Any], stem: str) -> UserWorkload:
    if unknown := [key for key in table if key not in KEYS]:
        raise BadWorkload(f"unknown key {unknown[0]!r}; known: {', '.join(KEYS)}")
    name = table.get("name", stem)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadWorkload(f"name must be letters, digits and any of . _ : / + -, got {name!r}")
    if name in RECIPES:
        raise BadWorkload(f"name: {name} is already used by a built-in workload")
    fields = _fields(table.get("fields"))
    sizes = {key: _sizes(key, table[key]) for key in ("add", "sample") if key in table}
    workload = UserWorkload(
        name,
        "Described by a TOML file: seeded random content (floats from a normal distribution, integers from the whole "
        "range of their dtype, fair coin flips for flags; next_x is the x of the following row)",
        fields,
        lambda rows: random_columns(fields, rows),
        **{f"{key}s": rows for key, rows in sizes.items()},
    )
    if "capacity" in table:
        workload = replace(workload, capacity=_capacity(table["capacity"], workload))
    return workload


def _capacity(capacity: Any, workload: UserWorkload) -> int:
    fewest = max(SMALLEST_CAPACITY, *workload.adds, *workload.samples)
    if not _is_whole(capacity) or capacity < fewest:
        raise BadWorkload(f"capacity must be a whole number of rows, at least {fewest}, got {capacity!r}")
    needed, there = capacity * workload.row_bytes, psutil.virtual_memory().total
    if needed > there:
        raise BadWorkload(
            f"capacity: {capacity:,} rows of {workload.row_bytes:,} bytes need {needed / 2**30:,.1f} GiB, but "
            f"this machine has {there / 2**30:,.1f} GiB of memory"
        )
    return capacity


def _sizes(key: str, sizes: Any) -> tuple[int, ...]:
    if not isinstance(sizes, list) or not sizes or not all(_is_whole(rows) and rows > 0 for rows in sizes):
        raise BadWorkload(f"{key} must be a list of rows per call, such as [1, 64], got {sizes!r}")
    return tuple(dict.fromkeys(sizes))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _fields(table: Any) -> dict[str, Field]:
    if not isinstance(table, dict) or not table:
        raise BadWorkload('fields must be a table, such as: obs = { shape = [4], dtype = "float32" }')
    fields: dict[str, Field] = {}
    for name, about in _leaves(table, ""):
        if not FIELD.fullmatch(name):
            raise BadWorkload(f"fields: a name must be a letter, then letters, digits, _ or dots, got {name!r}")
        if name in TAKEN:
            raise BadWorkload(f"fields: {name!r} is reserved for prioritized batches; choose another name")
        if name in fields:
            raise BadWorkload(f"fields: {name!r} appears twice")
        fields[name] = _field(name, about)
    if set(fields) == set(Step._fields):  # the order of a step's fields
        fields = {name: fields[name] for name in Step._fields}
    _check_that_rows_differ(fields)
    return fields


def _leaves(table: dict[str, Any], prefix: str) -> Iterator[tuple[str, dict]]:
    """Yield the name and description of each field. A table that contains only tables is a nested observation or
    action."""
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
        raise BadWorkload(f"fields.{name}: shape must be a list of lengths above 0 (empty for a scalar), got {shape!r}")
    return Field(tuple(shape), dtype)


def _check_that_rows_differ(fields: dict[str, Field]) -> None:
    columns = keyed_columns(fields, CHECKED_ROWS)
    if len(set(AddedRows(columns, fields).check(columns).tolist())) < CHECKED_ROWS:
        raise BadWorkload("fields: rows have too few distinct values to be identified, so answers could not be checked")


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
