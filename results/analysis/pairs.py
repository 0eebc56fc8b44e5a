"""Pairs of launches of the two sides in the same block."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from results.record import Record


def by_block(record: Record) -> dict[int, float]:
    return {sample.block: sample.value for sample in record.samples}


def log_slow_downs(base: Mapping[int, float], head: Mapping[int, float], better: str) -> np.ndarray:
    """Return, for each block in order, the log of head's time divided by base's. Above 0, head is slower."""
    sign = 1.0 if better == "lower" else -1.0
    return np.array([sign * math.log(head[block] / base[block]) for block in sorted(base.keys() & head.keys())])
