"""How it was measured: launches, workloads, the machine."""

from __future__ import annotations

from dataclasses import dataclass

from reports.figures.jobs import Kind, launches_of
from reports.sections.section import Context, Part, Section
from results import Run


@dataclass(frozen=True)
class Method:
    run: Run
    launches: str


def parts(context: Context) -> list[Part]:
    ranking = [job for job in context.jobs if context.suite(job.suite).kind is Kind.RANKS]
    return [Part("method", "method", "How it was measured", Method(context.run, launches_of(ranking)))]


SECTION = Section(parts)
