"""A workload of the user's own: any Gymnasium environment, or any fields (`own_file`).

The runner describes it, records it and keeps the recording (`suites.workloads.keep`). A launch, in whatever
environment, reads that file and knows nothing else: it need not be able to import what was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from adapters.base import Columns, Field, Spec
from suites.workloads import SEED, keep_own
from suites.workloads.recipes import RANDOM, gymnasium_make
from suites.workloads.recording import CannotBeStored, columns_of, record

SMALLEST_CAPACITY = 64  # rows: the suites' checks need so many
RECORDED_ROWS, RECORDED_BYTES = 20_000, 64 << 20  # at most so many of either, and at least FEWEST_ROWS
FEWEST_ROWS = 256


class BadWorkload(ValueError):  # noqa: N818 (what the user is told)
    """There is no such workload, or it can't be measured; the message says what is wrong with it."""


@dataclass(frozen=True)
class OwnSizes:
    """How much of such a workload a profile stores, where its user does not say so."""

    rows: int  # its capacity, unless these rows are more than
    bytes: int
    memory_rows: int  # its capacity in the memory suite, at most


@dataclass(frozen=True)
class Own:
    """What is known of it before it is recorded."""

    name: str
    source: str
    fields: Mapping[str, Field]
    record: Callable[[int], Columns]  # so many rows of it
    capacity: int | None = None  # None: by the size of a row
    adds: tuple[int, ...] = (1, 100)  # rows a call
    samples: tuple[int, ...] = (32, 256)

    @property
    def row_bytes(self) -> int:
        return sum(np.dtype(each.dtype).itemsize * int(np.prod(each.shape, dtype=int)) for each in self.fields.values())

    @property
    def is_plain(self) -> bool:
        """Its rows are steps; otherwise they are dicts."""
        return Spec(1, self.fields).is_plain

    @property
    def has_episodes(self) -> bool:
        """Its rows are steps, and show where an observation is the next one of the step before."""
        return self.is_plain and self.fields["next_obs"] == self.fields["obs"] and self.fields["done"].shape == ()

    def fitting_capacity(self, rows: int, size: int) -> int:
        """What the user named, else so many rows, or as many as fit into `size` bytes if those are fewer."""
        return self.capacity or max(SMALLEST_CAPACITY, *self.adds, *self.samples, min(rows, size // self.row_bytes))

    def keep(self, sizes: OwnSizes, wanted: Iterable[int]) -> None:
        """Record it: as many rows as are usual with these sizes, or as are `wanted` if that is more."""
        size = min(sizes.rows, RECORDED_BYTES // self.row_bytes)
        usual = max(FEWEST_ROWS, *self.adds, min(RECORDED_ROWS, size))
        rows = max([usual, *wanted])
        print(f"recording {rows:,} rows of {self.name}", flush=True)
        keep_own(self.name, self.source, self.record(rows), usual)


def of_environment(name: str) -> Own:
    """Of any id that `gymnasium.make` takes, "module:name" included."""

    def rows(count: int) -> Columns:
        try:
            env = gymnasium_make(name)
            columns = columns_of(record(env, count, SEED))
            env.close()
        except Exception as error:  # of Gymnasium or of the environment: the user's to mend
            kind = "" if isinstance(error, CannotBeStored) else f"{type(error).__name__}: "
            raise BadWorkload(f"environment {name}: {kind}{error}") from error
        return columns

    few = rows(2)
    fields = {key: Field(column.shape[1:], column.dtype.name) for key, column in few.items()}
    for key, field in fields.items():
        if 0 in field.shape:
            raise BadWorkload(f"environment {name}: {key} has no numbers: its shape is {field.shape}")
    import gymnasium

    source = f"{name}, by Gymnasium {gymnasium.__version__}, {RANDOM}; floats of 64 bits are stored as 32"
    return Own(name, source, fields, rows)
