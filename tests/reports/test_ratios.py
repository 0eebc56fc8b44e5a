"""A ratio is not more precise than its launches and the calls of the reference support."""

import pytest

from adapters import registry
from reports.figures.ratios import Ratio, ratio_of, rounded_down
from results import Record, verdicts
from results.statistics import Figure
from suites.runner import windows

TIMES = "\N{MULTIPLICATION SIGN}"


def record(values, calls=None, peer="cpprb[MP]"):
    made = Record("sharing", "samples", peer, "CartPole-v1", {}, "samples/s", "higher")
    for block, value in enumerate(values):
        made.add_sample(block, value, calls)
    return made


def test_a_ratio_of_two_launches_has_two_digits_and_a_remark():
    ratio = ratio_of(record([2.468, 2.568], peer="other"), record([1.0, 1.0]))
    assert ratio.words == f"~2.5{TIMES} (range 2.5 to 2.6)"


def test_few_calls_of_the_reference_yield_a_lower_bound():
    mine, few = record([730.0] * 5, 90_000, peer="other"), record([1.0] * 5, 999)
    assert ratio_of(mine, few).text == f">500{TIMES}"
    assert ratio_of(mine, few).words == f"more than 500{TIMES}"
    assert ratio_of(mine, record([1.0] * 5, 1_000)).text == f"730{TIMES}"
    assert ratio_of(mine, record([1.0] * 5)).text == f"730{TIMES}"


def test_a_faster_reference_yields_no_bound():
    assert ratio_of(record([0.5] * 5, peer="other"), record([1.0] * 5, 10)).text == f"0.500{TIMES}"


def test_the_reference_and_missing_references_have_no_ratio():
    mine = record([1.0])
    assert ratio_of(mine, mine) is None and ratio_of(mine, None) is None and ratio_of(None, mine) is None


@pytest.mark.parametrize(("low", "launches", "is_clear"), [(1.2, 5, True), (1.2, 4, False), (1.05, 5, False)])
def test_a_ratio_is_clear_as_the_legend_defines_it(low, launches, is_clear):
    assert Ratio(Figure(2.0, low, 3.0, launches)).clearly_faster is is_clear


@pytest.mark.parametrize(
    ("value", "rounded"), [(730, 500), (500, 500), (499, 200), (0.31, 0.2), (1.0, 1), (1999, 1000), (9.99, 5)]
)
def test_bounds_are_rounded_down(value, rounded):
    assert rounded_down(value) == rounded


def test_reports_and_suites_use_the_same_thresholds():
    """The packages do not import each other, but suites spend a budget on what a report needs."""
    assert windows.ENOUGH_CALLS == verdicts.FEWEST_CALLS
    assert registry.REFERENCES == (
        verdicts.REFERENCE,
        verdicts.SHARED_REFERENCE,
        verdicts.HOSTS_REFERENCE,
        verdicts.PAIRED_REFERENCE,
        verdicts.SEQUENCES_REFERENCE,
    )
