"""The check of a wheel's contents detects missing, superfluous and wrong files."""

from __future__ import annotations

import tomllib
from zipfile import ZipFile

import pytest

from . import contents

PROJECT = tomllib.loads((contents.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INFO = f"cpprb_impl-{PROJECT['version']}.dist-info"
EXTENSION = f"{contents.PACKAGE}/_native.cpython-312-x86_64-linux-gnu.so"
EXTRAS = PROJECT["optional-dependencies"]
METADATA = [
    "Metadata-Version: 2.4",
    f"Name: {PROJECT['name']}",
    f"Version: {PROJECT['version']}",
    f"Requires-Python: {PROJECT['requires-python']}",
    f"License-Expression: {PROJECT['license']}",
    *(f"Requires-Dist: {each}" for each in PROJECT["dependencies"]),
    *(f"Provides-Extra: {extra}" for extra in EXTRAS),
    *(f'Requires-Dist: {each} ; extra == "{extra}"' for extra, needed in EXTRAS.items() for each in needed),
    "Description-Content-Type: text/markdown",
    "",
    (contents.ROOT / PROJECT["readme"]).read_text(encoding="utf-8"),
]


def problems(tmp_path, without=(), more=(), tag="cp312-cp312-manylinux_2_28_x86_64", metadata=METADATA) -> list[str]:
    files = dict.fromkeys([*contents.package_files(), EXTENSION, f"{INFO}/RECORD", f"{INFO}/licenses/LICENSE"], "")
    files[f"{INFO}/WHEEL"] = f"Wheel-Version: 1.0\nTag: {tag}\n"
    files[f"{INFO}/METADATA"] = "\n".join(metadata)
    wheel = tmp_path / "a.whl"
    with ZipFile(wheel, "w") as archive:
        for name, text in (files | dict.fromkeys(more, "")).items():
            if name not in without:
                archive.writestr(name, text)
    return contents.problems(wheel)


def test_a_correct_wheel_has_no_problems(tmp_path):
    assert problems(tmp_path) == []


@pytest.mark.parametrize(
    "name",
    ["cpprb_impl/py.typed", "cpprb_impl/_native.pyi", "cpprb_impl/sb3/buffers.py", f"{INFO}/licenses/LICENSE"],
)
def test_a_missing_file_is_a_problem(name, tmp_path):
    assert problems(tmp_path, without=[name]) == [f"{name} is missing"]


@pytest.mark.parametrize(
    "name", ["tests/conftest.py", "cpprb_impl/core/rows/rows.cpp", "cpprb_impl.libs/libstdc++.so.6"]
)
def test_a_superfluous_file_is_a_problem(name, tmp_path):
    assert problems(tmp_path, more=[name]) == [f"{name} should not be in it"]


def test_a_wheel_with_zero_or_two_extensions_has_a_problem(tmp_path):
    assert problems(tmp_path, without=[EXTENSION]) == ["there must be one extension, got []"]
    (problem,) = problems(tmp_path, more=[EXTENSION.replace("312", "311")])
    assert problem.startswith("there must be one extension, got [") and "cpython-311" in problem


@pytest.mark.parametrize("tag", ["cp312-cp312-linux_x86_64", "cp311-cp311-manylinux_2_28_x86_64", "py3-none-any"])
def test_a_wrong_tag_is_a_problem(tag, tmp_path):
    (problem,) = problems(tmp_path, tag=tag)
    assert problem.endswith(f"got ['{tag}']")


@pytest.mark.parametrize(
    ("line", "named"),
    [(-1, "the page"), (2, "the version"), (5, "the requirements"), (6, "the extras")],
)
def test_a_missing_line_of_metadata_is_a_problem(line, named, tmp_path):
    metadata = [each for each in METADATA if each != METADATA[line]]
    assert [problem.split(" must be ")[0] for problem in problems(tmp_path, metadata=metadata)] == [named]
