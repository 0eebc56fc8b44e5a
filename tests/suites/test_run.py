"""The runner as a program: run files after launches that fail in various ways."""

import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from adapters import registry
from results.record import Run, load
from suites import SUITES, suite_named, workloads
from suites import run as runner
from suites.runner.jobs import decoded
from suites.runner.needs import SuiteLaunches
from suites.runner.plan import fixed
from suites.runner.profiles import PROFILES
from suites.throughput.tasks import USUAL, ThroughputJob
from tests.suites.conftest import Surroundings, brief_run

TINY_CELLS = 13  # of each peer on CartPole
OPTIONS = ("--profile", "tiny", "--workloads", "CartPole-v1", "--suites", "throughput")
TINY = ("-m", "suites.run", *OPTIONS)


MEMORY = ("-m", "suites.run", "--profile", "tiny", "--workloads", "CartPole-v1", "--suites", "memory")


@pytest.fixture(scope="module")
def faulty_run(tmp_path_factory):
    """Return a run of a sound peer and several faulty peers."""
    surroundings = Surroundings(tmp_path_factory.mktemp("odd"), "odd-run")
    out = surroundings.folder / "run.json"
    done = surroundings.fork(
        *brief_run(blocks=2),
        *OPTIONS,
        "--peers",
        "dies-on-update,plain,mixes-rows,ignores-priorities,unavailable",
        f"--out={out}",
    )
    return done, load(out)


def refused(capsys, *options: str) -> str:
    """Return the error message of the runner for options that it refuses."""
    with pytest.raises(SystemExit, match="2"):
        runner.main(options)
    return capsys.readouterr().err


def records(run, peer, **matching):
    found = [record for record in run.records if record.peer == peer]
    return [each for each in found if all(getattr(each, name) == value for name, value in matching.items())]


def test_a_sound_peer_is_measured_once_per_block_in_every_cell(faulty_run):
    _, run = faulty_run
    assert len(records(run, "plain")) == TINY_CELLS
    for record in records(run, "plain"):
        assert record.ok and [sample.block for sample in record.samples] == [0, 1]


def test_a_wrong_answer_has_no_time(faulty_run):
    _, run = faulty_run
    assert {record.status for record in records(run, "mixes-rows")} == {"wrong"}
    assert all("different added rows" in record.reason for record in records(run, "mixes-rows"))
    assert not any(record.samples for record in records(run, "mixes-rows"))


def test_wrong_priorities_have_no_time(faulty_run):
    _, run = faulty_run
    by_priority = {"prioritized", "learner_step"}
    assert {record.benchmark for record in records(run, "ignores-priorities", status="wrong")} == by_priority
    others = {record.benchmark for record in records(run, "plain")} - by_priority
    assert {record.benchmark for record in records(run, "ignores-priorities", status="ok")} == others


def test_a_killed_launch_keeps_its_earlier_cells_and_reports_the_signal(faulty_run):
    _, run = faulty_run
    spoiled = [
        record for name in ("prioritized", "learner_step") for record in records(run, "dies-on-update", benchmark=name)
    ]
    assert all(record.ok for record in records(run, "dies-on-update", benchmark="add_lists"))
    assert {record.status for record in spoiled} == {"failed"}
    assert all("killed by signal 9 (SIGKILL)" in record.reason for record in spoiled)


def test_a_peer_that_the_platform_lacks_is_skipped(faulty_run):
    _, run = faulty_run
    assert {(each.status, each.reason) for each in records(run, "unavailable")} == {
        ("skipped", "no wheel for this platform")
    }


def test_findings_about_other_peers_are_listed_but_are_not_a_failure(faulty_run):
    done, run = faulty_run
    assert done.returncode == 0, done.stderr
    assert run.finished and not run.interrupted and run.declared == 5 * TINY_CELLS
    assert run.command.endswith("--peers dies-on-update,plain,mixes-rows,ignores-priorities,unavailable")
    lines = [line for line in done.stderr.splitlines() if not line.startswith(" ")]
    assert len(lines) == 4  # one each for dies-on-update, mixes-rows, ignores-priorities and unavailable
    for line in (
        "wrong: 13 cells of mixes-rows",
        "wrong: 4 cells of ignores-priorities",
        "skipped: 13 cells of unavailable",
    ):
        assert any(each.startswith(line) for each in lines), done.stderr


