import re
import sys
import time
from pathlib import Path

import pytest

from results.record import Run
from suites.apex.spec import SUITE as APEX
from suites.runner import driver, needs, plan
from suites.runner import process as launch
from suites.runner.results import Result, append_result, failure, read_results
from suites.suite import Launch
from suites.throughput.spec import SUITE as THROUGHPUT
from suites.workloads import NAMES
from tests.reports.synthetic_runs import add_workload

JOBS = THROUGHPUT.profiles["full"].jobs(NAMES)


def a_run() -> Run:
    machine = {
        **dict.fromkeys(("cpu", "kernel", "os", "python", "numpy", "compiler"), "x"),
        "cores": 1,
        "memory_bytes": 1,
    }
    return Run("bench", "tiny", "unknown", "python -m suites.run", machine)


def test_a_cells_file_cut_off_by_a_kill_yields_its_complete_lines(tmp_path):
    file = tmp_path / "cells.jsonl"
    assert list(read_results(file)) == []
    whole = Result("add", "a", "CartPole-v1", {"batch": 1, "capacity": 10}, "ok", 1e-6)
    append_result(file, whole)
    append_result(file, whole)
    file.write_text(file.read_text()[:-20])
    assert list(read_results(file)) == [whole]


def test_a_result_belongs_to_the_cell_of_its_benchmark_workload_and_params():
    run = a_run()
    cells = THROUGHPUT.declare_jobs(run, "a", JOBS)
    cells += APEX.declare(run, "a", "CartPole-v1", {"explorers": 2, "capacity": 10})
    assert run.declared == len(cells) == len(JOBS) + len(APEX.benchmarks)
    for cell in cells:
        result = Result(cell.benchmark, "another name", cell.workload, dict(cell.params), "ok", 1.0)
        assert [other for other in cells if result.is_of(other)] == [cell]


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        ("pass", None),
        ("raise SystemExit(7)", "ended with exit status 7"),
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9 (SIGKILL)"),
        ("raise RuntimeError('no more')", "ended with exit status 1; its last output: .*RuntimeError: no more"),
        ("print('so far', flush=True); import time; time.sleep(60)", "timed out after 1 s; its last output: so far"),
    ],
)
def test_the_way_a_launch_ended_is_reported(code, trouble):
    said = launch.run([sys.executable, "-c", code], 1).trouble
    assert said is None if trouble is None else re.fullmatch(trouble.replace("(", r"\(").replace(")", r"\)"), said)


def test_a_launch_runs_one_math_thread():
    code = "import os; raise SystemExit(os.environ['OMP_NUM_THREADS'] != '1')"
    assert launch.run([sys.executable, "-c", code], 10) == launch.Ending(None)


def test_similar_troubles_are_reported_once():
    run = a_run()
    for record in THROUGHPUT.declare_jobs(run, "a", JOBS[:6]):
        record.fail("failed", "it broke\nat length")
    assert driver.troubles(run.records) == ["failed: 6 cells of a: it broke"]


def test_the_time_left_is_not_estimated_from_the_slowest_peer_alone():
    record = THROUGHPUT.declare_jobs(a_run(), "a", JOBS[:1])
    names = ("fast", "middling", "slow", *(f"unseen {number}" for number in range(10)))
    launches = [Launch(name, record, lambda _records, _cells, _block: []) for name in names]
    fixed = plan.Fixed([(0, launch) for launch in launches])
    progress = driver.RunProgress(fixed)
    for (block, each), seconds in zip(fixed, (1.0, 4.0, 100.0), strict=False):
        fixed.ended(each, seconds)
        progress.end(block, each, seconds, [])
        if seconds == 100.0:
            break
    assert progress.remaining() == "about 40 s left"


def test_temporary_files_of_a_killed_launch_are_removed(tmp_path):
    told = tmp_path / "told"
    program = f"import os, tempfile; open({str(told)!r}, 'w').write(tempfile.mkdtemp()); os.kill(os.getpid(), 9)"
    assert "SIGKILL" in launch.run([sys.executable, "-c", program], 30).trouble
    assert told.read_text() and not Path(told.read_text()).exists()


def test_a_long_reason_keeps_both_ends_and_no_path_of_this_checkout():
    error = RuntimeError("first words\n" + f"  at {launch.CHECKOUT}/suites/x.py\n" * 100 + "last words")
    outcome, reason = failure(error)
    assert outcome == "failed" and str(launch.CHECKOUT) not in reason and len(reason) < 600
    assert reason.startswith("RuntimeError: first words | at suites/x.py") and reason.endswith("last words")


def test_a_reason_can_always_be_saved():
    assert failure(RuntimeError("\ud800 odd"))[1] == "RuntimeError: ? odd"


REVERB = "adapters/peers/reverb/adapter.py"
SLEEP = "import time; time.sleep(600)"


