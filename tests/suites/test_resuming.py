"""An interrupted run can be resumed: figures in its file are kept, and only the others are measured."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reports.page import page_of
from results import BadRecord, Run, load, machine, save
from suites.runner import driver, resuming
from suites.runner.needs import SuiteLaunches
from suites.runner.plan import fixed
from suites.runner.results import Result, append_result
from suites.suite import Launch
from tests.reports.synthetic_runs import add_workload
from tests.suites.test_driver import a_run

BLOCKS = 3
INTERRUPT = "; import os, signal, time; os.kill(os.getppid(), signal.SIGINT); time.sleep(60)"


def a_clean_run() -> Run:
    return replace(a_run(), revision=machine.revision().removesuffix("+dirty"))


def launches(run: Run, folder: Path, interrupted: bool = False) -> list[Launch]:
    """Return launches of the peers a and b, which measure two cells each and write down which. If `interrupted`, the
    launch of b in the second block interrupts the run after its first cell."""

    def launch(peer: str) -> Launch:
        about = {"suite": "throughput", "peer": peer, "workload": "CartPole-v1", "unit": "s", "better": "lower"}
        records = [run.cell(benchmark="add", params={"batch": number}, **about) for number in range(2)]

        def command(due, cells, block):
            ends = interrupted and (peer, block) == ("b", 1)
            for record in due[: 1 if ends else None]:
                append_result(cells, Result("add", peer, "CartPole-v1", record.params, "ok", 1.0 + block))
                with (folder / "measured").open("a") as told:
                    told.write(f"{peer}{block}{record.params['batch']} ")
            return [sys.executable, "-c", "pass" + (INTERRUPT if ends else "")]

        return Launch(f"calls of {peer}", records, command)

    for peer in ("a", "b"):
        if all(each.name != peer for each in run.peers):
            run.add_peer(peer, "1", "made for the test")
    if not run.workloads:
        add_workload(run, "CartPole-v1")
    return [launch("a"), launch("b")]


@pytest.fixture
def interrupted(tmp_path) -> Path:
    run, out = a_clean_run(), tmp_path / "run.json"
    assert driver.drive(run, out, fixed([SuiteLaunches(launches(run, tmp_path, interrupted=True), BLOCKS)]), 60) == 130
    return out


def test_a_resumed_run_measures_each_missing_figure_once(interrupted):
    before = load(interrupted)
    assert not before.is_whole and 3 <= sum(len(record.samples) for record in before.records) < 4 * BLOCKS
    run = resuming.resumed(interrupted, a_clean_run())
    assert driver.drive(run, interrupted, fixed([SuiteLaunches(launches(run, interrupted.parent), BLOCKS)]), 60) == 0
    after = load(interrupted)
    assert after.is_whole and len(after.resumed) == 1 and after.started == before.started
    for old, new in zip(before.records, after.records, strict=True):
        assert new.samples[: len(old.samples)] == old.samples
        assert sorted((sample.block, sample.value) for sample in new.samples) == [(0, 1.0), (1, 2.0), (2, 3.0)]
    measured = (interrupted.parent / "measured").read_text().split()
    assert len(measured) == len(set(measured)) == 4 * BLOCKS


def test_a_failed_cell_is_not_measured_again(interrupted):
    before = load(interrupted)
    failed = before.records[0]
    failed.fail("failed", "it crashed")
    save(interrupted, before)
    run = resuming.resumed(interrupted, a_clean_run())
    driver.drive(run, interrupted, fixed([SuiteLaunches(launches(run, interrupted.parent), BLOCKS)]), 60)
    assert load(interrupted).records[0] == failed


def test_the_page_of_a_resumed_run_warns(interrupted):
    run = resuming.resumed(interrupted, a_clean_run())
    run.finish()
    assert "interrupted and resumed" in page_of(run).markdown


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"command": "python -m suites.run --profile full"},
            "run.json: the command must be .python -m suites.run., got .* full",
        ),
        ({"machine": {**a_run().machine, "cores": 2}}, "run.json: the machine's cores must be 1, got 2"),
        ({"revision": "unknown"}, "run.json: only a run in a git checkout can be resumed"),
        ({"revision": "abcdef1234+dirty"}, r"your changes before .*run.json: this checkout is at abcdef1234\+dirty"),
    ],
)
def test_a_different_run_is_refused_and_keeps_its_file(interrupted, change, message):
    content = interrupted.read_bytes()
    with pytest.raises(BadRecord, match=message):
        resuming.resumed(interrupted, replace(a_clean_run(), **change))
    assert interrupted.read_bytes() == content


def test_a_run_with_uncommitted_changes_is_refused(interrupted):
    run = load(interrupted)
    save(interrupted, replace(run, revision=f"{run.revision}+dirty"))
    with pytest.raises(BadRecord, match=r"run.json was measured with uncommitted changes \(.*\+dirty\)"):
        resuming.resumed(interrupted, a_clean_run())


def test_a_run_of_different_code_is_refused(interrupted, monkeypatch):
    monkeypatch.setattr(resuming.machine, "changed_since", lambda _: ["suites"])
    with pytest.raises(BadRecord, match=r"the measured code has changed since then: suites"):
        resuming.resumed(interrupted, a_clean_run())


def test_a_complete_run_is_refused(interrupted):
    run = load(interrupted)
    run.finish()
    save(interrupted, run)
    with pytest.raises(BadRecord, match="complete"):
        resuming.resumed(interrupted, a_clean_run())
