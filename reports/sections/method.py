"""How it was measured: launches, workloads, the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reports.figures.jobs import Kind, launches_of
from reports.sections.section import Context, Part, Section
from results import Run


@dataclass(frozen=True)
class Method:
    run: Run
    launches: str
    played: Mapping[str, str]  # workload -> where its rows come from, if no suite of the run uses the recorded ones

    @property
    def explained(self) -> str:
        launches = f" This run has {self.launches} per cell." if self.launches else ""
        return (
            "Every figure comes from launches: fresh processes that set up one peer, check its answers, and only then "
            "time it. In each block every peer is launched at most once, in changing order, so that a slow period of "
            "the machine affects all peers; ratios are taken within a block. A figure is the median over launches with "
            f"its bootstrap interval (95%, percentile).{launches} No method gives a 95% interval for a median of fewer "
            "than six launches; the interval then effectively spans the lowest and the highest launch. A peer whose "
            "answers are wrong is not timed; a figure measured before a peer failed or returned a wrong answer carries "
            "a mark."
        )


def parts(context: Context) -> list[Part]:
    ranking = [job for job in context.jobs if context.suite(job.suite).kind is Kind.RANKS]
    return [
        Part("method", "method", "How it was measured", Method(context.run, launches_of(ranking), _played(context)))
    ]


def _played(context: Context) -> dict[str, str]:
    rows: dict[str, set[str]] = {}
    for job in context.jobs:
        rows.setdefault(job.workload, set()).add(context.suite(job.suite).rows)
    return {workload: " and ".join(sorted(sources)) for workload, sources in rows.items() if all(sources)}


SECTION = Section(parts)
