"""Runs are built cell by cell, saved completely or not at all, and loaded as saved."""

import json
import os
import subprocess

import pytest

from results import REFERENCE, BadRecord, Run, latest, load, machine, new_path, save

CELL = {
    "suite": "throughput",
    "benchmark": "add",
    "peer": "cpprb",
    "workload": "CartPole-v1",
    "params": {"batch": 1, "capacity": 1000},
    "unit": "s/transition",
    "better": "lower",
}

WORKLOAD = {
    "name": "CartPole-v1",
    "version": "1",
    "source": "synthetic",
    "transitions": 10,
    "row_bytes": 20,
    "sha256": "0" * 64,
    "fields": {"obs": {"shape": (4,), "dtype": "float32"}},  # shape is a tuple, as in adapters.base.Field
}


@pytest.fixture
def run():
    """Return a SYNTHETIC run of one peer and one workload, without any sample."""
    run = Run(kind="bench", profile="test", revision="unknown", command="test", machine=machine.describe())
    run.add_peer("cpprb", "11.0.0", "as documented", {"gives": "columns"})
    run.add_workload(**WORKLOAD)
    return run


def test_a_run_is_loaded_as_it_was_saved(run, tmp_path):
    record = run.cell(**CELL)
    record.add_sample(0, 1.5e-6)
    record.add_sample(1, 1.25e-6)
    run.cell(**{**CELL, "params": {"batch": 100, "capacity": 1000}}).fail("failed", "it crashed")
    run.finish()
    save(tmp_path / "run.json", run)
    assert load(tmp_path / "run.json").to_dict() == run.to_dict()


def test_a_cell_is_created_once(run):
    assert run.cell(**CELL) is run.cell(**{**CELL, "params": {"capacity": 1000, "batch": 1}})
    assert (len(run.records), run.declared) == (1, 1)
    with pytest.raises(BadRecord, match="must be in s/transition, lower is better, got"):
        run.cell(**{**CELL, "unit": "s/call"})


def test_a_loaded_run_continues_where_it_stopped(run, tmp_path):
    run.cell(**CELL).add_sample(0, 1.0)
    save(tmp_path / "run.json", run)
    again = load(tmp_path / "run.json")
    again.cell(**CELL).add_sample(1, 2.0)
    assert [sample.value for sample in again.records[0].samples] == [1.0, 2.0]


def test_a_cell_that_was_never_reached_remains_visible(run, tmp_path):
    run.cell(**CELL)
    run.finish(interrupted=True)
    save(tmp_path / "run.json", run)
    again = load(tmp_path / "run.json")
    assert again.records[0].status == "interrupted"
    assert again.missing() == ["throughput add (batch=1, capacity=1000) of cpprb on CartPole-v1"]


def test_fewer_cells_than_declared_is_a_problem_but_can_be_saved(run, tmp_path):
    run.cell(**CELL).add_sample(0, 1.0)
    run.declared = 3
    run.finish()
    save(tmp_path / "run.json", run)
    assert load(tmp_path / "run.json").problems() == ["never measured: 2 declared cell(s) without any record"]


def test_a_whole_run_has_no_problems_even_with_skipped_cells(run):
    run.cell(**CELL).add_sample(0, 1.0)
    run.cell(**{**CELL, "benchmark": "prioritized"}).fail("skipped", "it has no priorities")
    run.finish()
    assert run.problems() == []


@pytest.mark.parametrize("status", ["failed", "wrong", "interrupted"])
def test_every_other_status_is_a_problem_with_its_reason(run, status):
    record = run.cell(**CELL)
    record.add_sample(0, 1.0)
    record.fail(status, "because\nof this")
    run.cell(**{**CELL, "benchmark": "sample"}).add_sample(0, 1.0)
    assert len(run.problems()) == 1
    assert run.problems()[0].startswith(f"{status}: throughput add")
    assert run.problems()[0].endswith(": because")


def test_the_first_failure_and_its_samples_are_kept(run):
    record = run.cell(**CELL)
    record.add_sample(0, 1.0)
    record.fail("failed", "the cause")
    record.fail("interrupted", "a consequence")
    assert (record.status, record.reason, len(record.samples)) == ("failed", "the cause", 1)


def test_a_run_without_samples_is_a_problem(run):
    run.finish()
    assert run.problems() == ["nothing was measured"]


@pytest.mark.parametrize("value", [-1e-9, -1.0, float("nan"), float("inf")])
def test_a_sample_must_be_a_finite_non_negative_number(run, value):
    with pytest.raises(BadRecord, match="must be a finite number, at least 0, got"):
        run.cell(**CELL).add_sample(0, value)


def test_only_a_mean_return_may_be_negative(run, tmp_path):
    record = run.cell(**{**CELL, "unit": "mean return", "better": "higher"})
    record.add_sample(0, -109.6)
    with pytest.raises(BadRecord, match="must be a finite number, got nan"):
        record.add_sample(1, float("nan"))
    save(tmp_path / "run.json", run)
    assert load(tmp_path / "run.json").records[0].samples[0].value == -109.6
    record.unit = "s"
    with pytest.raises(BadRecord, match=r"samples\[0\]"):
        save(tmp_path / "run.json", run)


def test_a_block_has_one_sample(run):
    record = run.cell(**CELL)
    record.add_sample(0, 1.0)
    with pytest.raises(BadRecord, match="block 0 already has a sample"):
        record.add_sample(0, 1.0)


def test_saving_an_invalid_run_keeps_the_previous_file(run, tmp_path):
    path = tmp_path / "run.json"
    save(path, run)
    before = path.read_bytes()
    run.profile = ""
    with pytest.raises(BadRecord, match=r"run.json: run.profile: must not be empty"):
        save(path, run)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.json"]


