"""The latency suite times single calls and reports their percentiles."""

import json

import numpy as np
import pytest

from results.record import load
from suites import workloads
from suites.latency import measure as suite
from suites.latency.measure import percentile
from suites.latency.spec import BENCHMARKS


def latency(surroundings, peer: str, *options: str):
    done = surroundings.fork("-m", "suites.latency", "--peer", peer, "--capacity=500", *options)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, {each["benchmark"]: each for each in map(json.loads, done.stdout.splitlines())}


def test_a_sound_buffer_gets_every_percentile(surroundings):
    status, results = latency(surroundings, "plain", "--seconds=0.5")
    assert status == 0 and list(results) == list(BENCHMARKS)
    for call in ("add", "sample", "update"):
        p50, p99, p999 = (results[f"{call}_{name}"] for name in ("p50", "p99", "p999"))
        assert 0 < p50["value"] <= p99["value"] <= p999["value"]
        assert p50["params"] == {"batch": 32, "capacity": 500}


class OnAClock:
    """A buffer whose calls take known times on its own clock, in nanoseconds."""

    def __init__(self, tenth_add: int = 1_000, update: int = 3_000):
        self.tenth_add, self.update = tenth_add, update
        self.now = self.adds = 0

    def perf_counter_ns(self) -> int:
        return self.now

    def add(self, steps):
        self.adds += 1
        self.now += 1_000 if self.adds % 10 else self.tenth_add

    def sample(self, batch_size):
        self.now += 20_000
        return {"indexes": np.arange(batch_size)}

    def update_priorities(self, indexes, priorities):
        self.now += self.update


def run_on_a_clock(monkeypatch, buffer, seconds, enough):
    monkeypatch.setattr(suite, "time", buffer)
    return suite.Loop(buffer, workloads.load("CartPole-v1", 300), True).run(seconds, enough)


def test_calls_are_timed_individually_and_a_rare_slow_one_exceeds_the_median(monkeypatch):
    add, sample, update = run_on_a_clock(monkeypatch, OnAClock(tenth_add=40_000_000), 1.0, 1_000)
    assert np.unique(sample).tolist() == [2e-5] and np.unique(update).tolist() == [3e-6]
    assert percentile(add, 50) == 1e-6 and percentile(add, 99) == 0.04


@pytest.mark.parametrize(("enough", "calls"), [(1, 250), (600, 600), (9_999, 1_000)])
def test_a_window_is_extended_to_get_enough_calls_but_at_most_fourfold(enough, calls, monkeypatch):
    four_ms_in_all = OnAClock(update=3_979_000)
    assert run_on_a_clock(monkeypatch, four_ms_in_all, 1.0, enough).shape == (3, calls)


def test_a_cell_with_too_few_calls_is_skipped_and_their_number_reported(surroundings):
    status, results = latency(surroundings, "slow-sample", "--seconds=0.1")
    assert status == 0 and results["sample_p50"]["value"] >= 0.003
    for name in ("add_p99", "sample_p99", "update_p999"):
        assert results[name]["outcome"] == "skipped" and "too few calls for p99" in results[name]["reason"]


def test_a_peer_without_priorities_has_no_update(surroundings):
    status, results = latency(surroundings, "no-priorities", "--seconds=0.1")
    assert status == 0 and results["sample_p50"]["outcome"] == "ok"
    assert {results[f"update_{name}"]["outcome"] for name in ("p50", "p99", "p999")} == {"skipped"}
    assert "has no priorities" in results["update_p50"]["reason"]


@pytest.mark.parametrize(
    ("peer", "outcome", "reason"),
    [
        ("mixes-rows", "wrong", "different added rows"),
        ("ignores-priorities", "wrong", "weights"),
        ("unavailable", "skipped", "no wheel for this platform"),
    ],
)
def test_a_bad_buffer_gets_a_reason_instead_of_a_figure(peer, outcome, reason, surroundings):
    status, results = latency(surroundings, peer, "--seconds=0.02")
    assert status == (outcome != "skipped") and list(results) == list(BENCHMARKS)
    for result in results.values():
        assert result["outcome"] == outcome and reason in result["reason"] and result["value"] is None


def test_a_buffer_too_slow_to_fill_is_skipped(surroundings):
    status, results = latency(surroundings, "plain", "--capacity=2000", "--fill-seconds=0")
    assert status == 0 and {each["outcome"] for each in results.values()} == {"skipped"}
    assert "too slow for 2,000 rows" in results["add_p50"]["reason"]


@pytest.mark.parametrize(("percent", "fewest"), [(50, 4), (99, 200), (99.9, 2_000)])
def test_at_least_two_calls_lie_beyond_a_percentile(percent, fewest):
    times = np.random.default_rng(0).permutation(np.arange(1.0, fewest + 1))
    found = percentile(times, percent)
    assert 1 <= (times > found).sum() <= fewest * (1 - percent / 100)
    assert percentile(times[1:], percent) == (
        f"too few calls for p{percent:g}: {fewest - 1:,} in the window, but {fewest:,} are needed"
    )


def test_a_run_declares_and_measures_the_latency_suite_like_the_others(surroundings):
    out = surroundings.folder / "run.json"
    done = surroundings.fork("-m", "suites.run", "--profile=tiny", "--suites=latency", "--peers=plain", f"--out={out}")
    run = load(out)
    assert done.returncode == 0, done.stderr
    assert [record.benchmark for record in run.records] == list(BENCHMARKS)
    assert {record.unit for record in run.records} == {"s/call"} and {record.better for record in run.records} == {
        "lower"
    }
