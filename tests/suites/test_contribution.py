"""Which records from other people's machines are accepted, and how `make contribute` writes a record."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from adapters import registry
from results import MACHINES, Run, load, machine, save
from suites import contribute, contribution
from tests.results.test_record import WORKLOAD

CHECKOUT = contribution.COMMON_PINS.parent
PLACE = "results/machines"
SIDES = {"first": [1.0, 1.1, 1.0, 1.2, 1.0], "second": [1.1, 1.0, 1.0, 1.1, 1.1]}


def measured(**changed) -> Run:
    """Return a SYNTHETIC run with a record of each needed suite."""
    about = {"revision": "0" * 40, "command": contribution.COMMAND, "minutes": 18.0, **changed}
    run = Run("bench", "quick", machine=machine.describe() | {"cpu": "AMD Ryzen 9 7950X 16-Core Processor"}, **about)
    run.add_workload(**WORKLOAD)
    run.add_peer("cpprb", contribution.pinned("cpprb"), "as documented")
    where = {"peer": "cpprb", "workload": WORKLOAD["name"], "unit": "s", "better": "lower"}
    for suite in ("throughput", "integrity", "conformance"):
        run.cell(suite=suite, benchmark="any", params={}, **where).add_sample(0, 1.0)
    for side, values in SIDES.items():
        record = run.cell(suite="control", benchmark="add", params={"side": side}, **where)
        for block, value in enumerate(values):
            record.add_sample(block, value)
    run.finish()
    return run


@pytest.fixture
def put(tmp_path):
    """Return a function that saves a run under a name, by default its own, and returns the path."""

    def put(run: Run, name: str | None = None) -> Path:
        path = tmp_path / (name or contribution.file_name(run))
        save(path, run)
        return path

    return put


def control(run: Run, side: str, factor: float, blocks: int = 5) -> Run:
    record = next(each for each in run.records if each.params.get("side") == side)
    values, record.samples = [sample.value for sample in record.samples[:blocks]], []
    for block, value in enumerate(values):
        record.add_sample(block, value * factor)
    return run


def without(suite: str, **params: str) -> Run:
    run = measured()
    gone = [record for record in run.records if record.suite == suite and params.items() <= record.params.items()]
    run.records = [record for record in run.records if record not in gone]
    return run


def interrupted() -> Run:
    run = measured()
    run.interrupted = True
    return run


def quoting(text: str) -> Run:
    run = measured()
    run.records[0].fail("failed", text)
    return run


def test_a_complete_record_is_accepted(put):
    path = put(measured())
    assert contribution.faults(path) == []
    assert contribution.main([str(path)]) == 0


def test_a_second_record_of_a_day_may_have_a_number(put):
    run = measured()
    assert contribution.faults(put(run, contribution.file_name(run).replace(".json", "-2.json"))) == []


@pytest.mark.parametrize(
    ("run", "said"),
    {
        "changes": (lambda: measured(revision="0" * 40 + "+dirty"), "revision must be a commit without changes"),
        "no git": (lambda: measured(revision="unknown"), "revision must be a commit without changes, got unknown"),
        "other command": (lambda: measured(command="python -m suites.run"), "command must be that of make contribute"),
        "interrupted": (interrupted, "run must be complete, got an interrupted one"),
        "folder": (lambda: quoting("OSError: /home/ada/x.py"), "must not name a person's folder, got /home/ada"),
        "control": (
            lambda: control(measured(), "second", 1.5),
            "interval of the control must contain 1, got 1.364 to 1.650",
        ),
        "few blocks": (lambda: control(measured(), "second", 1.5, 4), "both sides in at least 5 blocks, got 4"),
        "one side": (lambda: without("control", side="second"), "both sides in at least 5 blocks, got 0"),
        "no control": (lambda: without("control"), "both sides in at least 5 blocks, got 0"),
        **{
            suite: (lambda suite=suite: without(suite), f"figures of the suite {suite} must be present, got none")
            for suite in contribution.NEEDED
        },
    }.values(),
)
def test_faults_of_a_record_are_reported(put, run, said):
    (fault,) = contribution.faults(put(run()))
    assert said in fault


def test_a_wrong_name_a_damaged_file_and_a_large_file_are_refused(put, monkeypatch):
    assert "file name must be amd-ryzen-9-7950x-" in contribution.faults(put(measured(), "mine.json"))[0]
    path = put(measured())
    monkeypatch.setattr(contribution, "LARGEST", 1_000)
    assert re.fullmatch(r"size must be at most 1,000 bytes, got [\d,]+", contribution.faults(path)[0])
    path.write_text(path.read_text(encoding="utf-8")[:-100], encoding="utf-8")
    assert "is not JSON" in contribution.faults(path)[0]


def test_a_record_with_a_different_library_version_is_not_sent(put, capsys):
    run = measured()
    run.peers = [run.peers[0].__class__("cpprb", "10.7.1", "as documented")]
    assert contribution.main([str(put(run))]) == 1
    assert (
        f"version of cpprb must be the pinned one, {contribution.pinned('cpprb')}, got 10.7.1"
        in capsys.readouterr().err
    )


def test_the_base_must_contain_the_measured_commit(put, capsys, monkeypatch, tmp_path):
    def git(*words: str) -> str:
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        return subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    def commit() -> str:
        git("commit", "--allow-empty", "--message=Measured")
        return git("rev-parse", "HEAD").strip()

    git("init", "--initial-branch=main")
    contained = commit()
    git("switch", "--create", "mine")
    elsewhere = commit()
    monkeypatch.setattr(contribution.venvs, "CHECKOUT", tmp_path)
    assert contribution.main([str(put(measured(revision=contained))), "--base", "main"]) == 0
    for revision in (elsewhere, "0" * 40):
        assert contribution.main([str(put(measured(revision=revision))), "--base", "main"]) == 1
        assert f"revision must be a commit that main contains, got {revision}" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        contribution.main([str(put(measured())), "--base", "no-such-branch"])
    assert "--base must be a revision of this clone, got no-such-branch" in capsys.readouterr().err


def test_every_default_peer_from_another_project_has_a_pinned_version():
    for name in registry.chosen([]):
        assert contribution.pinned(name) or registry.peer_class(name).distribution in (None, "cpprb-impl"), name


@pytest.mark.parametrize(
    ("cpu", "name"),
    [
        ("AMD Ryzen 9 7950X 16-Core Processor", "amd-ryzen-9-7950x"),
        ("Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz", "intel-core-i7-8550u"),
        ("Intel(R) Xeon(R) Processor", "intel-xeon"),
        ("../..", "unknown"),
    ],
)
def test_a_record_is_named_after_its_machine(cpu, name):
    run = measured()
    run.machine["cpu"], run.machine["cores"], run.started = cpu, 8, "2026-11-27T06:30:00Z"
    assert contribution.file_name(run) == f"{name}-8-20261127.json"


@pytest.fixture
def as_user(monkeypatch):
    """Return a function that changes the apparent user, machine and home folder; None means unknown to the system."""

    def as_user(name: str | None, host: str = "adas-laptop", home: str | None = None) -> None:
        def known(value, error):
            def get():
                if value is None:
                    raise error
                return value

            return get

        monkeypatch.setattr(getpass, "getuser", known(name, OSError("No username set in the environment")))
        monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename=host))
        folder = None if home is None else Path(home)
        monkeypatch.setattr(Path, "home", known(folder, RuntimeError("Could not determine home directory.")))

    return as_user


@pytest.mark.parametrize("name", ["ada.lovelace", "ada"])
def test_a_record_is_written_without_the_names_of_the_user_and_the_machine(put, tmp_path, as_user, name):
    as_user(name, home=f"/home/{name}")
    run = quoting(f"OSError: /home/{name}/x/y.py: {name}@adas-laptop is not allowed")
    run.records[0].seen = f"by {name}: adas-laptop, Canada"
    assert contribute.write(put(run), tmp_path / "machines") == []
    (written,) = (tmp_path / "machines").glob("*.json")
    assert name not in written.read_text(encoding="utf-8").replace("Canada", "")
    record = load(written).records[0]
    assert record.reason == "OSError: ~/x/y.py: user@host is not allowed"
    assert record.seen == "by user: host, Canada"


@pytest.mark.parametrize(
    ("who", "text", "expected"),
    [
        (("ada", "pc", "/"), "no /usr/lib/x.so of ada", "no /usr/lib/x.so of user"),
        (("ada", "pc", "/home/ada"), "/home/adam/x and /home/ada/y", "/home/adam/x and ~/y"),
        ((None, "pc", None), "pc: /usr/lib/x.so", "host: /usr/lib/x.so"),
        (("ada", "pc.example.org", "/home/ada"), "pc and pc.example.org", "host and host"),
        (("ada", "ada-pc.example.org", "/home/ada"), "ada-pc.example.org and ada-pc", "host and host"),
        (("ada", "pc", "/home/ada"), "gcc -I/home/ada/x", "gcc -I~/x"),
        (("ada", "pc", "/home/ada"), r"'line\n/home/ada/x'", r"'line\n~/x'"),
        (("ada", "pc", "/home/ada"), "pytest-of-ada/x", "pytest-of-user/x"),
        (("user", "localhost", "/home/user"), "user@localhost in /home/user/x", "user@localhost in ~/x"),
    ],
    ids=[
        "home is /",
        "another's home",
        "unknown user",
        "host with a domain",
        "user in the host",
        "after a letter",
        "after a backslash",
        "after a hyphen",
        "common names",
    ],
)
def test_messages_are_stripped_of_user_host_and_home(as_user, who, text, expected):
    as_user(*who)
    assert contribute.anonymous(text) == expected


def test_records_of_one_day_get_different_names(put, tmp_path):
    path = put(measured())
    for _ in range(3):
        assert contribute.write(path, tmp_path / "machines") == []
    stem = path.stem
    assert sorted(each.stem for each in (tmp_path / "machines").iterdir()) == [stem, f"{stem}-2", f"{stem}-3"]


def test_a_record_that_would_not_be_accepted_is_not_written(put, tmp_path):
    (said,) = contribute.write(put(control(measured(), "second", 1.5)), tmp_path / "machines")
    assert "interval of the control must contain 1" in said and not list(tmp_path.glob("machines/*"))


def described(monkeypatch, versions, reason=None):
    """Make these versions appear to be installed; `reason` is why cpprb is not."""
    monkeypatch.setattr(
        contribute.registry,
        "describe",
        lambda name: SimpleNamespace(version=versions[name], reason=reason if name == "cpprb" else None),
    )


@pytest.fixture
def quiet(monkeypatch):
    """Simulate a machine that is quiet enough for a measurement."""
    monkeypatch.setattr(contribute.machine, "revision", lambda: "0" * 40)
    monkeypatch.setattr(contribution, "is_commit", lambda _: False)
    monkeypatch.setattr(contribute.psutil, "sensors_battery", lambda: None)
    monkeypatch.setattr(contribute.psutil, "cpu_times_percent", lambda _: SimpleNamespace(idle=95.0, iowait=1.0))
    monkeypatch.delenv("REPLAYBENCH_ADAPTER", raising=False)
    described(monkeypatch, {name: contribution.pinned(name) for name in registry.chosen([])})


@pytest.mark.parametrize("battery", [None, SimpleNamespace(power_plugged=True), SimpleNamespace(power_plugged=None)])
def test_a_quiet_machine_is_measured(quiet, monkeypatch, battery):
    monkeypatch.setattr(contribute.psutil, "sensors_battery", lambda: battery)
    assert list(contribute.obstacles()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    {
        "busy": (
            lambda patch: patch.setattr(
                contribute.psutil, "cpu_times_percent", lambda _: SimpleNamespace(idle=60.0, iowait=6.0)
            ),
            "other programs must use at most 10% of the processors, got 34%",
        ),
        "battery": (
            lambda patch: patch.setattr(
                contribute.psutil, "sensors_battery", lambda: SimpleNamespace(power_plugged=False)
            ),
            "power must come from the mains, got the battery",
        ),
        "changes": (
            lambda patch: patch.setattr(contribute.machine, "revision", lambda: "0" * 40 + "+dirty"),
            "revision must be a commit without changes",
        ),
        "version": (
            lambda patch: described(patch, {"cpprb": "10.7.1"} | dict.fromkeys(set(registry.chosen([])) - {"cpprb"})),
            f"version of cpprb must be the pinned one, {contribution.pinned('cpprb')}, got 10.7.1",
        ),
        "own branch": (
            lambda patch: patch.setattr(contribution, "is_commit", lambda _: True),
            "revision must be a commit that origin/main contains, got 000000",
        ),
        "no reference": (
            lambda patch: described(patch, dict.fromkeys(registry.chosen([])), reason="cpprb has wheels up to 3.12"),
            "cpprb, the reference of most ratios, must be installed, got: cpprb has wheels up to 3.12; run make clean",
        ),
        "adapter": (
            lambda patch: patch.setenv("REPLAYBENCH_ADAPTER", "mine.py"),
            "REPLAYBENCH_ADAPTER must not be set",
        ),
    }.values(),
)
def test_obstacles_to_measuring_a_machine_are_reported(quiet, monkeypatch, capsys, change, said):
    with monkeypatch.context() as patch:
        change(patch)
        (obstacle,) = contribute.obstacles()
        assert said in obstacle
        patch.setattr(contribute.run, "main", lambda _: pytest.fail("it was measured"))
        assert contribute.main() == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ended", "has_file", "status"), [(0, True, 0), (1, True, 0), (2, True, 2), (130, True, 130), (1, False, 1)]
)
def test_an_unfinished_run_is_not_written(quiet, monkeypatch, tmp_path, ended, has_file, status):
    def main(options):
        if has_file:
            save(Path(options[-1]), measured())
        return ended

    monkeypatch.setattr(contribute.run, "main", main)
    monkeypatch.setattr(contribute, "RUNS", tmp_path)
    written = []
    monkeypatch.setattr(contribute, "write", lambda path: written.append(path) or [])
    assert contribute.main() == status
    assert bool(written) is (status == 0)


@pytest.mark.parametrize("path", sorted(MACHINES.glob("*.json")), ids=lambda path: path.stem)
def test_committed_records_still_meet_the_conditions(path):
    assert contribution.faults(path) == []


@pytest.fixture
def branch(tmp_path):
    """Return a function that runs git on a branch of a repository with CI's check and one record."""
    folder = tmp_path / "clone"
    (folder / "results" / "machines").mkdir(parents=True)
    (folder / ".ci").mkdir()
    shutil.copy(CHECKOUT / ".ci" / "records", folder / ".ci")
    (folder / "results" / "machines" / "old.json").write_text("{}")
    (folder / "results" / "machines" / "README.md").write_text("Records")
    (folder / "Makefile").write_text(".venv/.installed:\n")
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "python").write_text('#!/bin/sh\necho "checked: $*"\n')
    (folder / ".venv" / "bin" / "python").chmod(0o755)

    def git(*words: str) -> None:
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)

    git("init", "--initial-branch=main")
    git("add", ".ci", "results", "Makefile")
    git("commit", "--message=Begin")
    git("switch", "--create", "mine")

    def check(change) -> subprocess.CompletedProcess:
        change(folder / "results" / "machines")
        git("add", "--all", "results")
        git("commit", "--allow-empty", "--message=Add a record")
        return subprocess.run([folder / ".ci" / "records", "main"], capture_output=True, text=True)

    return check


def test_ci_checks_the_records_that_a_branch_adds(branch):
    done = branch(lambda machines: (machines / "new.json").write_text("{}"))
    assert done.returncode == 0, done.stderr
    assert f"checked: -m suites.contribution --base main {PLACE}/new.json\n" in done.stdout


@pytest.mark.parametrize(
    "change",
    [
        lambda machines: (machines / "old.json").write_text("[]"),
        lambda machines: (machines / "old.json").unlink(),
        lambda machines: (machines / "old.json").rename(machines / "new.json"),
    ],
    ids=["edited", "removed", "renamed"],
)
def test_ci_refuses_a_branch_that_changes_a_record(branch, change):
    done = branch(change)
    assert done.returncode == 1 and f"records must not be changed, got changes of: {PLACE}/old.json" in done.stderr


@pytest.mark.parametrize(
    "change",
    [lambda machines: None, lambda machines: (machines / "README.md").write_text("Other words")],
    ids=["nothing", "the words about them"],
)
def test_a_branch_without_records_passes(branch, change):
    done = branch(change)
    assert (done.returncode, done.stdout) == (0, "no record was added\n")