def test_a_crash_while_writing_keeps_the_previous_file(run, tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    save(path, run)
    before = path.read_bytes()
    run.cell(**CELL).add_sample(0, 1.0)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save(path, run)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.json"]


def test_latest_is_the_newest_run_by_its_own_date(run, tmp_path):
    own, reference = tmp_path / "runs", tmp_path / "reference"
    own.mkdir(), reference.mkdir()
    folders = (own, reference)
    assert latest(folders=folders) is None
    run.started = "2026-01-01T00:00:00Z"
    save(reference / "old.json", run)
    assert latest(folders=folders) == reference / "old.json"
    for name, started in (("b", "2026-03-01T00:00:00Z"), ("a", "2026-02-01T00:00:00Z")):
        run.started = started
        save(own / f"{name}.json", run)
    run.kind, run.started = "gate", "2026-04-01T00:00:00Z"
    save(own / "gate.json", run)
    assert latest(folders=folders) == own / "b.json"
    assert latest("gate", folders) == own / "gate.json"
    assert latest(folders=folders, profile="hosts") is None
    assert latest(folders=folders, profile=run.profile) == own / "b.json"


def test_a_new_path_contains_the_date_and_is_not_in_use(run, tmp_path):
    run.started = "2026-11-20T06:30:00Z"
    path = new_path(run, tmp_path)
    assert path.name == "bench-test-20261120T063000Z.json"
    save(path, run)
    assert new_path(run, tmp_path).name == "bench-test-20261120T063000Z-2.json"


def test_the_description_of_the_machine_fits_the_schema_and_names_no_folder(run, tmp_path):
    save(tmp_path / "run.json", run)
    assert "/" not in json.dumps([run.machine["cpu"], run.machine["compiler"]]).replace("w/", "")


def test_processors_of_one_name_with_other_vector_instructions_are_of_another_kind():
    old = {"cpu": "AMD EPYC", "cores": 2}
    kinds = {machine.kind(old | more) for more in ({}, {"vectors": ""}, {"vectors": "AVX2"}, {"vectors": "AVX-512"})}
    assert kinds == {("AMD EPYC", 2), ("AMD EPYC, AVX2", 2), ("AMD EPYC, AVX-512", 2)}


@pytest.mark.parametrize(("flags", "vectors"), [("sse2 avx2 avx512f", "AVX-512"), ("sse2 avx2", "AVX2"), ("neon", "")])
def test_the_widest_vector_instructions_are_recorded(flags, vectors, monkeypatch):
    monkeypatch.setattr(machine, "_in_cpuinfo", {"flags": flags, "model name": "x"}.get)
    assert machine.describe()["vectors"] == vectors


def test_the_revision_outside_git_is_unknown(tmp_path):
    assert machine.revision(tmp_path) == "unknown"


def test_observations_are_saved_and_optional_in_older_files(tmp_path):
    data = json.loads(min(REFERENCE.glob("*.json"), key=lambda path: path.stat().st_size).read_text())
    for record in data["records"]:
        del record["seen"], record["hazard"]
    (tmp_path / "older.json").write_text(json.dumps(data))
    run = load(tmp_path / "older.json")
    assert all(record.seen is None and not record.hazard for record in run.records)
    run.records[0].seen, run.records[0].hazard = "copies: 24 columns", True
    save(tmp_path / "run.json", run)
    again = load(tmp_path / "run.json").records[0]
    assert (again.seen, again.hazard) == ("copies: 24 columns", True)


@pytest.fixture
def git(tmp_path):
    """Return a function that runs git in `tmp_path` and returns its output."""

    def git(*arguments):
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        done = subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    return git


@pytest.mark.parametrize(
    ("file", "is_change"), [("results/machines/x.json", False), ("results/runs.py", True), ("suites/a.py", True)]
)
def test_files_in_results_machines_do_not_make_the_revision_dirty(tmp_path, git, file, is_change):
    git("init", "-q")
    git("commit", "-qm", "Begin", "--allow-empty")
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("{}")
    (tmp_path / "results").mkdir(exist_ok=True)
    assert machine.revision(tmp_path / "results").endswith("+dirty") is is_change


def test_a_run_is_outdated_if_a_later_commit_changed_the_code(tmp_path, git):
    def commit(file):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(file)
        git("add", "-A")
        git("commit", "-qm", file)
        return git("rev-parse", "HEAD")

    assert machine.changed_since("abc", ["suites"], tmp_path) == []
    git("init", "-q")
    first = commit("suites/a.py")
    commit("docs/b.md")
    assert machine.changed_since(first, ["suites"], tmp_path) == []
    last = commit("suites/c.py")
    assert machine.changed_since(first, ["suites"], tmp_path) == ["suites/c.py"]
    assert machine.changed_since(f"{first}+dirty", ["suites"], tmp_path) == ["suites/c.py"]
    assert machine.changed_since(last, ["suites"], tmp_path) == []
    assert machine.changed_since("0" * 40, ["suites"], tmp_path) == []


@pytest.mark.parametrize(
    ("file", "profile", "suite"),
    [
        ("2core-amd-epyc-20261123-learning", "solve_time", "solve_time"),
        ("2core-amd-epyc-20261124-learners", "paired_training", "paired_training"),
        ("2core-amd-epyc-20261125-learners-speed", "paired_speed", "paired_training"),
    ],
)
def test_older_records_get_the_current_names_of_suites_and_profiles(file, profile, suite):
    run = load(REFERENCE / f"{file}.json")
    assert run.profile == profile
    assert {record.suite for record in run.records} == {suite}
    assert latest(folders=(REFERENCE,), profile=profile) is not None
