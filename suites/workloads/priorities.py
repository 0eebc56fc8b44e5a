"""Priorities for the updates of a timed loop."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

SETS = 1_021  # prime, so that the cycle does not coincide with any other period


def priority_sets(rows: int, seed: int = 1) -> Iterator[np.ndarray]:
    """Return an endless iterator over arrays of priorities, each (rows,) float64."""
    return itertools.cycle(list(np.random.default_rng(seed).uniform(0.01, 1.0, (SETS, rows))))
