"""Figures, ratios and tests against cases worked out by hand, and against seeded simulations."""

import numpy as np
import pytest
from scipy import stats

from reports.figures.statistics import figure, holm, log_slow_downs, middle_and_bounds, p_above, speed_up, speed_ups
from results import Record


def record(better, values):
    made = Record("throughput", "add", "cpprb", "CartPole-v1", {}, "s", better)
    for block, value in values.items():
        made.add_sample(block, value)
    return made


def test_a_figure_is_the_median_inside_its_interval():
    values = [3.0, 1.0, 2.0, 5.0, 4.0, 9.0, 7.0, 8.0, 6.0, 10.0, 11.0]
    got = figure(values)
    assert got.value == 6.0
    assert min(values) < got.low < got.value < got.high < max(values)
    assert not got.is_range


@pytest.mark.parametrize(("values", "low", "high"), [([2.0], 2.0, 2.0), ([1.0, 4.0], 1.0, 4.0)])
def test_one_or_two_launches_give_a_range_and_say_so(values, low, high):
    got = figure(values)
    assert (got.low, got.high, got.is_range) == (low, high, True)


def test_the_interval_of_three_launches_spans_them():
    assert (figure([1.0, 2.0, 3.0]).low, figure([1.0, 2.0, 3.0]).high) == (1.0, 3.0)


def test_equal_launches_need_no_interval():
    assert (figure([2.0] * 5).low, figure([2.0] * 5).high) == (2.0, 2.0)


def test_the_same_values_give_the_same_interval():
    values = list(np.random.default_rng(0).lognormal(size=9))
    assert figure(values) == figure(values)


@pytest.mark.parametrize(("better", "mine", "theirs"), [("lower", 1.0, 2.0), ("higher", 2.0, 1.0)])
def test_speed_up_above_one_is_faster_whatever_better_means(better, mine, theirs):
    blocks = range(3)
    ratio = speed_up(record(better, dict.fromkeys(blocks, mine)), record(better, dict.fromkeys(blocks, theirs)))
    assert ratio is not None
    assert ratio.value == 2.0
    assert list(log_slow_downs(dict.fromkeys(blocks, theirs), dict.fromkeys(blocks, mine), better)) == pytest.approx(
        [-np.log(2)] * 3
    )


def test_ratios_are_taken_within_a_block():
    """Block 1 is ten times as slow for both; a ratio of medians would see it, a median of ratios doesn't."""
    mine, reference = record("lower", {0: 1.0, 1: 10.0, 2: 1.0}), record("lower", {1: 20.0, 0: 2.0, 5: 1.0})
    assert speed_ups(mine, reference) == {0: 2.0, 1: 2.0}
    assert speed_up(mine, record("lower", {7: 1.0})) is None


def test_p_above_is_exact_and_one_sided():
    all_slower = np.linspace(0.1, 0.3, 10)
    assert p_above(all_slower) == 2**-10
    assert p_above(-all_slower) == 1.0
    assert p_above(all_slower, 0.3) == pytest.approx(1.0)
    assert p_above(np.zeros(10)) == 1.0


@pytest.mark.parametrize("count", [8, 11])
def test_p_above_agrees_with_scipy(count):
    """Where all sizes are alike so are the weights, and the test is the sign-flip test of the mean."""
    differences = np.random.default_rng(count).choice([-0.1, 0.1], count, p=[0.2, 0.8])
    expected = stats.permutation_test((differences,), np.mean, permutation_type="samples", alternative="greater")
    assert p_above(differences) == pytest.approx(expected.pvalue)


def test_one_outlier_does_not_hide_a_slow_down():
    with_outlier = np.array([0.26, 0.2, 0.3, 0.25, 0.28, 0.24, 0.22, 0.31, 0.27, -0.8])
    plain_mean = stats.permutation_test((with_outlier,), np.mean, permutation_type="samples", alternative="greater")
    assert p_above(with_outlier) < 0.05 / 12 < plain_mean.pvalue


@pytest.mark.parametrize("count", [8, 10, 20])
def test_p_above_keeps_its_promise_on_noise(count):
    """Under the null a p-value of at most alpha comes up at most that often, heavy tails and all."""
    random = np.random.default_rng(3)
    p_values = np.array([p_above(random.standard_t(2, count)) for _ in range(300)])
    for alpha in (0.05, 0.2):
        allowed = 300 * alpha + 3 * np.sqrt(300 * alpha * (1 - alpha))
        assert np.sum(p_values <= alpha) <= allowed


def test_bounds_hold_what_they_say_under_heavy_tails():
    random = np.random.default_rng(2)
    bounds = [middle_and_bounds(random.standard_t(2, 10), 0.05) for _ in range(300)]
    allowed = 300 * 0.05 + 3 * np.sqrt(300 * 0.05 * 0.95)
    assert sum(high < 0 for _, _, high in bounds) <= allowed
    assert sum(low > 0 for _, low, _ in bounds) <= allowed
    assert all(low <= middle <= high for middle, low, high in bounds)


def test_bounds_are_where_the_test_rejects():
    differences = np.random.default_rng(4).normal(0.05, 0.07, 10)
    _, low, high = middle_and_bounds(differences, 0.05)
    assert p_above(differences, low - 1e-6) <= 0.05 < p_above(differences, low + 1e-6)
    assert p_above(-differences, -high - 1e-6) <= 0.05 < p_above(-differences, -high + 1e-6)


def test_bounds_of_too_few_pairs_exclude_nothing():
    assert middle_and_bounds(np.array([1.0, 1.1]), 0.05)[1:] == (-np.inf, np.inf)


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
