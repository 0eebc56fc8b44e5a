"""New priorities for each update of a timed loop."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

SETS = 1_021  # prime, so that the cycle of sets never falls into step with anything


def priority_sets(rows: int, seed: int = 1) -> Iterator[np.ndarray]:
    """Priorities for so many rows, (rows,) float64, again and again."""
    return itertools.cycle(list(np.random.default_rng(seed).uniform(0.01, 1.0, (SETS, rows))))
