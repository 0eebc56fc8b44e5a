import itertools
import json
import signal
from collections.abc import Sequence

import numpy as np
import pytest

from results import load
from suites import workloads
from suites.apex import measure
from suites.apex.playing import frames_follow, play
from suites.apex.spec import BENCHMARKS, ONCE, PROFILES, REAL, SUITE, ApexJob
from suites.runner.explorers import PATIENCE, exploring
from suites.runner.jobs import encoded
from tests.reports.synthetic_runs import empty_run

from .conftest import needs_atari

WITH_PATIENCE = (
    "import sys; from suites.apex import measure; from suites.runner import explorers;"
    "explorers.PATIENCE = {patience}; sys.exit(measure.main())"
)


def apex(surroundings, peer: str, *options: str, patience: float = PATIENCE):
    program = WITH_PATIENCE.format(patience=patience)
    done = surroundings.fork("-c", program, "--peer", peer, "--seconds=0.4", *options)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def jobs(*numbers: Sequence[int]) -> list[str]:
    """Return the options for jobs: explorers, rows per call, capacity, microseconds per step and of work, and cores."""
    return [f"--job={encoded(ApexJob('CartPole-v1', *each))}" for each in numbers]


TWO = jobs((2, 100, 2000, REAL, 0))
CHECKED, COUNTS = "whole", {"staleness", "explorers_blocked", "learner_blocked"}


def test_a_sound_buffer_gets_every_figure(surroundings):
    status, results = apex(surroundings, "plain", *jobs((1, 10, 2000, 0, 0), (2, 100, 2000, 50, 200)))
    assert status == 0
    one, two = (BENCHMARKS.keys() - {*ONCE, "slowest"}), BENCHMARKS.keys()
    found = [result["benchmark"] for result in results]
    assert set(found[: len(one)]) == one and set(found[len(one) :]) == two
    for result in results:
        assert result["outcome"] == "ok" and (result["value"] > 0 or result["benchmark"] in COUNTS)
        assert bool(result["calls"]) is ("_p" in result["benchmark"])
    assert results[-1]["params"] == {
        "explorers": 2,
        "rows": 100,
        "capacity": 2000,
        "environment": "50 us",
        "learner": "200 us",
    }
    assert surroundings.leftovers() == []


def test_costs_of_steps_and_work_slow_down_explorers_and_learner(surroundings):
    status, results = apex(
        surroundings, "plain", *jobs((1, 10, 2000, 0, 0), (1, 10, 2000, 500, 0), (1, 10, 2000, 0, 5000))
    )
    assert status == 0, results
    rates = [result["value"] for result in results if result["benchmark"] in ("explorers", "learner")]
    free, costly, slow = rates[:2], rates[2:4], rates[4:]
    assert costly[0] <= 2000 < free[0] and slow[1] <= 200 < free[1]


def test_launches_have_distinct_names():
    run = empty_run()
    settings = PROFILES["apex"]
    launches = SUITE.launches(run, settings, ["cpprb_impl[lock=none]"], SUITE.workloads(settings))
    names = [launch.name for launch in launches]
    assert len(set(names)) == len(names) == len(settings.groups)


def test_a_launch_on_one_core_uses_no_other_core(surroundings):
    status, results = apex(surroundings, "plain", *jobs((2, 100, 2000, 0, 0, 1)))
    found = {result["benchmark"]: result for result in results}
    assert status == 0 and found["cpu"]["params"]["cores"] == 1
    assert 0 < found["cpu"]["value"] * found["explorers"]["value"] < 1.1  # CPU seconds per second


@needs_atari
def test_stacks_of_frames_distinguish_whole_rows_from_torn_ones(tmp_path):
    rows = workloads.load("ALE/Seaquest-v5", 64, cache=tmp_path).columns
    moving = (rows["obs"] != rows["next_obs"]).any(axis=(1, 2, 3))
    assert frames_follow(rows).all() and moving.sum() > 20
    torn = rows | {"next_obs": np.roll(rows["next_obs"], 7, axis=0)}
    assert frames_follow(torn)[moving].mean() < 0.1
    assert not frames_follow({name: np.zeros_like(rows[name]) for name in ("obs", "next_obs")}).any()


@needs_atari
def test_explorers_play_seaquest_as_it_was_recorded(tmp_path):
    recording = workloads.load("ALE/Seaquest-v5", 64, cache=tmp_path)
    for transition in itertools.islice(play("ALE/Seaquest-v5", recording.stack, seed=1), 20):
        obs, _, _, next_obs, _ = transition
        assert obs.shape == next_obs.shape == recording.fields["obs"].shape and obs.dtype == np.uint8
        assert frames_follow({"obs": obs[None], "next_obs": next_obs[None]}).all()


