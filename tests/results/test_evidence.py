"""Evidence keeps its error rates however often it is checked, and real effects are found soon enough."""

import math

import numpy as np
import pytest
from scipy import stats

from results.analysis.evidence import MOST, bounds, log_wealth

NOISES = {
    "normal": lambda random, count: random.normal(size=count),
    "heavy tails": lambda random, count: random.standard_t(1.5, count),
    # One launch in ten is much slower, on a random side.
    "outliers": lambda random, count: (
        random.normal(size=count) + 30 * random.choice((-1, 0, 1), count, p=(0.05, 0.9, 0.05))
    ),
    "two speeds": lambda random, count: random.choice((-1.0, 1.0), count) + random.normal(size=count) / 10,
}
RUNS, PAIRS, LEVEL = 400, 40, 0.05


def ever(wealth, level=LEVEL):
    return max(wealth) >= -math.log(level)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scale", [0.002, 0.03, 0.3])
def test_without_a_shift_repeated_checks_rarely_find_enough_evidence(noise, scale):
    random = np.random.default_rng(1)
    found = sum(ever(log_wealth(scale * NOISES[noise](random, PAIRS), 0.0, 0.1)) for _ in range(RUNS))
    assert found <= RUNS * LEVEL + 3 * math.sqrt(RUNS * LEVEL * (1 - LEVEL))


def test_an_ordinary_test_repeated_after_each_pair_exceeds_the_error_rate():
    """The negative control: shows the effect of repeated checks."""
    random = np.random.default_rng(1)
    runs = 0.03 * random.normal(size=(RUNS, PAIRS))
    looks = [stats.wilcoxon(runs[:, :count], alternative="greater", axis=1).pvalue for count in range(8, PAIRS + 1)]
    assert (np.min(looks, axis=0) <= LEVEL).sum() > 2 * RUNS * LEVEL


def test_centres_below_the_limit_are_even_less_often_taken_for_effects():
    random = np.random.default_rng(2)
    found = sum(ever(log_wealth(0.02 * random.normal(size=PAIRS) - 0.02, 0.0, 0.1)) for _ in range(RUNS))
    assert found <= 2


def test_twelve_clear_pairs_are_enough_for_thirty_benchmarks_at_one_percent():
    assert log_wealth([0.2] * 12, 0.0, 0.1)[-1] >= math.log(30 / 0.01)
    assert log_wealth([0.2] * 11, 0.0, 0.1)[-1] < math.log(30 / 0.01)


def test_one_contrary_pair_does_not_outweigh_all_other_evidence():
    wealth = log_wealth([0.2] * 6 + [-0.2] + [0.2] * 12, 0.0, 0.1)
    assert wealth[6] - wealth[5] == pytest.approx(math.log(1 - MOST), abs=0.1)
    assert wealth[-1] >= math.log(30 / 0.01)


def test_an_outlier_counts_less_than_a_usual_difference():
    usual, outlier = (log_wealth([0.05] * 8 + [last], 0.0, 0.1) for last in (-0.05, -3.0))
    assert usual[-1] < outlier[-1]


def test_a_difference_of_0_is_not_evidence():
    assert log_wealth([0.0] * 20, 0.0, 0.1) == [0.0] * 20


@pytest.mark.parametrize("noise", ["normal", "heavy tails"])
def test_bounds_contain_the_centre(noise):
    random = np.random.default_rng(3)
    missed = 0
    for _ in range(200):
        low, high = bounds(0.1 + 0.02 * NOISES[noise](random, 15), LEVEL, 0.05)
        missed += not low <= 0.1 <= high
    assert missed <= 200 * 2 * LEVEL + 3 * math.sqrt(200 * 2 * LEVEL)


def test_bounds_become_narrower_with_more_pairs_and_are_infinite_with_too_few():
    random = np.random.default_rng(4)
    few, many = (np.subtract(*bounds(0.02 * random.normal(size=count), LEVEL, 0.05)[::-1]) for count in (6, 60))
    assert many < few / 2
    assert bounds([0.1, 0.1], LEVEL, 0.05) == (-math.inf, math.inf)
