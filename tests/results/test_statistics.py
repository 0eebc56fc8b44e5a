"""Figures, ratios and tests agree with manual calculations and with seeded simulations."""

import numpy as np
import pytest
from scipy import stats

from results import Record
from results.analysis.pairs import log_slow_downs
from results.statistics import confidence, detectable, figure, holm, least_p, p_equal, speed_up, speed_ups


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
def test_a_figure_of_one_or_two_launches_is_a_range_with_a_remark(values, low, high):
    got = figure(values)
    assert (got.low, got.high, got.is_range) == (low, high, True)


def test_the_interval_of_three_launches_spans_them():
    assert (figure([1.0, 2.0, 3.0]).low, figure([1.0, 2.0, 3.0]).high) == (1.0, 3.0)


def test_equal_launches_need_no_interval():
    assert (figure([2.0] * 5).low, figure([2.0] * 5).high) == (2.0, 2.0)


@pytest.mark.parametrize("launches", [6, 9, 12, 15])
def test_the_interval_contains_the_true_median_with_its_stated_probability(launches):
    drawn = np.random.default_rng(0).lognormal(size=(4_000, launches))
    contains = [found.low <= 1 <= found.high for found in map(figure, drawn)]
    assert confidence(launches) >= 0.95 and np.mean(contains) == pytest.approx(confidence(launches), abs=0.01)


@pytest.mark.parametrize(("better", "mine", "theirs"), [("lower", 1.0, 2.0), ("higher", 2.0, 1.0)])
def test_a_speed_up_above_one_means_faster_whichever_direction_is_better(better, mine, theirs):
    blocks = range(3)
    ratio = speed_up(record(better, dict.fromkeys(blocks, mine)), record(better, dict.fromkeys(blocks, theirs)))
    assert ratio is not None
    assert ratio.value == 2.0
    assert list(log_slow_downs(dict.fromkeys(blocks, theirs), dict.fromkeys(blocks, mine), better)) == pytest.approx(
        [-np.log(2)] * 3
    )


def test_ratios_are_taken_within_a_block():
    """Block 1 is ten times as slow for both peers, which affects a ratio of medians but not a median of ratios."""
    mine, reference = record("lower", {0: 1.0, 1: 10.0, 2: 1.0}), record("lower", {1: 20.0, 0: 2.0, 5: 1.0})
    assert speed_ups(mine, reference) == {0: 2.0, 1: 2.0}
    assert speed_up(mine, record("lower", {7: 1.0})) is None


def test_p_values_are_adjusted_by_holms_method():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_test_of_equality_is_exact():
    apart = [1.0, 2.0, 3.0, 4.0, 5.0], [11.0, 12.0, 13.0, 14.0, 15.0]
    assert p_equal(*apart) == pytest.approx(2 / 252) == pytest.approx(least_p(5, 5))
    assert p_equal([1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 4.0, 3.0, 2.0, 1.0]) == 1
    assert least_p(3, 3) > 0.05 > least_p(4, 4)


def test_students_test_detects_the_detectable_difference():
    random = np.random.default_rng(0)
    least = detectable([-1.0, 1.0] * 3, [-1.0, 1.0] * 3)  # the standard deviation is sqrt(6/5)
    one, other = (random.normal(mean, np.sqrt(1.2), (20_000, 6)) for mean in (0.0, least))
    assert np.mean(stats.ttest_ind(one, other, axis=1).pvalue < 0.05) == pytest.approx(0.8, abs=0.01)
