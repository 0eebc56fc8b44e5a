"""The corpus names releases and functions that exist, and tells a fault that is found from one that is not."""

from __future__ import annotations

import ast
import io
import re
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from adapters import venvs
from suites.check.corpus import releases
from suites.check.corpus.__main__ import CorpusResult, faults
from suites.check.functions import REQUIRED
from suites.check.outcome import CheckOutcome, CheckVerdict

FAULTS = {each.number: each for each in releases.faults()}
FAULT = replace(FAULTS[4], checks=("time_limits", "done_flag"))
FOUND = CheckOutcome("time_limits", CheckVerdict.FAULT, "stored as terminal")
OTHER = CheckOutcome("shape", CheckVerdict.FAULT, "changed")
SILENT = CheckOutcome("time_limits", CheckVerdict.PASSED, "bootstraps")


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_names_pinned_releases_and_a_python(fault):
    for release in filter(None, (fault.broken, fault.fixed)):
        assert release == releases.INSTALLED or re.fullmatch(r"[\w-]+==[\w.]+", release)
    assert fault.python in ("", *releases.table()["python"]) or venvs.is_known(fault.python)
    assert fault.checks or fault.out_of_scope


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_its_functions_can_be_parsed_by_its_python(fault):
    version = (3, 8) if fault.python == "3.8" else (3, 11)
    names = {
        each.name for each in ast.parse(fault.file.read_text(), feature_version=version).body if hasattr(each, "name")
    }
    assert {*REQUIRED} <= names


def test_the_stubs_can_be_parsed_by_python_3_8():
    ast.parse((releases.HERE / "functions" / "stubs.py").read_text(), feature_version=(3, 8))


def test_a_fault_is_found_by_its_own_checks_only():
    assert CorpusResult(FAULT, [FOUND, OTHER], [SILENT, OTHER]).is_as_published
    assert not CorpusResult(FAULT, [OTHER], [SILENT]).is_as_published


def test_a_fault_that_the_fixed_release_has_is_not_silent():
    result = CorpusResult(FAULT, [FOUND], [FOUND])
    assert result.still_found_by == [FOUND] and not result.is_as_published


def test_a_fixed_release_that_was_not_checked_is_not_silent():
    assert not CorpusResult(FAULT, [FOUND], "no such release").is_as_published
    assert not CorpusResult(FAULT, [FOUND], [replace(SILENT, verdict=CheckVerdict.UNCHECKED)]).is_as_published
    assert CorpusResult(replace(FAULT, fixed=""), [FOUND], "").is_as_published


def test_checks_that_were_not_made_are_no_faults():
    assert not faults([replace(FOUND, verdict=CheckVerdict.UNCHECKED)]) and not faults("could not be checked")


def test_a_source_archive_is_unpacked_without_its_outer_folder(tmp_path):
    archive = tmp_path / "library-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as source:
        for name in ("library-1.0/library/__init__.py", "library-1.0/setup.py"):
            source.addfile(tarfile.TarInfo(name), io.BytesIO())
    assert unpacked(archive) == ["library", "setup.py"]


def test_a_wheel_is_unpacked_as_it_is(tmp_path):
    archive = tmp_path / "library-1.0-py3-none-any.whl"
    with zipfile.ZipFile(archive, "w") as wheel:
        wheel.writestr("library/__init__.py", "")
    assert unpacked(archive) == ["library"]


def unpacked(archive: Path) -> list[str]:
    releases._unpack(archive, archive.parent / "unpacked")
    return sorted(each.name for each in (archive.parent / "unpacked").iterdir())


def test_the_page_shows_the_faults_of_the_file():
    page = (venvs.CHECKOUT / "docs" / "check-corpus.md").read_text(encoding="utf-8")
    rows = [tuple(map(str.strip, line.split("|")[1:7])) for line in page.splitlines() if re.match(r"\| \d", line)]
    assert rows == [CorpusResult(each, "", "").row[:6] for each in FAULTS.values()]