def test_a_run_with_only_skipped_cells_does_not_fail(surroundings):
    out = surroundings.folder / "run.json"
    done = surroundings.fork(*brief_run(blocks=1), *OPTIONS, "--peers", "unavailable,plain", f"--out={out}")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_for_a_peer_that_cannot_be_imported_the_reason_is_recorded(surroundings):
    shim = surroundings.folder / "shim" / "ray"
    shim.mkdir(parents=True)
    (shim / "__init__.py").write_text("raise ImportError('ray was uninstalled')\n")
    out = surroundings.folder / "run.json"
    path = f"{shim.parent}:{surroundings.variables['PYTHONPATH']}"
    done = surroundings.run(*TINY, "--peers", "rllib,plain", f"--out={out}", more={"PYTHONPATH": path})
    run = load(out)
    assert done.returncode == 1
    assert all(record.ok for record in records(run, "plain"))
    for record in records(run, "rllib"):
        assert record.status == "broken" and "ray was uninstalled" in record.reason


@pytest.mark.slow
def test_a_launch_that_hangs_is_ended_with_all_its_processes(surroundings):
    out = surroundings.folder / "run.json"
    # The time limit of the profile is minutes; everything else is the real runner.
    limited = (
        "import sys; from dataclasses import replace; from suites import run;"
        "from suites.runner.profiles import PROFILES;"
        "PROFILES['tiny'] = replace(PROFILES['tiny'], limit_seconds=4);"
        "sys.exit(run.main(sys.argv[1:]))"
    )
    done = surroundings.run("-c", limited, *OPTIONS, "--peers", "hangs,plain", f"--out={out}")
    run = load(out)
    assert done.returncode == 0, done.stderr
    assert all("timed out after 4 s" in record.reason for record in records(run, "hangs"))
    assert all(record.ok for record in records(run, "plain"))
    assert surroundings.leftovers() == []


@pytest.mark.slow
def test_leftovers_of_a_peer_are_recorded_but_are_not_a_failure(surroundings):
    out = surroundings.folder / "run.json"
    done = surroundings.run(*MEMORY, "--peers", "leaves-processes,plain", f"--out={out}")
    run = load(out)
    assert done.returncode == 0 and all(record.ok for record in run.records), done.stderr
    # Segments bear no mark of their launch, so this run may remove those of other runs on this machine, and vice versa.
    assert {left.peer for left in run.left} == {"leaves-processes"} and len(run.left) == 2
    # One per buffer: a small one, a large one, one for finding leaks, and a plain one for warming up.
    assert sorted(left.what[:11] for left in run.left) == ["3 processes", "4 processes"]
    assert "left behind: 3 processes" in done.stderr
    assert surroundings.leftovers() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        ("#!/bin/sh\nkill -9 $$\n", "failed", "killed by signal 9 (SIGKILL)"),
        ("#!/bin/sh\nexec sleep 600\n", "failed", "timed out after 6 s"),
        ("#!/bin/sh\nexit 0\n", "broken", "ended without measuring it"),
        ("#!/bin/sh\nexit 4\n", "broken", "ended with exit status 4"),
        (None, "broken", "could not be started"),
    ],
    ids=["killed", "hanging", "silent", "unused", "gone"],
)
def test_a_peer_in_its_own_venv_fails_like_any_other_and_the_run_continues(script, status, reason, surroundings):
    """The peer has a different interpreter than the sound peer. A crash or a hang is a finding about the peer. An
    interpreter that never reaches the peer is a fault of the harness."""
    out, there = surroundings.folder / "run.json", surroundings.folder / "python"
    if script is not None:
        there.write_text(script)
        there.chmod(0o755)
    elsewhere = (
        "import sys; from dataclasses import replace; from adapters import registry; from suites import run;"
        "from suites.runner.profiles import PROFILES; from suites.startup import spec;"
        "own, there = registry.python, sys.argv.pop(1);"
        "PROFILES['tiny'] = replace(PROFILES['tiny'], limit_seconds=6);"
        "spec.PROFILES['tiny'] = replace(spec.PROFILES['tiny'], capacity=200);"
        "registry.python = lambda peer: there if peer == 'ignores-priorities' else own(peer);"
        "sys.exit(run.main(sys.argv[1:]))"
    )
    options = ("--profile=tiny", "--suites=startup", "--peers=ignores-priorities,plain", f"--out={out}")
    done = surroundings.run("-c", elsewhere, str(there), *options)
    run = load(out)
    assert done.returncode == (status == "broken"), done.stderr
    assert all(each.status == status and reason in each.reason for each in records(run, "ignores-priorities"))
    assert all(record.ok for record in records(run, "plain"))


