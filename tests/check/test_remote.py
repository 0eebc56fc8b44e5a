"""A file's functions run in another Python, and are called as if they ran here."""

from __future__ import annotations

import ast
import copy
import inspect
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from suites.check import functions, remote, served, venv
from suites.check.functions import BadFunctions, BufferFunctions, NotApplicable
from suites.check.outcome import CheckVerdict
from suites.check.run import Checked, run
from suites.check.subject import CheckSettings

SETTINGS = CheckSettings(draws=2_000, patience=2.0, seconds=60.0)
SOURCE = """
import os, random, sys
import numpy as np

WAYS = {"of two": {"stack": 2}}
EPS, LARGEST = 0.5, 2.0
WITHHOLDS, WEIGHTS_OVER = True, "batch"

class Row:
    def __init__(self, number):
        self.number = number

def make(capacity, seed, alpha=0.5, **options):
    print("printed by the buffer")
    return {"rows": [], "capacity": capacity, "random": random.Random(seed), "updated": []}

def add(buffer, obs, act, rew, next_obs, done):
    buffer["rows"].append((obs, act, rew, next_obs, done))
    del buffer["rows"][:-buffer["capacity"]]

def sample(buffer, size):
    BEFORE
    numbers = buffer["random"].choices(range(len(buffer["rows"])), k=size)
    columns = map(np.array, zip(*(buffer["rows"][each] for each in numbers)))
    return {**dict(zip(("obs", "act", "rew", "next_obs", "done"), columns)), "indexes": Row(numbers[0])}

def update(buffer, indexes, priorities):
    buffer["updated"].append((indexes.number, priorities))

def size(buffer):
    return len(buffer["rows"])

def windows(buffer, size, length):
    return {"updated": [each for _, each in buffer["updated"]], "numbers": [each for each, _ in buffer["updated"]]}
"""

OLD = """#!/bin/sh
case "$2" in *"(3, 11)"*) exit 1;; esac
echo "$1" >>{log}
exec {python} "$@"
"""


def written(folder: Path, before_sample: str = "pass") -> Path:
    file = folder / "buffer.py"
    file.write_text(SOURCE.replace("BEFORE", before_sample))
    return file


def loaded(folder: Path, before_sample: str = "pass") -> functions.BufferFunctions:
    return remote.load(written(folder, before_sample), sys.executable)


def filled(found: functions.BufferFunctions, dtype: str = "float32"):
    buffer = found.named["make"](4, seed=0)
    for i in range(6):
        found.named["add"](buffer, np.full((2, 3), i, dtype), i, float(i), np.full((2, 3), i + 1, dtype), i == 5)
    return buffer


def test_the_other_python_needs_nothing_newer_than_3_7():
    ast.parse(Path(served.__file__).read_text(), feature_version=(3, 7))


def test_functions_have_the_signatures_and_settings_of_the_file(tmp_path):
    found, here = loaded(tmp_path), functions.load(SOURCE.replace("BEFORE", "pass"), "here.py")
    assert found.named.keys() == here.named.keys()
    for name, function in here.named.items():
        expected = [(each.name, each.kind) for each in inspect.signature(function).parameters.values()]
        assert [(each.name, each.kind) for each in inspect.signature(found.named[name]).parameters.values()] == expected
    for name in ("ways", "eps", "largest", "alpha", "withholds", "weights_over"):
        assert getattr(found, name) == getattr(here, name) != getattr(BufferFunctions({}, ""), name) or name == "alpha"
    assert found.accepts("make", "alpha") and found.takes_any("make") and not found.takes_any("add")


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int64", ">f4", "datetime64[s]"])
def test_arrays_keep_values_shape_and_dtype(tmp_path, dtype):
    found = loaded(tmp_path)
    batch = found.named["sample"](filled(found, dtype), 5)
    assert batch["obs"].shape == (5, 2, 3) and batch["obs"].dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(batch["next_obs"].astype("int64"), batch["obs"].astype("int64") + 1)
    assert set(np.unique(batch["obs"].astype("int64"))) <= {2, 3, 4, 5}


def test_indexes_that_are_no_arrays_reach_update_as_they_are(tmp_path):
    found = loaded(tmp_path)
    buffer = filled(found)
    indexes = copy.deepcopy(found.named["sample"](buffer, 5)["indexes"])
    found.named["update"](buffer, indexes, np.array([2.0]))
    updated = found.named["windows"](buffer, 1, 1)
    assert updated["updated"].tolist() == [[2.0]] and updated["numbers"][0] in range(4)


