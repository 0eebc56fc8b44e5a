"""results/suites.toml describes what the suites measure, and nothing else."""

from __future__ import annotations

from string import Formatter

import pytest

from results.suites import SUITES, SuitePresentation
from results.verdicts import REFERENCE, REFERENCES
from suites import SUITES as NAMES
from suites import suite_named


def test_every_suite_is_described():
    assert set(SUITES) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_has_a_label_and_every_label_a_benchmark(name):
    measured, told = suite_named(name).benchmarks, SUITES[name]
    assert set(told.labels) == set(measured)
    assert {*told.meanings, *told.counts} <= set(measured)
    assert told.reference == REFERENCES.get(name, REFERENCE)


@pytest.mark.parametrize("name", NAMES)
def test_notes_and_meanings_are_paragraphs_that_end_with_a_full_stop(name):
    note = SUITES[name].note
    assert "\n" not in note and note == note.strip()
    assert note.endswith(".")
    for text in SUITES[name].meanings.values():
        assert "\n" not in text and text == text.strip() and text.endswith(".")


def test_a_suite_that_is_not_listed_ranks_peers_under_its_own_name():
    suite = SuitePresentation("endurance")
    assert (suite.title, suite.spoken, suite.kind.name) == ("Endurance", "endurance", "RANKS")


def test_braces_in_labels_are_names_of_parameters():
    for suite in SUITES.values():
        for label in suite.labels.values():
            assert all(name is None or name.isidentifier() for _, name, _, _ in Formatter().parse(label))
