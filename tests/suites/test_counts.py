"""Counts of work per call: parsing the tools' output, missing tools, and one real measurement."""

import json
import shutil
from argparse import Namespace
from pathlib import Path

import pytest

from results.record import Run
from suites.counts import measure, tools
from suites.counts.spec import OF_CALLGRIND, OF_STRACE, SUITE, CountsSettings, params_of
from suites.runner.jobs import encoded
from suites.runner.results import Result
from suites.throughput.tasks import SizedBenchmark, ThroughputJob, tasks

NAMES = [*OF_CALLGRIND, *OF_STRACE]
ADD = ThroughputJob(SizedBenchmark.of("add", batch=1), "CartPole-v1", 500)
DUMP = """\
# callgrind format
version: 1
part: 4
desc: Trigger: Client Request: 3
positions: line
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
summary: 9223372036854775808 1 2
ob=/lib/libc.so.6
fn=malloc
0 40 10 5
fn=_PyObject_Malloc
0 100 20
cfn=malloc
calls=3 0
0 40 10 5
cfn=malloc_usable_size
calls=9 0
0 1
cob=/lib/libc.so.6
cfi=???
cfn=posix_memalign
calls=1 0
0 1
totals: 140 30
"""
LOG = """\
100   execve("/usr/bin/python", ["python"], 0x7ffd) = 0
100   access("/replaybench/counts/idle", F_OK) = -1 ENOENT (No such file or directory)
100   access("/replaybench/counts/idle", F_OK) = -1 ENOENT (No such file or directory)
100   brk(NULL) = 0x5555
100   faccessat(AT_FDCWD, "/replaybench/counts/0", F_OK) = -1 ENOENT (No such file or directory)
100   futex(0x7f00, FUTEX_WAIT_PRIVATE, 2, NULL <unfinished ...>
101   getpid() = 100
101   futex(0x7f00, FUTEX_WAKE_PRIVATE, 1) = 1
100   <... futex resumed>) = 0
101   --- SIGCHLD {si_signo=SIGCHLD} ---
101   +++ exited with 0 +++
100   faccessat(AT_FDCWD, "/replaybench/counts/0", F_OK) = -1 ENOENT (No such file or directory)
100   exit_group(0) = ?
"""


def test_a_dump_has_totals_and_allocator_calls():
    expected = {"instructions": 140, "reads": 30, "writes": 0, "allocations": 4}
    assert tools.callgrind_counts(DUMP) == ("3", expected)


def test_a_dump_made_when_the_process_ends_is_ignored():
    assert tools.callgrind_counts(DUMP.replace("Client Request: 3", "Program termination")) is None


def test_system_calls_are_counted_between_two_marks_in_all_threads():
    zero, found = {"system_calls": 0, "futex_calls": 0}, {"system_calls": 3, "futex_calls": 2}
    assert tools.strace_counts(LOG.splitlines()) == {"idle": zero, "0": found}


def measured_with(folder: Path, monkeypatch, **scripts: str) -> dict[str, Result]:
    """Return the results if PATH contains only these programs."""
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("CC", str(folder / "cc"))
    results = list(measure.measure(Namespace(peer="plain", jobs=[ADD], calls=2, package_at=None)))
    assert [each.benchmark for each in results] == NAMES
    assert all(each.params == {"batch": 1, "capacity": 500, "of": "add"} for each in results)
    assert all(each.value is None for each in results)
    return {each.benchmark: each for each in results}


def test_without_the_tools_every_count_is_skipped(tmp_path, monkeypatch):
    results = measured_with(tmp_path, monkeypatch)
    assert {each.outcome for each in results.values()} == {"skipped"}
    assert all("install valgrind" in results[name].reason for name in OF_CALLGRIND)
    assert all("install strace" in results[name].reason for name in OF_STRACE)


def test_for_tools_that_cannot_work_here_the_reason_is_reported(tmp_path, monkeypatch):
    results = measured_with(
        tmp_path,
        monkeypatch,
        valgrind="exit 0",
        cc="echo no such header >&2; exit 1",
        strace="echo PTRACE_TRACEME: Operation not permitted >&2; exit 1",
    )
    assert {each.outcome for each in results.values()} == {"skipped"}
    assert "valgrind/callgrind.h: no such header" in results["instructions"].reason
    assert "--cap-add=SYS_PTRACE: PTRACE_TRACEME: Operation not permitted" in results["system_calls"].reason


def test_a_child_that_ends_early_is_a_failure_and_not_a_zero(tmp_path, monkeypatch):
    silent = 'test "$#" -lt 5 || { echo killed >&2; exit 9; }'
    results = measured_with(tmp_path, monkeypatch, valgrind=silent, cc="exit 0", strace="exit 0")
    assert {each.outcome for each in results.values()} == {"failed"}
    reason = results["reads"].reason
    assert "under callgrind ended early, with status 9" in reason and "killed" in reason


def test_the_suite_declares_a_cell_for_each_result():
    run = Run("gate", "quick", "revision", "command", {})
    (launch,) = SUITE.launches(run, CountsSettings(jobs=[ADD]), ["cpprb_impl"], ["CartPole-v1"])
    assert [record.benchmark for record in launch.records] == NAMES
    assert {record.unit for record in launch.records} >= {"instructions/call", "futex calls/call"}
    result = Result("reads", "cpprb_impl", ADD.workload, params_of(ADD), "ok", 1.0)
    assert [record.benchmark for record in launch.records if result.is_of(record)] == ["reads"]
    assert launch.command(launch.records, Path("x"), 0)[1:4] == ["-m", "suites.counts.measure", "--peer=cpprb_impl"]


def measured(surroundings, *jobs: str):
    options = [f"--job={encoded(ThroughputJob(task, 'CartPole-v1', 500))}" for task in tasks(*jobs)]
    done = surroundings.run("-m", "suites.counts", "--peer=plain", "--calls=5", *options)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert results, done.stderr
    return done.returncode, {
        (each["params"]["of"], each["params"]["batch"], each["benchmark"]): each for each in results
    }


@pytest.mark.skipif(
    not (shutil.which("valgrind") and shutil.which("strace") and Path("/usr/include/valgrind/callgrind.h").exists()),
    reason="needs valgrind with its headers, and strace",
)
def test_counts_are_the_same_in_every_run_and_grow_with_the_work(surroundings):
    jobs = ("sample:batch=32", "sample:batch=256", "sample_beside:batch=32,work_ms=1")
    status, first = measured(surroundings, *jobs)
    assert status == 0 and (status, first) == measured(surroundings, *jobs)
    assert first["sample", 256, "writes"]["value"] > first["sample", 32, "writes"]["value"] > 0
    assert first["sample", 32, "futex_calls"]["value"] == 0
    beside = first["sample_beside", 32, "reads"]
    assert beside["outcome"] == "skipped" and "depends on the clock" in beside["reason"]