def test_additional_figures_of_a_job_are_kept(tmp_path):
    run = a_run()
    asked, besides = THROUGHPUT.declare_jobs(run, "a", JOBS[:2])
    ready, cells = tmp_path / "ready.jsonl", tmp_path / "cells.jsonl"
    for record in (asked, besides):
        append_result(ready, Result(record.benchmark, "a", record.workload, record.params, "ok", 1.0))
    program = f"import shutil, sys; shutil.copyfile({str(ready)!r}, sys.argv[1])"
    made = Launch("a launch", [asked, besides], lambda _records, to, _block: [sys.executable, "-c", program, str(to)])
    driver.measure(made, [asked], 0, cells, 30, plan.Fixed([]), lambda: None)
    assert [record.status for record in (asked, besides)] == ["ok", "ok"]


def drive_one(tmp_path, peer: str, figures: int, then: str, minutes: float = 1.0, seconds: float = 2.0):
    """Return (exit status, statuses) of a run of one launch with two cells, `seconds` before its budget ends."""
    run = a_run()
    run.add_peer(peer, "1", "made for the test")
    add_workload(run, "CartPole-v1")
    about = {"suite": "throughput", "peer": peer, "workload": "CartPole-v1", "unit": "s", "better": "lower"}
    records = [run.cell(benchmark="add", params={"batch": number}, **about) for number in range(2)]
    ready = tmp_path / "ready.jsonl"  # copied, so that the program reports its figures without a slow import
    ready.touch()
    for number in range(figures):
        append_result(ready, Result("add", "x", "CartPole-v1", {"batch": number}, "ok", 1.0))
    program = f"import os, shutil, sys; shutil.copyfile({str(ready)!r}, sys.argv[1]); {then}"
    made = Launch("a launch", records, lambda _records, cells, _block: [sys.executable, "-c", program, str(cells)])
    budgeted = plan.Budgeted([needs.SuiteLaunches([made], 1, repeated=False)], minutes, time.monotonic() + seconds)
    return driver.drive(run, tmp_path / "run.json", budgeted, 60), [record.status for record in records]


@pytest.mark.parametrize(("peer", "status"), [("another", 0), ("cpprb_impl", 1)])
def test_a_buffer_that_hangs_until_the_budget_ends_is_not_left_out(tmp_path, monkeypatch, peer, status):
    monkeypatch.setattr(driver, "STILL_SECONDS", 0.5)
    monkeypatch.setattr(driver, "OUR_STILL_SECONDS", 0.5)
    assert drive_one(tmp_path, peer, 1, SLEEP) == (status, ["ok", "failed"])


def test_a_buffer_that_still_yields_figures_when_the_budget_ends_is_left_out(tmp_path):
    assert drive_one(tmp_path, "cpprb_impl", 1, SLEEP) == (0, ["ok", "left_out"])


@pytest.mark.parametrize(("peer", "status"), [("another", 0), ("cpprb_impl", 1)])
def test_a_crash_after_the_last_figure_is_not_overlooked(tmp_path, peer, status):
    crash = "os.kill(os.getpid(), 11)"
    assert drive_one(tmp_path, peer, 2, crash, seconds=30) == (status, ["ok", "failed"])


def raised(code: str, file: Path) -> BaseException:
    """Return the exception that `code` raises as if it were in this file."""
    try:
        exec(compile(code, str(file), "exec"), {})
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("file", "code", "outcome"),
    [
        ("suites/sharing/measure.py", "1 / 0", "broken"),
        (REVERB, "1 / 0", "failed"),
        ("../somewhere/reverb/client.py", "1 / 0", "failed"),
        ("suites/sharing/measure.py", "from suites.runner.results import Stuck; raise Stuck('no turn')", "failed"),
        (REVERB, "import not_there", "broken"),
        ("adapters/checks.py", "from adapters.base import WrongAnswer; raise WrongAnswer('torn')", "wrong"),
        (REVERB, "from adapters.base import Unavailable; raise Unavailable('no wheel')", "skipped"),
        (REVERB, "raise NotImplementedError('one reward a row')", "skipped"),
        ("cpprb_impl/buffers/single.py", "raise NotImplementedError('not yet')", "failed"),
        (".venv/lib/python3.11/site-packages/reverb/client.py", "raise NotImplementedError('not yet')", "failed"),
    ],
)
def test_an_error_is_attributed_to_the_peer_unless_the_harness_raised_it(file, code, outcome):
    assert failure(raised(code, launch.CHECKOUT / file))[0] == outcome


@pytest.mark.parametrize(
    ("peer", "excused"), [("cpprb_impl[Ray]", False), ("cpprb_impl[replay server]", True), ("cpprb", True)]
)
def test_a_failure_is_a_finding_unless_this_project_is_responsible_for_it(peer, excused):
    (record, *_) = APEX.declare(a_run(), peer, "CartPole-v1", {"explorers": 2, "capacity": 10})
    record.fail("failed", "the learner waited for longer than 15 s")
    assert driver.is_finding_about_another(record) is excused
