"""Rows of parallel environments, for libraries whose add takes exactly one row from each environment."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adapters.base import Columns

ENVIRONMENTS = 100  # rows per batch in the suites


def environments(capacity: int) -> int:
    """Return the number of environments for a buffer of this capacity. It divides the capacity, because otherwise the
    oldest row would not be overwritten first."""
    return math.gcd(capacity, ENVIRONMENTS)


class RowCollector:
    """Collects rows and passes them to `put`, exactly `at_once` at a time."""

    def __init__(self, at_once: int, put: Callable[[Columns], None]) -> None:
        self.at_once, self.put = at_once, put
        self.rest: Columns = {}

    @property
    def waiting(self) -> int:
        return len(next(iter(self.rest.values()))) if self.rest else 0

    def add(self, columns: Columns) -> None:
        if self.rest:
            columns = {name: np.concatenate([self.rest[name], column]) for name, column in columns.items()}
        rows = len(next(iter(columns.values())))
        whole = rows - rows % self.at_once
        for at in range(0, whole, self.at_once):
            self.put({name: column[at : at + self.at_once] for name, column in columns.items()})
        self.rest = {name: column[whole:].copy() for name, column in columns.items()} if whole < rows else {}

    def add_dicts(self, rows: Sequence[dict[str, Any]]) -> None:
        self.add({name: np.stack([row[name] for row in rows]) for name in rows[0]})
