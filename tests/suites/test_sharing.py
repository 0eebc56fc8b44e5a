"""The sharing suite: figures of a sound buffer, and the results of faulty buffers."""

import json
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from results.record import load
from suites import workloads
from suites.runner import windows
from suites.runner.jobs import encoded
from suites.runner.windows import WindowPart, Work
from suites.sharing import fleet
from suites.sharing.measure import fleet_figures
from suites.sharing.spec import SharingJob

WITH_PATIENCE = (
    "import sys; from suites.runner import explorers, windows; from suites.sharing import measure;"
    "explorers.PATIENCE, windows.STARVED_SECONDS, measure.FILL_SECONDS = {patience}, 0.5, {fill};"
    "sys.exit(measure.main())"
)
RANKED, RANKED_BATCHES, FLEET, BATCHES = (
    SharingJob(kind, "CartPole-v1", 2000, batch, 2) for kind in ("prioritized_fleet", "fleet") for batch in (1, 100)
)
STEP, ALONE = SharingJob("step", "CartPole-v1", 2000, 100), SharingJob("alone", "CartPole-v1", 2000, 1)


def sharing(surroundings, peer: str, *jobs: SharingJob, seconds=0.2, patience=2.0, fill=30.0):
    """Return (exit status, results)."""
    program = WITH_PATIENCE.format(patience=patience, fill=fill)
    options = [f"--seconds={seconds}", f"--most-seconds={seconds}", *(f"--job={encoded(job)}" for job in jobs)]
    done = surroundings.fork("-c", program, "--peer", peer, *options)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_a_sound_buffer_gets_every_figure(surroundings):
    status, results = sharing(surroundings, "plain", FLEET, BATCHES, RANKED, RANKED_BATCHES, STEP, ALONE)
    assert status == 0
    fleet = ["adds", "samples", "slowest"]
    ranked = ["prioritized_adds", "prioritized_cycles", "prioritized_slowest"]
    assert [result["benchmark"] for result in results] == [*fleet * 2, *ranked * 2, "step", "add_alone"]
    assert all(result["outcome"] == "ok" and result["value"] > 0 for result in results)
    assert results[0]["params"] == {"explorers": 2, "batch": 1, "capacity": 2000}
    assert results[-1]["params"] == {"batch": 1, "capacity": 2000}
    assert surroundings.leftovers() == []


class Counting:
    """A buffer that counts its rows, and tells an explorer to stop after some calls."""

    def __init__(self, shared, calls: int):
        self.shared, self.left, self.rows = shared, calls, 0

    def add_batches(self, batches):
        self.left -= len(batches)
        self.shared.stop.value = self.left <= 0
        self.rows += sum(len(batch.done) for batch in batches)


def test_rows_are_counted_not_calls():
    shared = SimpleNamespace(stop=SimpleNamespace(value=False), added=[SimpleNamespace(value=0)], start=lambda: None)
    adapter = Counting(shared, calls=70)
    fleet.explore(fleet.ExplorerRows(adapter, BATCHES, workloads.load("CartPole-v1", 300)), 0, shared)
    assert shared.added[0].value == adapter.rows >= 7_000


def test_only_the_learners_calls_are_counted(surroundings):
    """This buffer allows at most 330 samples per second, but any number of adds."""
    _, results = sharing(surroundings, "slow-sample", FLEET, RANKED)
    by_learner = {"samples", "prioritized_cycles"}
    assert {result["benchmark"] for result in results if result["calls"]} == by_learner
    assert all(result["value"] < 334 for result in results if result["calls"])


@pytest.mark.parametrize(
    ("rate", "rows", "parts"),
    [
        (50_000, 8, 3),  # the shortest window
        (1_250, 8, 8),  # 1,000 calls
        (330, 8, 10),  # the longest window
        (50_000, 0, 40),  # an explorer without a turn: until it counts as starved
        (330, 0, 40),
    ],
)  # fmt: skip
def test_a_window_is_extended_until_it_has_enough_calls_or_reaches_its_limit(rate, rows, parts, monkeypatch):
    added = [0, 0]

    def learn(_step, seconds):
        added[0], added[1] = added[0] + 100, added[1] + rows
        return seconds, round(rate * seconds)

    @contextmanager
    def exploring(*_arguments):
        yield SimpleNamespace(learn=learn, added=lambda: list(added))

    monkeypatch.setattr(fleet, "exploring", exploring)
    monkeypatch.setattr(windows, "STARVED_SECONDS", 4.0)
    window, recording = windows.Window(0.25, 0.95), workloads.load("CartPole-v1", 300)
    adapter = SimpleNamespace(start_method="fork", serve=None, sample=min)
    figures = fleet_figures(adapter, FLEET, recording, window)
    assert figures["samples"] == (pytest.approx(rate), parts * round(rate * windows.PART_SECONDS))
    assert figures["adds"] == pytest.approx((100 + rows) / windows.PART_SECONDS)
    if rows:
        assert figures["slowest"] == pytest.approx(2 * rows / (100 + rows))
    else:
        assert figures["slowest"] == "1 of 2 explorers added no rows in 4.0 s while the learner ran"


