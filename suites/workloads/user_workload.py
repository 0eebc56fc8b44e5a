"""A user-defined workload: any Gymnasium environment, or any fields (`user_workload_file`).

The runner records it and saves the recording (`suites.workloads.save_user_workload`). A launch, in any venv, only reads
that file, so it need not be able to import the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from adapters.base import Columns, Field, Spec
from suites.workloads import SEED, save_user_workload
from suites.workloads.recipes import RANDOM, gymnasium_make
from suites.workloads.recording import CannotBeStored, columns_of, record

SMALLEST_CAPACITY = 64  # rows; the suites' checks need this many
RECORDED_ROWS, RECORDED_BYTES = 20_000, 64 << 20  # upper limits of a recording, which has at least FEWEST_ROWS
FEWEST_ROWS = 256


class BadWorkload(ValueError):  # noqa: N818 (the message is for the user)
    """The workload does not exist or cannot be measured; the message says why."""


@dataclass(frozen=True)
class UserSizes:
    """How many rows of a user-defined workload a profile stores, unless the user sets a capacity."""

    rows: int  # the capacity, if this many rows fit into `bytes`
    bytes: int
    memory_rows: int  # the largest capacity in the memory suite


@dataclass(frozen=True)
class UserWorkload:
    """The properties of a workload that are known before it is recorded."""

    name: str
    source: str
    fields: Mapping[str, Field]
    record: Callable[[int], Columns]  # records this many rows
    capacity: int | None = None  # None: depends on the size of a row
    adds: tuple[int, ...] = (1, 100)  # rows per call
    samples: tuple[int, ...] = (32, 256)

    @property
    def row_bytes(self) -> int:
        return sum(np.dtype(each.dtype).itemsize * int(np.prod(each.shape, dtype=int)) for each in self.fields.values())

    @property
    def is_plain(self) -> bool:
        """Whether its rows are steps; otherwise they are dicts."""
        return Spec(1, self.fields).is_plain

    @property
    def has_episodes(self) -> bool:
        """Whether its rows are steps in which an observation can be the next observation of the step before."""
        return self.is_plain and self.fields["next_obs"] == self.fields["obs"] and self.fields["done"].shape == ()

    def fitting_capacity(self, rows: int, size: int) -> int:
        """Return the capacity that the user set, or else `rows`, or fewer if only fewer rows fit into `size` bytes."""
        return self.capacity or max(SMALLEST_CAPACITY, *self.adds, *self.samples, min(rows, size // self.row_bytes))

    def keep(self, sizes: UserSizes, wanted: Iterable[int]) -> None:
        """Record and save the usual number of rows for these sizes, or the largest number in `wanted` if larger."""
        size = min(sizes.rows, RECORDED_BYTES // self.row_bytes)
        usual = max(FEWEST_ROWS, *self.adds, min(RECORDED_ROWS, size))
        rows = max([usual, *wanted])
        print(f"recording {rows:,} rows of {self.name}", flush=True)
        save_user_workload(self.name, self.source, self.record(rows), usual)


def of_environment(name: str) -> UserWorkload:
    """Return a workload from any id that `gymnasium.make` accepts, including "module:name"."""

    def rows(count: int) -> Columns:
        try:
            env = gymnasium_make(name)
            columns = columns_of(record(env, count, SEED))
            env.close()
        except Exception as error:  # raised by Gymnasium or the environment, so the user has to fix it
            kind = "" if isinstance(error, CannotBeStored) else f"{type(error).__name__}: "
            raise BadWorkload(f"environment {name}: {kind}{error}") from error
        return columns

    few = rows(2)
    fields = {key: Field(column.shape[1:], column.dtype.name) for key, column in few.items()}
    for key, field in fields.items():
        if 0 in field.shape:
            raise BadWorkload(f"environment {name}: {key} must not be empty, got shape {field.shape}")
    import gymnasium

    source = f"{name}, by Gymnasium {gymnasium.__version__}, {RANDOM}; 64-bit floats are stored as 32-bit"
    short = name.rpartition(":")[2]  # without the module that registers it
    return UserWorkload(short, source, fields, rows)
