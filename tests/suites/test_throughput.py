"""The throughput suite: its launches, and its benchmarks under pytest-benchmark."""

import gc
import json
import re
import sys
from types import SimpleNamespace

import pytest

from adapters import registry
from adapters.peers.baselines_style import BaselinesStyle
from suites import workloads
from suites.runner import timing
from suites.runner.jobs import encoded
from suites.runner.timing import Stopwatch
from suites.throughput import measure
from suites.throughput.spec import SUITE
from suites.throughput.tasks import SizedBenchmark, ThroughputJob, tasks
from tests.suites.conftest import needs_atari
from tests.suites.test_driver import a_run

BY_HAND = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "suites/throughput", "--seconds=0.01", "--tb=native")
STEPS = ("learner_step", "learner_step_uniform")


def test_benchmark_json_contains_the_figure_and_its_unit(surroundings):
    file = surroundings.folder / "x.json"
    done = surroundings.fork(
        *BY_HAND, "--peer=plain", "--workload=Pendulum-v1", "--capacity=500", f"--benchmark-json={file}"
    )
    assert done.returncode == 0, done.stdout
    benchmarks = json.loads(file.read_text())["benchmarks"]
    assert len(benchmarks) == 20  # without those of frames, which have a different workload
    assert {each["extra_info"]["unit"] for each in benchmarks} == {"s/transition", "s/call", "s/step"}
    assert all(each["extra_info"]["value"] > 0 for each in benchmarks)


def test_benchmark_disable_still_checks_the_answers(surroundings):
    options = ("--workload=CartPole-v1", "--capacity=500", "--benchmark-disable")
    assert surroundings.fork(*BY_HAND, "--peer=plain", *options).returncode == 0
    done = surroundings.fork(*BY_HAND, "--peer=mixes-rows", *options)
    assert done.returncode == 1 and "20 failed" in done.stdout


@pytest.mark.parametrize(("option", "known"), [("--peer=nobody", "plain"), ("--workload=Pong", "CartPole-v1")])
def test_the_error_for_an_unknown_name_lists_the_known_ones(option, known, surroundings):
    done = surroundings.fork(*BY_HAND, option)
    assert done.returncode == 4
    assert "unknown" in done.stderr and known in done.stderr


def test_a_package_from_elsewhere_is_refused(surroundings):
    done = surroundings.fork("-m", "suites.throughput", "--peer=plain", f"--package-at=numpy={surroundings.folder}")
    assert done.returncode == 2 and "numpy would be imported from" in done.stderr


def test_a_task_is_read_as_it_is_written():
    for text in ("add:batch=1", "learner_step:adds=4,batch=32", "sample_beside:batch=256,work_ms=5"):
        assert str(SizedBenchmark.parse(text)) == text
    assert SizedBenchmark.parse("learner_step:batch=32,adds=4") == SizedBenchmark.parse("learner_step:adds=4,batch=32")


