"""The sections of the page. Each is a module with its template beside it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from reports.checks import conformance, integrity
from reports.sections.section import Context, Part
from results import Run
from results.jobs import jobs_of

#: In the order of the page.
NAMES = ("figures", "fastest", "apex", "scaling", "trainings", "left_out", "troubles", "features", "control", "method")
SECTIONS = [import_module(f"reports.sections.{name}") for name in NAMES]
#: The suites that check whether answers are right.
CHECKS = (integrity.CHECK, conformance.CHECK)


def context_of(run: Run) -> Context:
    return Context(run, jobs_of(run), CHECKS)


def parts_of(context: Context) -> Iterator[Part]:
    for section in SECTIONS:
        yield from section.parts(context)