@pytest.mark.parametrize("peer", ["torn", "mixes-rows"])
def test_a_figure_is_kept_even_if_rows_were_torn(peer, surroundings):
    status, results = apex(surroundings, peer, *TWO)
    explorers, learner, whole = (
        next(result for result in results if result["benchmark"] == name) for name in ("explorers", "learner", CHECKED)
    )
    assert status == 1
    assert explorers["outcome"] == learner["outcome"] == "ok" and explorers["value"] > 0 and learner["value"] > 0
    assert whole["outcome"] == "wrong" and whole["value"] % 64 == 0
    assert f"of {whole['value']} sampled rows are not steps of CartPole" in whole["reason"]
    assert surroundings.leftovers() == []


ONE_GROUP = (
    "import sys; from dataclasses import replace; from suites import run; from suites.apex import spec;"
    "groups = [spec.ApexGroup((2,), (spec.REAL,), 2_000)];"
    "spec.PROFILES['tiny'] = replace(spec.PROFILES['tiny'], blocks=1, groups=groups);"
    "sys.exit(run.main(sys.argv[1:]))"
)


def test_a_run_keeps_the_samples_of_a_torn_buffer(surroundings):
    out = surroundings.folder / "run.json"
    surroundings.fork("-c", ONE_GROUP, "--profile=tiny", "--suites=apex", "--peers=torn", f"--out={out}")
    records = load(out).records
    assert CHECKED in {record.benchmark for record in records}
    for record in records:
        if record.benchmark in ("explorers", "learner", CHECKED):
            assert record.status == ("wrong" if record.benchmark == CHECKED else "ok"), record.reason
            assert record.samples and record.samples[0].value > 0


@pytest.mark.parametrize(
    ("peer", "outcome", "reason"),
    [
        ("kills-explorers", "failed", "died with exit code -9"),
        ("deadlocked", "failed", "1000 rows were added in"),
        ("unavailable", "skipped", "no wheel for this platform"),
    ],
)
def test_a_bad_buffer_gets_a_reason_instead_of_a_figure(peer, outcome, reason, surroundings):
    # Explorers that are stuck on purpose need no long wait.
    status, results = apex(surroundings, peer, *TWO, patience=2.0)
    assert status == (outcome != "skipped")
    assert len(results) == len(BENCHMARKS)
    for result in results:
        whole = result["benchmark"] == "whole" and result["value"] is not None  # checked before the launch ended
        assert whole or (result["outcome"] == outcome and reason in result["reason"] and result["value"] is None)
    assert surroundings.leftovers() == []


def test_the_figures_go_to_the_cells_file(surroundings):
    cells = surroundings.folder / "cells.jsonl"
    status, printed = apex(surroundings, "plain", f"--cells={cells}", *TWO)
    assert status == 0 and printed == []
    assert len(cells.read_text().splitlines()) == len(BENCHMARKS)


def test_if_an_explorer_cannot_be_started_the_reason_is_reported():
    cannot_be_pickled = lambda number, shared: None  # noqa: E731
    words = "pickle|get local object"  # the second is the message of Python 3.13
    with pytest.raises(Exception, match=words), exploring(cannot_be_pickled, 2, "spawn"):
        pass


NATIVE = """
import ctypes, signal
from suites.runner import explorers
explorers.PATIENCE = 0.2
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # which would end the sleep
with explorers.giving_up(0.1):
    ctypes.PyDLL(None).sleep(60)  # keeps the interpreter's lock, as native code that hangs does
"""


def test_a_learner_stuck_in_native_code_is_killed_by_a_signal(surroundings):
    done = surroundings.run("-c", NATIVE)
    assert done.returncode == -signal.SIGABRT and "in giving_up" not in done.stdout
    assert "<module>" in done.stderr  # the place where it was stuck
    assert surroundings.leftovers() == []


class TakesWholeSamples:
    """A buffer that accepts new priorities only with the same array of indexes that it returned."""

    def __init__(self) -> None:
        self.priorities, self.random = np.ones(1000), np.random.default_rng(0)
        self.returned: list[np.ndarray] = []

    def sample(self, size: int) -> dict:
        self.returned.append(self.random.choice(1000, size, p=self.priorities / self.priorities.sum()))
        return {"indexes": self.returned[-1]}

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        if any(indexes is each for each in self.returned):
            self.priorities[indexes] = priorities


def test_staleness_is_measured_with_the_array_of_indexes_that_sample_returned():
    assert measure._staleness(TakesWholeSamples()) == ("ok", 0, None)
