"""How a launch spends its time is counted, recorded and shown."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from reports.sections import context_of, method
from results.record import Spent, load, save
from suites.runner import driver, plan, spent
from suites.runner.results import read_results, read_spent
from suites.runner.spent import WorkClock
from suites.throughput.spec import SUITE
from suites.throughput.tasks import ThroughputJob, tasks
from tests.reports.synthetic_runs import add_workload
from tests.suites.test_driver import a_run

JOBS = [
    ThroughputJob(task, "CartPole-v1", 500) for task in tasks("add:batch=1", "sample:batch=32", "prioritized:batch=32")
]


def test_nested_work_counts_once_and_other_time_does_not_count(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(spent, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    counted = WorkClock()

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    pass_by(100)
    with counted.on("fill"):
        pass_by(1)
        with counted.on("check"):
            pass_by(2)
        pass_by(4)
    pass_by(100)
    counted.on("measure")(pass_by)(8)
    with pytest.raises(ZeroDivisionError), counted.on("check"):
        pass_by(16)
        1 / 0  # noqa: B018
    pass_by(100)
    assert counted.seconds == {"fill": 5, "check": 18, "measure": 8}


def test_a_launch_reports_how_it_spent_its_time_and_the_record_keeps_this(tmp_path):
    run = a_run()
    records = SUITE.declare_jobs(run, "baselines-style", JOBS)
    launch = SUITE.launch("calls", records, {"job": JOBS, "seconds": 0.05}, sys.executable)
    run.add_peer("baselines-style", "1", "as it is")
    add_workload(run, "CartPole-v1")
    assert driver.drive(run, tmp_path / "run.json", plan.Fixed([(0, launch), (1, launch)]), 60) == 0
    assert [each.launch for each in run.spent] == ["calls, block 1", "calls, block 2"]
    for each in load(tmp_path / "run.json").spent:
        assert each.peer == "baselines-style" and min(each.fill, each.check, each.measure) > 0
        assert 0 < each.other_share < 1


def test_a_line_about_time_is_not_a_result(tmp_path):
    file = tmp_path / "cells.jsonl"
    assert read_spent(file) == {}
    file.write_text('{"spent on": {"fill": 1.5}}\n')
    assert list(read_results(file)) == [] and read_spent(file) == {"fill": 1.5}


@pytest.mark.parametrize(("others", "said"), [((), False), ((0.1, 0.3, 0.2), True)])
def test_the_methods_section_states_how_much_time_was_not_spent_on_measuring(others, said, tmp_path):
    run = a_run()
    run.spent += [Spent("a", "calls", 10.0, 2.0, 1.0, 7.0 - 10 * share) for share in others]
    save(tmp_path / "run.json", run)
    (part,) = method.parts(context_of(load(tmp_path / "run.json")))
    assert (part.values["unmeasured"] == "20%") is said
