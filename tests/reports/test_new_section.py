"""A new section consists of a module, its template and a line in the list; the page loops over the list."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reports.sections import NAMES, SECTIONS
from results import save
from results.suites import SUITES

from .synthetic_runs import throughput_run

CHECKOUT = Path(__file__).resolve().parents[2]
#: Code that loops over the sections, which a new section must not change.
WITHOUT_SUITES = ("page.py", "build.py", "tables", "figures", "plots", "templates")
MODULE = """
from reports.sections.section import Context, Part
from results.suites import SUITES

SUITE = SUITES["endurance"]


def parts(context: Context) -> list[Part]:
    jobs = context.jobs_of(SUITE)
    return [Part("endurance", "endurance", SUITE.title, {"jobs": jobs})] if jobs else []
"""
TOLD = """
[endurance]
title = "Endurance test"
kind = "amounts"

[endurance.labels]
pss = "bytes after {hours} hours"
"""
TEMPLATE = "## Endurance test\n\n{% for job in jobs %}\n- {{ job.label }}\n{% endfor %}\n"


@pytest.fixture
def checkout(tmp_path):
    for room in ("reports", "results"):
        shutil.copytree(CHECKOUT / room, tmp_path / room, ignore=shutil.ignore_patterns("out", "reference", "runs"))
    return tmp_path


def test_a_new_section_changes_four_files(checkout):
    sections = checkout / "reports" / "sections"
    (sections / "endurance.py").write_text(MODULE, encoding="utf-8")
    (sections / "endurance.md.j2").write_text(TEMPLATE, encoding="utf-8")
    names = sections / "__init__.py"
    names.write_text(names.read_text(encoding="utf-8").replace('"method")', '"endurance", "method")'))
    with (checkout / "results" / "suites.toml").open("a", encoding="utf-8") as suites:
        suites.write(TOLD)
    run = throughput_run(peers=("cpprb",), blocks=1)
    run.cell(
        suite="endurance", benchmark="pss", peer="cpprb", workload="CartPole-v1", params={"hours": 3}, unit="bytes",
        better="lower",
    ).add_sample(0, 1e9)  # fmt: skip
    save(checkout / "run.json", run)
    command = [sys.executable, "-m", "reports.build", "run.json", "--out", "out"]
    subprocess.run(command, cwd=checkout, env=dict(os.environ, PYTHONPATH=str(checkout)), check=True, timeout=200)
    html, markdown = ((checkout / "out" / f"report.{kind}").read_text(encoding="utf-8") for kind in ("html", "md"))
    assert '<a href="#endurance">Endurance test</a>' in html and "<li>bytes after 3 hours</li>" in html
    assert "## Endurance test\n\n- bytes after 3 hours" in markdown
    assert "pss" not in markdown.split("\n## Endurance test")[0]  # it appears in its own section only


def test_every_module_of_a_section_is_listed_and_has_a_template():
    folder = CHECKOUT / "reports" / "sections"
    assert {path.stem for path in folder.glob("*.py")} - {"__init__", "section"} == set(NAMES)
    assert len(NAMES) == len(set(NAMES)) == len(SECTIONS)
    assert all((folder / f"{name}.md.j2").exists() for name in NAMES)


def test_code_that_loops_over_sections_names_no_suite():
    suites = set(SUITES) - {"memory", "control"}  # since these are also ordinary words
    for place in WITHOUT_SUITES:
        path = CHECKOUT / "reports" / place
        for file in [path] if path.is_file() else [*path.rglob("*.py"), *path.rglob("*.j2")]:
            text = file.read_text(encoding="utf-8")
            for suite in suites:
                assert not re.search(rf"[\"'#]{suite}[\"']", text), f"{file.name} names {suite}"
