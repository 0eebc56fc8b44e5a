"""The throughput suite by hand, as a user of pytest-benchmark runs it."""

import json
import re
from types import SimpleNamespace

import pytest

from suites.runner.results import read_results
from suites.throughput import measure as throughput
from suites.throughput.jobs import Task

BY_HAND = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "suites/throughput/measure.py", "--seconds=0.01")
STEPS = ("learner_step", "learner_step_uniform")


def test_benchmark_json_holds_the_figure_and_its_unit(surroundings):
    file = surroundings.folder / "x.json"
    done = surroundings.run(*BY_HAND, "--peer=plain", "--workload=Pendulum-v1", f"--benchmark-json={file}")
    assert done.returncode == 0, done.stdout
    benchmarks = json.loads(file.read_text())["benchmarks"]
    assert len(benchmarks) == 20  # frames are another workload's
    assert {each["extra_info"]["unit"] for each in benchmarks} == {"s/transition", "s/call", "s/step"}
    assert all(each["extra_info"]["value"] > 0 for each in benchmarks)


def test_benchmark_disable_still_checks_the_answers(surroundings):
    options = ("--workload=CartPole-v1", "--capacity=500", "--benchmark-disable")
    assert surroundings.run(*BY_HAND, "--peer=plain", *options).returncode == 0
    done = surroundings.run(*BY_HAND, "--peer=broken", *options)
    assert done.returncode == 1 and "15 failed" in done.stdout and "5 errors" in done.stdout


@pytest.mark.parametrize(("option", "known"), [("--peer=nobody", "plain"), ("--workload=Pong", "CartPole-v1")])
def test_an_unknown_name_is_answered_with_the_known_ones(option, known, surroundings):
    done = surroundings.run(*BY_HAND, option)
    assert done.returncode == 4
    assert "unknown" in done.stderr and known in done.stderr


def test_a_package_from_elsewhere_is_refused(surroundings):
    done = surroundings.run(*BY_HAND, "--peer=plain", f"--package-at=numpy={surroundings.folder}")
    assert done.returncode == 4 and "numpy was imported from" in done.stderr


def test_a_task_is_read_as_it_is_written():
    for text in ("add:batch=1", "learner_step:adds=4,batch=32", "sample_beside:batch=256,work_ms=5"):
        assert str(Task.parse(text)) == text
    assert Task.parse("learner_step:batch=32,adds=4") == Task.parse("learner_step:adds=4,batch=32")


@pytest.mark.parametrize(
    ("text", "said"),
    [("dance:batch=1", "got 'dance'"), ("add", "got 'add'"), ("add:batch", "got 'add:batch'")],
)
def test_a_task_that_cannot_be_read_is_refused_by_name(text, said, surroundings):
    with pytest.raises(ValueError, match=re.escape(said)):
        Task.parse(text)
    done = surroundings.run(*BY_HAND, f"--task={text}")
    assert done.returncode == 4 and "task must be BENCHMARK:NAME=NUMBER" in done.stderr


def test_a_learner_step_is_whole_and_other_sizes_are_other_cells(surroundings):
    """Each add of the odd peer takes a millisecond, so that the step shows how many there were."""
    cells = surroundings.folder / "cells.jsonl"
    tasks = [f"--task={name}:adds={adds},batch=32" for name in STEPS for adds in (1, 8)]
    options = ("--workload=CartPole-v1", "--capacity=500", "--peer=laboured", f"--cells={cells}", "-k", "learner_step")
    done = surroundings.run(*BY_HAND, *options, *tasks)
    assert done.returncode == 0, done.stdout
    took = {(each.benchmark, each.params["adds"]): each.value for each in read_results(cells)}
    assert set(took) == {(name, adds) for name in STEPS for adds in (1, 8)}
    for name in STEPS:
        assert took[name, 1] > 0.001 and took[name, 8] > 0.008


def test_only_the_time_inside_sample_counts_beside_a_learner(monkeypatch):
    """On a clock that goes on by a microsecond whenever it is read, and by three milliseconds in a sample."""
    now, found, checked = [0.0], [], []

    def pass_by(seconds):
        now[0] += seconds
        return now[0]

    monkeypatch.setattr(throughput, "time", SimpleNamespace(perf_counter=lambda: pass_by(1e-6)))
    throughput.test_sample_beside(
        SimpleNamespace(disabled=False, pedantic=lambda run, rounds: [run() for _ in range(rounds)]),
        found.append,
        seconds=0.5,
        batch=32,
        sizes={"work_ms": 5},
        known=SimpleNamespace(check=lambda batch, size: checked.append(size)),
        uniform=SimpleNamespace(sample=lambda batch: pass_by(3e-3)),
    )
    assert checked == [32]
    assert found == [pytest.approx(3e-3, rel=1e-2)]


def test_the_newest_batches_are_held(surroundings):
    cells = surroundings.folder / "cells.jsonl"
    options = ("--workload=CartPole-v1", "--capacity=500", f"--cells={cells}", "--peer=grudging")
    done = surroundings.run(*BY_HAND, *options, "--task=sample_held:batch=32,held=8", "-k", "sample_held")
    assert done.returncode == 0, done.stdout
    (result,) = read_results(cells)
    assert result.params == {"batch": 32, "held": 8, "capacity": 500}
    assert surroundings.flag.read_text() == "8"
