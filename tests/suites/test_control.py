"""The control measures one peer as two sides, by identical launches."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from results.record import Run
from results.verdicts import REFERENCE
from suites.control.measure import measure
from suites.control.spec import PROFILES, SIDES, SUITE, WORKLOAD
from suites.runner.jobs import decoded
from suites.runner.results import read_results
from suites.throughput.tasks import ThroughputJob


def launches():
    run = Run("bench", "tiny", "unknown", "", {})
    return run, SUITE.launches(run, PROFILES["tiny"], SUITE.peers(), [WORKLOAD])


def test_the_sides_are_measured_by_the_same_command():
    _, both = launches()
    commands = [launch.command(launch.open_records, Path("cells.jsonl"), 0) for launch in both]
    assert len(commands) == len(SIDES)
    first, second = ([word for word in command if not word.startswith("--side=")] for command in commands)
    assert first == second and commands[0] != commands[1]
    assert f"--peer={REFERENCE}" in first


def test_a_launch_measures_only_open_cells():
    _, (launch, _) = launches()
    launch.records[1].fail("failed", "it crashed")
    command = launch.command(launch.open_records, Path("cells.jsonl"), 0)
    jobs = [decoded(ThroughputJob, word.removeprefix("--job=")) for word in command if word.startswith("--job=")]
    assert [job.benchmark for job in jobs] == ["add", "prioritized"]


@pytest.mark.skipif(find_spec(REFERENCE) is None, reason="cpprb has no wheel for this Python")
@pytest.mark.parametrize("side", SIDES)
def test_a_launch_measures_only_the_cells_of_its_side(surroundings, side):
    _, both = launches()
    launch = both[SIDES.index(side)]
    cells = surroundings.folder / "cells.jsonl"
    done = surroundings.run(*launch.command(launch.open_records, cells, 0)[1:])
    assert done.returncode == 0, done.stderr
    results = list(read_results(cells))
    assert all(result.outcome == "ok" and result.value > 0 for result in results)
    assert [[result.is_of(record) for record in launch.records] for result in results] == [
        [place == number for place in range(len(launch.records))] for number in range(len(results))
    ]


def test_without_jobs_a_launch_measures_those_of_a_quick_run(monkeypatch):
    asked = []
    monkeypatch.setattr("suites.throughput.measure.measure", lambda peer, jobs, watch: asked.extend(jobs) or [])
    from argparse import Namespace

    assert list(measure(Namespace(peer=REFERENCE, jobs=None, seconds=0.1, side="first"))) == []
    assert asked == PROFILES["quick"].jobs
