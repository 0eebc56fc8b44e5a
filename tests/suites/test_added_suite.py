"""A suite is added by its `spec.py`, its `measure.py` and a line in the list; no other file names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from results.record import load
from suites import SUITES
from tests.suites.conftest import CHECKOUT

ADDED = Path(__file__).resolve().parent / "added"
RUN = ("-m", "suites.run", "--profile=tiny", "--suites=counting")


def test_a_suite_consists_of_two_files_and_a_line_in_the_list(surroundings):
    assert sorted(path.name for path in (ADDED / "counting").glob("*.py")) == ["measure.py", "spec.py"]
    out = surroundings.folder / "run.json"
    options = ("--peers=plain,mixes-rows,unavailable,dies-on-update", f"--out={out}")
    done = surroundings.run(*RUN, *options, more={"ADDED_SUITES": str(ADDED)})
    assert done.returncode == 0, done.stderr
    run = load(out)
    found = {record.peer: record for record in run.records}
    assert run.declared == 4 and {record.suite for record in run.records} == {"counting"}
    assert found["unavailable"].status == "skipped" and "no wheel" in found["unavailable"].reason
    measured = [record for record in run.records if record.peer != "unavailable"]
    assert all(record.ok and [sample.value for sample in record.samples] == [100] for record in measured)


def test_an_added_suite_is_known_and_left_out_of_other_profiles(surroundings):
    more = {"ADDED_SUITES": str(ADDED)}
    done = surroundings.run("-m", "suites.run", "--suites=tables", more=more)
    assert done.returncode == 2 and ", ".join(sorted([*SUITES, "counting"])) in done.stderr
    done = surroundings.run(*RUN, "--profile=quick", more=more)
    assert done.returncode == 2 and "nothing to measure" in done.stderr


@pytest.mark.parametrize("room", ["suites", "adapters", "results"])
def test_no_other_file_names_a_suite(room):
    """The runner and the gate loop over the list. The counts and the control use the benchmarks of the
    throughput suite."""
    allowed = {
        "suites/__init__.py",
        *(f"suites/{suite}/{name}.py" for suite in ("counts", "control") for name in ("spec", "measure")),
    }
    names = [f"suites.{name}" for name in SUITES]
    for path in (CHECKOUT / room).rglob("*.py"):
        file = path.relative_to(CHECKOUT)
        mine = f"suites.{file.parts[1]}" if len(file.parts) > 2 else ""
        if str(file) not in allowed:
            text = path.read_text(encoding="utf-8")
            assert not [name for name in names if name != mine and re.search(rf"from {name}\b", text)], file