def test_the_usual_rate_is_the_median_over_time():
    parts = [WindowPart(0.1, 10, 0), WindowPart(0.1, 12, 0), WindowPart(0.1, 11, 0), WindowPart(0.1, 900, 0)]
    assert Work(parts, []).usual(lambda part: part.calls) == pytest.approx(110)
    stuck = [WindowPart(1.0, 1, 0), *parts]
    assert Work(stuck, []).usual(lambda part: part.calls) == pytest.approx(1)


def test_a_single_explorer_has_no_slowest_share(surroundings):
    _, results = sharing(surroundings, "plain", replace(FLEET, explorers=1))
    assert [result["benchmark"] for result in results] == ["adds", "samples"]


def test_an_explorer_that_gets_fewer_turns_lowers_the_slowest_share(surroundings):
    """Each other explorer adds a row after a hundred rows of the favourite."""
    _, results = sharing(surroundings, "favours-one", FLEET, seconds=1.0, patience=10.0)
    figures = {result["benchmark"]: result["value"] for result in results}
    assert 0 < figures["slowest"] < 0.2


def test_a_starved_explorer_is_a_failure_but_the_other_figures_are_kept(surroundings):
    status, results = sharing(surroundings, "starves-others", FLEET, patience=10.0)
    assert status == 1
    adds, samples, slowest = results
    assert adds["outcome"] == samples["outcome"] == "ok" and adds["value"] > 0
    assert slowest["outcome"] == "failed" and slowest["value"] is None
    assert "1 of 2 explorers added no rows in" in slowest["reason"]
    assert surroundings.leftovers() == []


def test_a_buffer_too_slow_to_fill_is_skipped(surroundings):
    slow = "import sys; from suites.sharing import measure; measure.FILL_SECONDS = 0.0; sys.exit(measure.main())"
    done = surroundings.fork("-c", slow, "--peer=plain", f"--job={encoded(FLEET)}")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and {result["outcome"] for result in results} == {"skipped"}
    assert "too slow for 2,000 rows" in results[0]["reason"]


@pytest.mark.parametrize(
    ("peer", "job", "outcome", "reason"),
    [
        ("mixes-rows", FLEET, "wrong", "different added rows"),
        ("mixes-rows", STEP, "wrong", "different added rows"),
        ("ignores-priorities", STEP, "wrong", "weights"),
        ("ignores-priorities", RANKED, "wrong", "weights"),
        ("deadlocked", RANKED, "failed", "stuck"),
        ("kills-explorers", FLEET, "failed", "died with exit code -9"),
        ("deadlocked", FLEET, "failed", "stuck"),
        ("unavailable", ALONE, "skipped", "no wheel for this platform"),
    ],
)
def test_a_bad_buffer_gets_a_reason_instead_of_a_figure(peer, job, outcome, reason, surroundings):
    status, results = sharing(surroundings, peer, job)
    assert status == (outcome != "skipped")
    assert [result["benchmark"] for result in results] == job.benchmarks
    for result in results:
        assert result["outcome"] == outcome and reason in result["reason"] and result["value"] is None
    assert surroundings.leftovers() == []


def test_other_jobs_are_measured_after_one_that_hangs(surroundings):
    status, results = sharing(
        surroundings, "deadlocked", BATCHES, FLEET, replace(ALONE, capacity=500, batch=100), fill=2.0
    )
    assert status == 1
    assert [result["outcome"] for result in results] == ["failed"] * 7
    assert all("stuck" in result["reason"] for result in results)


@pytest.mark.slow
def test_a_run_declares_and_measures_the_sharing_suite_like_the_others(surroundings):
    out = surroundings.folder / "run.json"
    arguments = ("-m", "suites.run", "--profile=tiny", "--suites=sharing", "--workloads=CartPole-v1")
    done = surroundings.run(*arguments, "--peers=cpprb_impl,mixes-rows,unavailable", f"--out={out}")
    run = load(out)
    assert done.returncode == 0, done.stderr
    of = {peer.name: [record for record in run.records if record.peer == peer.name] for peer in run.peers}
    assert [record.benchmark for record in of["cpprb_impl"]] == ["add_alone"]
    assert {len(of[name]) for name in of if name != "cpprb_impl"} == {11}
    calls = {record.benchmark: record.samples[0].calls for record in run.records if record.samples}
    assert calls["samples"] and calls["prioritized_cycles"] and calls["adds"] is None
    for name, records in of.items():
        expected = {"mixes-rows": "wrong", "unavailable": "skipped"}.get(name, "ok")
        assert {record.status for record in records} == {expected}, name
    assert {record.unit for record in of["mixes-rows"]} == {
        "rows/s", "samples/s", "cycles/s", "of a fair share", "s/step", "s/transition"
    }  # fmt: skip