APEX = ("-m", "suites.run", "--profile", "tiny", "--suites", "apex")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "status"), [("torn", 0), ("cpprb_impl[torn]", 1)])
def test_torn_rows_are_a_finding_about_a_peer_and_a_failure_of_our_own(name, status, surroundings):
    """In both cases, figures that were measured meanwhile are kept."""
    out = surroundings.folder / "run.json"
    more = {"FAULTY_PEERS": f"plain {name}=torn"}
    done = surroundings.run(*APEX, "--peers", f"{name},plain", f"--out={out}", more=more)
    run = load(out)
    assert done.returncode == status, done.stderr
    found = records(run, name, benchmark="whole")
    assert found and all(each.status == "wrong" and "not steps of CartPole" in each.reason for each in found)
    for benchmark in ("explorers", "learner"):
        assert all(each.ok and each.samples for each in records(run, name, benchmark=benchmark))
    assert all(record.ok for record in records(run, "plain", benchmark="whole"))


@pytest.mark.slow
def test_a_run_keeps_to_its_time_budget(surroundings):
    out = surroundings.folder / "run.json"
    whole = (  # on a busy machine, a launch may need more than its share of so small a budget
        "import sys; from functools import partial; from suites import run; from suites.runner import plan;"
        "run.Budgeted = partial(plan.Budgeted, share=1.0); sys.exit(run.main(sys.argv[1:]))"
    )
    begin = time.monotonic()
    done = surroundings.run("-c", whole, *OPTIONS, "--minutes=1", "--peers=plain,mixes-rows", f"--out={out}")
    assert done.returncode == 0, done.stderr
    run = load(out)
    assert time.monotonic() - begin < 60 and run.minutes == 1
    assert {record.status for record in run.records} <= {"ok", "wrong", "left_out"}
    assert any(record.ok for record in run.records)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--minutes=0.1", "a number of minutes, at least 1, such as 3; got '0.1'"),
        ("--minutes=abc", "a number of minutes, at least 1, such as 3; got 'abc'"),
        ("--peers=cpprb_imp", "unknown peer 'cpprb_imp'; did you mean 'cpprb_impl'? known: "),
        ("--out=README.md", "README.md already exists: records are never overwritten"),
    ],
)
def test_the_error_names_only_bad_options_that_were_passed(option, said, capsys):
    errors = refused(capsys, *OPTIONS, "--peers=cpprb", option)
    assert said in errors and "usage" not in errors


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_run_keeps_its_records_and_leaves_nothing_behind(number, surroundings):
    out = surroundings.folder / "run.json"
    process = surroundings.start(*brief_run(blocks=1), *OPTIONS, "--peers", "plain,hangs", f"--out={out}")
    while not surroundings.flag.exists() and process.poll() is None:  # wait until it hangs
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    run = load(out)
    assert process.returncode == 130, errors
    assert run.interrupted and run.finished
    assert all(record.status in ("ok", "interrupted") for record in run.records)
    assert all(record.status == "interrupted" for record in records(run, "hangs"))
    assert surroundings.leftovers() == []


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("--peers=no-such-buffer", "cpprb"),
        ("--workloads=Pong", "ALE/Seaquest-v5"),
        ("--suites=tables", ", ".join(sorted(SUITES))),
    ],
)
def test_the_error_for_an_unknown_name_lists_the_known_ones(option, known, capsys):
    errors, name = refused(capsys, option), option.partition("=")[2]
    assert f"unknown {option[2:].partition('=')[0][:-1]} '{name}'" in errors and known in errors


def test_the_memory_suite_is_declared_and_measured_like_the_others(surroundings):
    out = surroundings.folder / "run.json"
    arguments = ("--profile=tiny", "--suites=memory", "--workloads=CartPole-v1")
    done = surroundings.fork(*brief_run(blocks=1), *arguments, "--peers=plain,mixes-rows,unavailable", f"--out={out}")
    run = load(out)
    assert done.returncode == 0 and run.declared == 3 * 7 and [each.name for each in run.workloads] == ["CartPole-v1"]
    assert {record.unit for record in run.records} == {"B/transition", "B/round"}
    for peer, status in (("plain", "ok"), ("mixes-rows", "wrong"), ("unavailable", "skipped")):
        assert {each.status for each in records(run, peer)} == {status}
        beside = ["constructed", "quarter", "half", "leak", "leak_prioritized"]
        assert sorted(each.benchmark for each in records(run, peer)) == sorted(["plain", "priorities", *beside])


