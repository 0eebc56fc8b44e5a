"""The sections of the page. Each is a module with its templates beside it."""

from __future__ import annotations

from importlib import import_module

from reports.figures import jobs
from reports.figures.jobs import Job, Suite
from reports.sections.section import Context, Section
from results import Run

#: In the order of the page.
NAMES = (
    "fastest",
    "throughput",
    "apex",
    "scaling",
    "learning",
    "learners",
    "others",
    "sharing",
    "latency",
    "memory",
    "startup",
    "hosts",
    "integrity",
    "conformance",
    "left_out",
    "found",
    "features",
    "troubles",
    "control",
    "method",
    "again",
)
SECTIONS: list[Section] = [import_module(f"reports.sections.{name}").SECTION for name in NAMES]
SUITES: dict[str, Suite] = {section.suite.name: section.suite for section in SECTIONS if section.suite}


def jobs_of(run: Run) -> list[Job]:
    return jobs.jobs_of(run, SUITES)


def context_of(run: Run) -> Context:
    return Context(run, jobs_of(run), SUITES, [section.check for section in SECTIONS if section.check])
