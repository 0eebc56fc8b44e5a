"""Latency: how long single calls take, including the slowest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.figures.jobs import Kind, Suite, per_cell
from reports.sections.matrix import MatrixTable, matrix
from reports.sections.section import Context, Part, Section
from results.verdicts import REFERENCE

CALLS = {"add": "add", "sample": "sample", "update": "update priorities"}
TAILS = {"p50": "p50", "p99": "p99", "p999": "p99.9"}
SUITE = Suite(
    "latency",
    kind=Kind.RATIOS,
    benchmarks={f"{call}_{end}": f"{call} {tail}" for call in CALLS for end, tail in TAILS.items()},
)


@dataclass(frozen=True)
class Latency:
    where: str
    launches: str
    tables: Sequence[MatrixTable]

    @property
    def explained(self) -> str:
        return (
            f"These tables show how long single calls take ({self.where}): half of them take at most p50, 99% at most "
            f"p99, and 99.9% at most p99.9.{self.launches} The buffer is prioritized if the peer supports priorities. "
            "Every call is timed separately, so the cost of reading the clock (tens of ns) is part of each figure."
        )


def parts(context: Context) -> list[Part]:
    jobs = context.jobs_of(SUITE)
    if not jobs:
        return []
    params = jobs[0].params
    where = f"{jobs[0].workload}, capacity {int(params['capacity']):,}, batches of {params['batch']}"
    reference = context.reference(SUITE) or REFERENCE
    by_benchmark = {job.benchmark: job for job in jobs}
    tables = []
    for call, title in CALLS.items():
        columns = [(tail, job) for end, tail in TAILS.items() if (job := by_benchmark.get(f"{call}_{end}"))]
        if columns:
            tables.append(matrix(context, title, columns, reference))
    return [Part("latency", "latency", SUITE.title, Latency(where, per_cell(jobs), tables))]


SECTION = Section(parts, SUITE)
