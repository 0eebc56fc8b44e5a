"""Tests are distributed in units, the longest first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import order

ROOT = Path(__file__).resolve().parents[1]


FILE = "tests/adapters/test_conformance.py"


@pytest.mark.parametrize(
    ("test", "parts"),
    [
        ("a/test_b.py::test_c", ("a/test_b.py", "a/test_b.py::test_c", "")),
        ("a/test_b.py::test_c[x-y[z]]", ("a/test_b.py", "a/test_b.py::test_c", "")),
        (
            "tests/adapters/test_conformance.py::c[x-reverb[Writer]-y]",
            ("tests/adapters/test_conformance.py", "tests/adapters/test_conformance.py::c", "reverb"),
        ),
        (
            "tests/adapters/test_conformance.py::c[rllib]",
            ("tests/adapters/test_conformance.py", "tests/adapters/test_conformance.py::c", "rllib"),
        ),
        (
            "tests/adapters/test_conformance.py::c[cpprb]",
            ("tests/adapters/test_conformance.py", "tests/adapters/test_conformance.py::c", ""),
        ),
    ],
)
def test_a_test_name_is_split_into_file_function_and_possibly_a_group(test, parts):
    assert order.split(test) == parts


@pytest.mark.parametrize("file", order.SHARED)
def test_the_files_with_groups_exist(file):
    assert (ROOT / file).exists()


def test_long_functions_and_groups_are_units_of_their_own():
    seconds = {"a.py::one[1]": 1.5, "a.py::one[2]": 1.5, "a.py::two": 0.5, "b.py::three": 0.25}
    served = {"tests/adapters/peers/test_reverb.py::test": 0.1, "tests/adapters/test_conformance.py::test[reverb]": 0.1}
    assert order.units(seconds | served) == {"a.py": 0.5, "a.py::one": 3.0, "b.py": 0.2, "reverb": 0.2}


def test_tests_of_a_unit_are_consecutive_and_unknown_tests_come_last(tmp_path):
    record = tmp_path / "durations.json"
    record.write_text(json.dumps({"a.py": 1.0, "a.py::long": 9.0}))
    units = order.Units(record)
    tests = ["a.py::short", "new.py::test", "a.py::long[1]", "a.py::other", "a.py::long[2]"]
    expected = ["a.py::long[1]", "a.py::long[2]", "a.py::short", "a.py::other", "new.py::test"]
    assert sorted(tests, key=units.rank) == expected


DYING = """\
import os, pytest
@pytest.mark.parametrize("number", range(6))
def test_it(number):
    if number == DIES_AT:
        os._exit(1)
"""


@pytest.mark.parametrize("dies_at", [2, 5])  # within its unit, and at its end
def test_a_test_that_ends_its_worker_fails_and_all_others_run(dies_at, tmp_path):
    (tmp_path / "test_dying.py").write_text(DYING.replace("DIES_AT", str(dies_at)))
    (tmp_path / "test_other.py").write_text(DYING.replace("DIES_AT", "9"))
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_xdist_make_scheduler\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "xdist",
        "-n",
        "2",
        "--dist=loadscope",
        f"--rootdir={tmp_path}",
        str(tmp_path),
    ]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # since each installed plugin takes time to import
    done = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, timeout=100)
    assert "1 failed, 11 passed" in done.stdout, done.stdout