@pytest.mark.slow
def test_a_leak_of_another_peer_is_a_finding_but_not_a_failure(surroundings):
    out = surroundings.folder / "run.json"
    long = (  # enough rounds even on a busy machine
        "import sys; from dataclasses import replace; from suites import run; from suites.memory.spec import PROFILES;"
        "PROFILES['tiny'] = replace(PROFILES['tiny'], leak_seconds=5);"
        "sys.exit(run.main(sys.argv[1:]))"
    )
    done = surroundings.run("-c", long, *MEMORY[2:], "--peers=leaks", f"--out={out}")
    found = {record.benchmark: record for record in load(out).records}
    assert done.returncode == 0, done.stderr
    assert found["leak"].status == "wrong" and "B per round" in found["leak"].reason and found["plain"].ok


def test_options_that_select_no_cell_are_refused(surroundings):
    done = surroundings.fork("-m", "suites.run", "--suites=apex", "--workloads=Pendulum-v1")
    assert done.returncode == 2 and "nothing to measure" in done.stderr


@pytest.mark.parametrize("name", SUITES)
def test_every_suite_names_existing_profiles_peers_and_workloads(name):
    measured = suite_named(name)
    assert measured.name == name and measured.benchmarks and set(measured.profiles) <= set(PROFILES)
    assert set(measured.peers()) <= set(registry.every())
    for settings in measured.profiles.values():
        assert settings.blocks > 0
        assert set(measured.workloads(settings)) <= {*workloads.NAMES, *measured.generated}


def test_every_job_of_a_profile_is_among_the_usual_jobs_and_appears_once():
    throughput, sharing = suite_named("throughput"), suite_named("sharing")
    assert {task.benchmark for task in USUAL} == set(throughput.benchmarks)
    for settings in throughput.profiles.values():
        jobs = settings.jobs(workloads.NAMES)
        assert len(set(jobs)) == sum(len(each.tasks) for some in settings.by_workload.values() for each in some)
        assert all(job.task in USUAL for job in jobs)
    for settings in sharing.profiles.values():
        jobs = [job for group in settings.groups for job in group]
        assert len(jobs) == len(set(jobs))


def test_a_throughput_launch_measures_only_open_cells():
    run, throughput = Run("bench", "tiny", "unknown", "", {}), suite_named("throughput")
    (launch,) = throughput.launches(run, throughput.profiles["tiny"], ["cpprb"], ["CartPole-v1", "Pendulum-v1"])
    launch.records[3].fail("failed", "it crashed")
    command = launch.command(launch.open_records, Path("cells.jsonl"), 0)
    jobs = [decoded(ThroughputJob, option.removeprefix("--job=")) for option in command if option.startswith("--job=")]
    assert len(jobs) == len(launch.records) - 1
    # The order matters, since the runner attributes a failure to the first cell without a result.
    assert all(job.is_of(record) for job, record in zip(jobs, launch.open_records, strict=True))


def test_peers_that_must_be_requested_are_not_in_the_last_blocks():
    run, throughput = Run("bench", "tiny", "unknown", "", {}), suite_named("throughput")
    settings = replace(throughput.profiles["tiny"], blocks=3, blocks_if_named=2)
    launches = throughput.launches(run, settings, ["cpprb", "torchrl"], ["CartPole-v1"])
    times = Counter(launch.name for _, launch in fixed([SuiteLaunches(launches, settings.blocks)]))
    assert times == {"throughput of cpprb": 3, "throughput of torchrl": 2}


def test_a_peer_too_slow_to_be_filled_is_skipped_with_the_reason(surroundings):
    out = surroundings.folder / "run.json"
    impatient = (
        "import sys; from dataclasses import replace; from suites import run; from suites.throughput import spec;"
        "tiny = spec.PROFILES['tiny'];"
        "unfilled = [replace(each, fill_seconds=0) for each in tiny.by_workload['CartPole-v1']];"
        "spec.PROFILES['tiny'] = replace(tiny, by_workload={'CartPole-v1': unfilled});"
        "sys.exit(run.main(sys.argv[1:]))"
    )
    done = surroundings.fork("-c", impatient, *OPTIONS, "--peers", "plain", f"--out={out}")
    assert done.returncode == 1 and "nothing was measured" not in done.stdout
    reasons = {record.reason for record in load(out).records}
    assert reasons == {f"too slow for {rows} rows: not full after 0 s" for rows in ("2,000", "4,000")}
