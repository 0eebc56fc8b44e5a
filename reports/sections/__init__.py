"""The sections of the page. Each is a module with its templates beside it."""

from __future__ import annotations

from importlib import import_module

from reports.checks import conformance, integrity
from reports.sections.section import Context, Section
from results import Run
from results.jobs import jobs_of

#: In the order of the page.
NAMES = (
    "figures",
    "fastest",
    "apex",
    "scaling",
    "learning",
    "learners",
    "left_out",
    "found",
    "features",
    "troubles",
    "control",
    "method",
    "again",
)
SECTIONS: list[Section] = [import_module(f"reports.sections.{name}").SECTION for name in NAMES]
#: The suites that check whether answers are right.
CHECKS = (integrity.CHECK, conformance.CHECK)


def context_of(run: Run) -> Context:
    return Context(run, jobs_of(run), CHECKS)
