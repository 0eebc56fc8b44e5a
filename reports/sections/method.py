"""How it was measured: launches, workloads, the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from reports.figures.formatting import launches_of
from reports.rendering import worded
from reports.sections.section import Context, Part, Section
from results import Run
from results.suites import Kind, suite_of


@dataclass(frozen=True)
class Method:
    run: Run
    launches: str
    unmeasured: str  # the median share of a launch's time that was not spent on filling, checking and measuring
    played: Mapping[str, str]  # workload -> where its rows come from, if no suite of the run uses the recorded ones

    @property
    def explained(self) -> str:
        return worded("method_notes.j2", "explained", launches=self.launches, unmeasured=self.unmeasured)


def parts(context: Context) -> list[Part]:
    ranking = [job for job in context.jobs if suite_of(job.suite).kind is Kind.RANKS]
    shares = [spent.other_share for spent in context.run.spent]
    unmeasured = f"{median(shares):.0%}" if shares else ""
    body = Method(context.run, launches_of(ranking), unmeasured, _played(context))
    return [Part("method", "method", "How it was measured", body)]


def _played(context: Context) -> dict[str, str]:
    rows: dict[str, set[str]] = {}
    for job in context.jobs:
        rows.setdefault(job.workload, set()).add(suite_of(job.suite).rows)
    return {workload: " and ".join(sorted(sources)) for workload, sources in rows.items() if all(sources)}


SECTION = Section(parts)
