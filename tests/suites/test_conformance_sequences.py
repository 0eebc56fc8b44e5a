"""The conformance suite's checks of peers that draw sequences."""

import json
from dataclasses import replace

import pytest

from adapters import registry
from adapters.behaviours import SequenceBounds, SequenceStarts
from adapters.sequences import SequenceContract
from suites.conformance import measure as conformance
from suites.conformance.spec import SEQUENCE_BENCHMARKS, ConformanceSettings
from tests.adapters import sequence_peers as peers

OURS = "cpprb_impl[sequences]"


def results(monkeypatch, kind):
    monkeypatch.setattr(registry, "sequences_class", lambda _name: kind)
    return {each.benchmark: each for each in conformance.measure_sequences(OURS, ConformanceSettings())}


def test_each_check_of_a_sound_peer_has_a_figure_and_its_word(monkeypatch):
    found = results(monkeypatch, peers.Sound)
    assert found.keys() == SEQUENCE_BENCHMARKS.keys()
    assert all(each.outcome == "ok" and each.value > 0 and not each.hazard for each in found.values())
    assert found["sequence_starts"].seen.startswith("even: ")


def test_sequences_that_are_not_consecutive_are_wrong_and_their_starts_are_skipped(monkeypatch):
    found = results(monkeypatch, peers.MixesStreams)
    assert {name for name, each in found.items() if each.outcome == "wrong"} == {
        "sequence_bounds",
        "sequence_prioritized_bounds",
    }
    assert "each stream has every 2. step" in found["sequence_bounds"].reason
    assert {found[f"sequence_{name}"].outcome for name in ("starts", "last_steps")} == {"skipped"}


@pytest.mark.parametrize(
    ("kind", "check", "stated"),
    [
        (peers.CrossesEnds, "bounds", SequenceBounds.ONE_STREAM),
        (peers.DrawsEpisodesAlike, "starts", SequenceStarts.EPISODES_EVEN),
    ],
)
def test_a_hazard_is_wrong_unless_it_is_stated(kind, check, stated, monkeypatch):
    assert results(monkeypatch, kind)[f"sequence_{check}"].outcome == "wrong"
    honest = type("Honest", (kind,), {"sequences": replace(SequenceContract(), **{check: stated})})
    found = results(monkeypatch, honest)[f"sequence_{check}"]
    assert found.outcome == "ok" and found.hazard and found.seen.startswith(f"{stated}: ")


def test_rows_that_were_never_added_make_every_check_wrong(monkeypatch):
    assert {each.outcome for each in results(monkeypatch, peers.MixesRows).values()} == {"wrong"}


def test_our_sequences_pass(surroundings):
    done = surroundings.fork("-m", "suites.conformance", "--peer", OURS)
    found = list(map(json.loads, done.stdout.splitlines()))
    assert done.returncode == 0, done.stderr
    assert {each["benchmark"] for each in found} == set(SEQUENCE_BENCHMARKS)
    assert {each["outcome"] for each in found} == {"ok"} and not any(each["hazard"] for each in found)
