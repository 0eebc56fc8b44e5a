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
        launches = f" This run has {self.launches} per cell." if self.launches else ""
        spent = f" {worded('method_notes.j2', 'spent', share=self.unmeasured)}" if self.unmeasured else ""
        return (
            "Every figure comes from launches: fresh processes that set up one peer, check its answers, and only then "
            "time it. In each block every peer is launched at most once, in changing order, so that a slow period of "
            "the machine affects all peers; ratios are taken within a block. A figure is the median over launches with "
            f"its bootstrap interval (95%, percentile).{launches} No method gives a 95% interval for a median of fewer "
            "than six launches; the interval then effectively spans the lowest and the highest launch. A peer whose "
            "answers are wrong is not timed; a figure measured before a peer failed or returned a wrong answer carries "
            f"a mark.{spent}"
        )


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
