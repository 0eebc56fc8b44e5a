"""What a package index shows, and what the installed package reports."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest

import cpprb_impl

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGE = (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")


def test_the_version_matches_the_package():
    assert cpprb_impl.__version__ == PROJECT["version"] == metadata("cpprb-impl")["Version"]


def test_the_changelog_has_the_version():
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_an_unknown_attribute_of_the_package_is_an_error():
    with pytest.raises(AttributeError, match="__versions__"):
        _ = cpprb_impl.__versions__


def test_the_listed_pythons_are_tested_and_have_wheels():
    named = [line.split(" :: ")[-1] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.", line)]
    tested, built = ((ROOT / ".ci" / script).read_text(encoding="utf-8") for script in ("pythons", "wheels"))
    assert f"${{*:-{' '.join(named)}}}" in tested
    assert f"for version in {' '.join(named)}; do" in built
    tags = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]["build"]
    assert tags == [f"cp{version.replace('.', '')}-manylinux_*" for version in named]


def test_a_free_threaded_python_is_refused_at_import():
    program = "import sys; sys.abiflags = 't'; import cpprb_impl"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "ImportError: cpprb_impl needs a Python with the global" in done.stderr


def test_the_package_page_links_to_nothing_in_the_repository():
    links = re.findall(r"\]\(([^)]+)\)|<(?:img|source)", PAGE)
    assert links and all(link.startswith("https://") for link in links)


@pytest.mark.parametrize("number", range(2))
def test_the_examples_on_the_package_page_run(number, tmp_path):
    example = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[number]
    program = tmp_path / "example.py"
    program.write_text(example, encoding="utf-8")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_program_with_several_environments_runs(tmp_path):
    page = (ROOT / "docs/using.md").read_text(encoding="utf-8")
    (example,) = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "stack_compress" in each]
    program = tmp_path / "example.py"
    program.write_text(f"{example}\nprint(batch['obs'].shape, batch['discount'].shape)", encoding="utf-8")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(32, 4, 84, 84) (32, 1)\n", "")