def test_a_copied_buffer_is_another_one(tmp_path):
    found = loaded(tmp_path)
    buffer = filled(found)
    other = copy.deepcopy(buffer)
    assert found.named["sample"](other, 50)["rew"].tolist() == found.named["sample"](buffer, 50)["rew"].tolist()
    row = np.zeros((2, 3), "float32")
    for _ in range(4):
        found.named["add"](buffer, row, 0, -1.0, row, False)
    assert found.named["sample"](other, 50)["rew"].min() > 0 > found.named["sample"](buffer, 50)["rew"].max()


def test_a_buffer_of_another_python_cannot_be_pickled(tmp_path):
    found = loaded(tmp_path)
    with pytest.raises(NotApplicable, match="another Python"):
        pickle.dumps(filled(found))


def test_a_forked_process_cannot_call_the_other_python(tmp_path):
    found = loaded(tmp_path)
    buffer = filled(found)
    child = os.fork()
    if child == 0:
        try:
            found.named["size"](buffer)
        except NotApplicable:
            os._exit(17)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert found.named["size"](buffer) == 4


@pytest.mark.parametrize(("raised", "kind"), [("ValueError", ValueError), ("np.linalg.LinAlgError", Exception)])
def test_exceptions_keep_their_name_and_message(tmp_path, raised, kind):
    found = loaded(tmp_path, f"raise {raised}('of the buffer')")
    with pytest.raises(kind, match="of the buffer") as error:
        found.named["sample"](filled(found), 5)
    assert type(error.value).__name__ == raised.rpartition(".")[2]


def test_a_file_that_cannot_be_run_is_said_to_be_so(tmp_path):
    (tmp_path / "buffer.py").write_text("import no_such_module")
    with pytest.raises(BadFunctions, match="no_such_module"):
        remote.load(tmp_path / "buffer.py", sys.executable)


def report_of(file: Path, *only: str):
    return run(Checked(str(file), only=frozenset(only), through=sys.executable), SETTINGS)


def test_a_check_through_another_python_finds_a_fault(tmp_path):
    assert report_of(written(tmp_path), "uniform", "ring_order")
    report = report_of(written(tmp_path, 'buffer = {**buffer, "rows": buffer["rows"][:-1]}'), "uniform")
    assert [each.check for each in report.of(CheckVerdict.FAULT)] == ["uniform"]


def test_memory_shared_with_the_caller_is_not_checked(tmp_path):
    report = report_of(written(tmp_path), "references", "returned_batch")
    assert {each.verdict for each in report.outcomes} == {CheckVerdict.ABSENT}


def test_a_death_of_the_other_python_is_reported_with_its_signal(tmp_path):
    report = report_of(written(tmp_path, "os.abort() if size == 16 else None"), "uniform")
    (outcome,) = report.outcomes
    assert outcome.verdict is CheckVerdict.FAULT and "SIGABRT" in outcome.evidence


def test_memory_of_the_other_python_is_limited(tmp_path):
    file = written(tmp_path, "buffer.setdefault('much', []).append(np.ones(1 << 24)) if size == 16 else None")
    settings = replace(SETTINGS, memory=1 << 28)
    report = run(Checked(str(file), only=frozenset({"uniform"}), through=sys.executable), settings)
    (outcome,) = report.outcomes
    assert outcome.verdict is CheckVerdict.FAULT and "more than 0.25 GiB of memory" in outcome.evidence


def test_a_python_that_is_too_old_for_the_check_runs_the_functions_alone(tmp_path, monkeypatch):
    old = tmp_path / "python3.8"
    old.write_text(OLD.format(log=tmp_path / "log", python=sys.executable))
    old.chmod(0o755)
    monkeypatch.setenv(venv.NAMED, str(old))
    monkeypatch.setattr(venv, "_made", lambda project: sys.executable)
    arguments = ["--quick", "--only=uniform", f"--out={tmp_path / 'out'}"]
    command = venv.command([str(written(tmp_path)), *arguments])
    assert command and subprocess.run(command, cwd=venv.HOUSE).returncode == 0
    assert str(served.__file__) in (tmp_path / "log").read_text()
    assert venv.command(["module:Class", *arguments]) is None


def test_a_python_that_does_not_exist_is_refused(monkeypatch, capsys):
    """Otherwise a slip in PYTHON= would be answered by another Python, with other releases of the libraries."""
    monkeypatch.setenv(venv.NAMED, "/no/such/python")
    monkeypatch.setattr(venv, "_made", lambda project: None)
    assert venv.command(["module:Class"]) is None
    assert "PYTHON must be an executable, got '/no/such/python'" in capsys.readouterr().err
