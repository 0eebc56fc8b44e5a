"""Figures and ratios, each with an interval. A launch (a fresh process) is the unit of repetition.

Intervals are exact confidence intervals for the median, based on order statistics, and assume nothing about the
distribution (Hahn and Meeker 1991, "Statistical Intervals", section 5.2). With few launches, such an interval spans the
samples, and contains the true median with probability 1 - 2^(1-n): 75% for 3 launches, 94% for 5. The report says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from results.analysis.pairs import by_block
from results.record import Record

CONFIDENCE = 0.95
FEWEST_FOR_INTERVAL = 3  # with fewer, only the lowest and the highest sample are shown
RESAMPLES = 9_999
SEED = 20_261_120  # fixed, so that the same record always gives the same report


@dataclass(frozen=True)
class Figure:
    """A median over launches or blocks, with its interval; in the record's unit, or a ratio."""

    value: float
    low: float
    high: float
    launches: int

    @property
    def is_range(self) -> bool:
        """Whether `low` and `high` are merely the lowest and highest sample."""
        return self.launches < FEWEST_FOR_INTERVAL


def figure(values: Sequence[float]) -> Figure:
    """Return the median with its exact 95% interval. `values` must not be empty."""
    data = np.sort(np.asarray(values, dtype=float))
    end = rank(len(data)) - 1
    return Figure(float(np.median(data)), float(data[end]), float(data[-1 - end]), len(data))


@cache
def rank(launches: int) -> int:
    """Return k, at least 1: the ends of the interval are the k-th lowest and the k-th highest sample."""
    least = next(count for count in range(launches + 1) if _at_most(count, launches) >= (1 - CONFIDENCE) / 2)
    return max(1, least)


def confidence(launches: int) -> float:
    """Return the probability that the interval contains the true median."""
    return 1 - 2 * _at_most(rank(launches) - 1, launches)


def _at_most(count: int, launches: int) -> float:
    """Return the probability that at most `count` of the launches are below the true median."""
    return sum(math.comb(launches, below) for below in range(count + 1)) / (1 << launches)


def speed_ups(record: Record, reference: Record) -> dict[int, float]:
    """Map each block with both values to the speed-up: above 1 is faster than the reference, whatever `better` is.

    Blocks in which either value is not above 0 are omitted.
    """
    mine, theirs = by_block(record), by_block(reference)
    blocks = sorted(block for block in mine.keys() & theirs.keys() if mine[block] > 0 and theirs[block] > 0)
    if record.better == "lower":
        return {block: theirs[block] / mine[block] for block in blocks}
    return {block: mine[block] / theirs[block] for block in blocks}


def speed_up(record: Record, reference: Record) -> Figure | None:
    """Return the median over blocks of the ratio within each block; None if no block has both."""
    ratios = speed_ups(record, reference)
    return figure(list(ratios.values())) if ratios else None


def p_equal(mine: Sequence[float], others: Sequence[float]) -> float:
    """Return the two-sided p-value of "both come from one distribution", by permuting the difference of means.

    The test is exact even for the few seeds of training runs, whatever the distribution of their returns: with five of
    each, it counts all 252 ways of dividing them. The smallest p-value is then 2 in 252.
    """

    def difference(one: np.ndarray, other: np.ndarray, axis: int) -> np.ndarray:
        means: np.ndarray = np.mean(one, axis=axis) - np.mean(other, axis=axis)
        return means

    from scipy import stats  # importing it takes longer than all else that a runner imports

    rng = np.random.default_rng(SEED)
    found = stats.permutation_test((mine, others), difference, vectorized=True, n_resamples=RESAMPLES, rng=rng)
    return float(found.pvalue)


def least_p(mine: int, others: int) -> float:
    """Return the smallest p-value that `p_equal` can return for these numbers of values."""
    return (2 if mine == others else 1) / math.comb(mine + others, mine)


def detectable(mine: Sequence[float], others: Sequence[float], power: float = 0.8) -> float:
    """Return the difference of means that a test at level 5% would find with this power, given these values' spread.

    Computed for Student's t-test, which the permutation test of the means resembles.
    """
    from scipy import stats

    freedom = len(mine) + len(others) - 2
    spread = sum(float(np.var(values, ddof=1)) * (len(values) - 1) for values in (mine, others)) / freedom
    quantiles = stats.t.ppf((1 + CONFIDENCE) / 2, freedom) + stats.t.ppf(power, freedom)
    return float(quantiles * math.sqrt(spread * (1 / len(mine) + 1 / len(others))))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: if each result is compared with alpha, the family-wise error rate is at most alpha."""
    count = len(p_values)
    adjusted, highest = [0.0] * count, 0.0
    for place, index in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (count - place) * p_values[index]))
        adjusted[index] = highest
    return adjusted