@pytest.mark.parametrize(
    ("text", "said"),
    [("dance:batch=1", "got 'dance'"), ("add", "got 'add'"), ("add:batch", "got 'add:batch'")],
)
def test_a_task_that_cannot_be_read_is_refused_and_named_in_the_error(text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        SizedBenchmark.parse(text)


def test_a_task_that_cannot_be_read_is_a_usage_error(surroundings):
    done = surroundings.fork(*BY_HAND, "--task=add:batch")
    assert done.returncode == 4 and "task must be BENCHMARK:NAME=NUMBER" in done.stderr


def on_cartpole(*texts: str) -> list[ThroughputJob]:
    return [ThroughputJob(task, "CartPole-v1", 500) for task in tasks(*texts)]


def measured(surroundings, peer: str, *jobs: str, seconds: float = 0.01):
    """Return the exit status of a launch, and its results."""
    options = [f"--job={encoded(job)}" for job in on_cartpole(*jobs)]
    done = surroundings.fork("-m", "suites.throughput", f"--peer={peer}", f"--seconds={seconds}", *options)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_a_launch_loads_the_recording_once(monkeypatch, tmp_path):
    monkeypatch.setenv(workloads.USER_WORKLOAD, "")
    monkeypatch.setattr(workloads, "NAMES", (*workloads.NAMES, "mine"))
    rows = workloads.load("CartPole-v1", 300).columns
    workloads.save_user_workload("mine", "of a test", rows, 300, cache=tmp_path)
    loaded, load = [], workloads.load
    monkeypatch.setattr(workloads, "load", lambda name, *options: loaded.append(name) or load(name, *options))
    jobs = [ThroughputJob(task, "mine", 500) for task in tasks("add:batch=1", "sample:batch=32")]
    options = ["--peer=baselines-style", *(f"--job={encoded(job)}" for job in jobs)]
    monkeypatch.setattr(sys, "argv", ["measure", *options, "--seconds=0.01"])
    assert measure.main() == 0
    assert loaded == ["mine"]


@pytest.mark.parametrize(
    ("peer", "workload", "skipped"),
    [
        ("baselines-style", "CartPole-v1", {}),
        ("baselines-style", "CartPole-v1/image", dict.fromkeys(["add", "sample"], "and no other fields")),
        ("stable-baselines3", "CartPole-v1/image", {}),
        (
            "stable-baselines3",
            "CartPole-v1/slices",
            {**dict.fromkeys(["add", "sample"], "stable-baselines3 stores"), "prioritized": "has no priorities"},
        ),
        pytest.param(
            "baselines-style",
            "ALE/Seaquest-v5",
            dict.fromkeys(["compressed_add", "compressed_sample"], "compression"),
            marks=needs_atari,
        ),
        ("stable-baselines3", "CartPole-v1", {"prioritized": "has no priorities", "learner_step": "no priorities"}),
    ],
)
def test_cells_that_a_contract_excludes_are_skipped_when_declared(peer, workload, skipped):
    run = a_run()
    (launch,) = SUITE.launches(run, SUITE.profiles["survey"], [peer], [workload])
    reasons = {each.benchmark: each.reason for each in run.records if each.status == "skipped"}
    assert reasons.keys() == skipped.keys() and all(said in reasons[name] for name, said in skipped.items())
    assert {each.benchmark for each in launch.open_records} == {each.benchmark for each in run.records} - skipped.keys()


def test_an_error_affects_only_the_benchmarks_in_which_it_occurs(surroundings):
    """If a buffer cannot be made, no attempt is made to make it again for the next benchmark."""
    status, results = measured(
        surroundings, "ignores-priorities", "add:batch=1", "prioritized:batch=32", "prioritized:batch=256"
    )
    assert status == 1 and [each["outcome"] for each in results] == ["ok", "wrong", "wrong"]
    assert results[1]["reason"] == results[2]["reason"] and "weights" in results[1]["reason"]


class Panic(BaseException):
    """An exception that `except Exception` does not catch, such as a panic in Rust."""


class PanicsOnAdd(BaselinesStyle):
    name = "panics-on-add"

    def add(self, steps) -> None:
        raise Panic("out of bounds")


class FailsToClose(BaselinesStyle):
    name = "fails-to-close"

    def close(self) -> None:
        raise RuntimeError("still in use")


@pytest.mark.parametrize(
    ("kind", "outcomes", "reason"),
    [
        (PanicsOnAdd, ["failed", "ok"], "Panic: out of bounds"),
        (FailsToClose, ["ok", "ok", "failed"], "RuntimeError: still in use"),  # the last job fails when it is closed
    ],
)
def test_an_exception_of_a_peer_does_not_stop_the_other_jobs(kind, outcomes, reason, monkeypatch):
    monkeypatch.setitem(registry.PEERS, kind.name, f"{__name__}:{kind.__name__}")
    jobs = on_cartpole("add:batch=1", "sample:batch=32")
    results = list(measure.measure(kind.name, jobs, Stopwatch(0.01)))
    assert [each.outcome for each in results] == outcomes
    assert [each.reason for each in results if each.outcome == "failed"] == [reason]


def test_a_learner_step_is_timed_whole_and_each_size_has_its_own_cell(surroundings):
    """Each add of this peer takes a millisecond, so that the time of a step shows the number of adds."""
    jobs = [f"{name}:adds={adds},batch=32" for name in STEPS for adds in (1, 8)]
    status, results = measured(surroundings, "slow-add", *jobs)
    assert status == 0, results
    took = {(each["benchmark"], each["params"]["adds"]): each["value"] for each in results}
    for name in STEPS:
        assert took[name, 1] > 0.001 and took[name, 8] > 0.008


def test_only_the_time_inside_sample_counts_for_a_learner(monkeypatch):
    """The simulated clock advances by ten microseconds when it is read, and by three milliseconds in each sample."""
    now, checked = [0.0], []

    def pass_by(seconds):
        now[0] += seconds
        return now[0]

    clock = SimpleNamespace(perf_counter=lambda: pass_by(1e-5))
    monkeypatch.setattr(measure, "time", clock)
    monkeypatch.setattr(timing, "time", clock)
    buffers = SimpleNamespace(
        known=SimpleNamespace(check=lambda batch, size: checked.append(size)),
        uniform=SimpleNamespace(sample=lambda batch: pass_by(3e-3)),
    )
    found = measure.sample_beside(buffers, {"batch": 32, "work_ms": 5}, Stopwatch(0.5))
    assert checked == [32]
    assert found == pytest.approx(3e-3, rel=1e-2)


def test_a_figure_is_the_median_of_rounds_of_about_two_milliseconds(monkeypatch):
    """On the simulated clock, a call takes 10 microseconds, and two rounds in five are a hundred times as slow."""
    now, rounds = [0.0], []
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def run(calls: int) -> None:
        timed = not gc.isenabled()
        rounds.append((calls, timed))
        now[0] += 1e-5 * calls * (100 if timed and len(rounds) % 5 < 2 else 1)

    assert Stopwatch(0.1).per_call(run) == pytest.approx(1e-5)
    warm = [calls for calls, timed in rounds if not timed]
    assert warm[0] == 1 and sum(warm) * 1e-5 > 0.01
    assert [calls for calls, timed in rounds if timed] == [200] * 50 and gc.isenabled()


def test_the_newest_batches_are_held(surroundings):
    status, (result,) = measured(surroundings, "counts-held", "sample_held:batch=32,held=8")
    assert status == 0, result
    assert result["params"] == {"batch": 32, "held": 8, "capacity": 500}
    assert surroundings.flag.read_text() == "8"
