"""The latency suite's part of the report: how long single calls take, the slowest included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.figures.jobs import LATENCY_SUITE, REFERENCE, Job, launches_of, reference_name
from reports.tables import notes
from reports.tables.cells import Cell, scale_of, speed_cell
from reports.tables.marks import marks_of
from results import Run

CALLS = {"add": "add", "sample": "sample", "update": "update priorities"}
TAILS = {"p50": "p50", "p99": "p99", "p999": "p99.9"}


@dataclass(frozen=True)
class LatencyTable:
    title: str
    columns: Sequence[tuple[str, str]]  # label and unit
    rows: Sequence[tuple[str, Sequence[Cell | None]]]


@dataclass(frozen=True)
class LatencyPart:
    where: str
    launches: str
    reference: str
    tables: Sequence[LatencyTable]


def latency_part(run: Run, jobs: Sequence[Job], troubles: Sequence[notes.Trouble]) -> LatencyPart | None:
    """A table for each kind of call; None if the run has no such suite."""
    if not jobs:
        return None
    params = jobs[0].params
    where = f"{jobs[0].workload}, capacity {int(params['capacity']):,}, batches of {params['batch']}"
    reference = reference_name(run, LATENCY_SUITE) or REFERENCE
    by_benchmark = {job.benchmark: job for job in jobs}
    tables = []
    for call, title in CALLS.items():
        columns = [(tail, job) for end, tail in TAILS.items() if (job := by_benchmark.get(f"{call}_{end}"))]
        if columns:
            tables.append(_table(run, title, columns, reference, troubles))
    return LatencyPart(where, launches_of(jobs), reference, tables)


def _table(
    run: Run,
    title: str,
    columns: Sequence[tuple[str, Job]],
    reference: str,
    troubles: Sequence[notes.Trouble],
) -> LatencyTable:
    signs = marks_of(run)
    peers = [peer.name for peer in run.peers if any(peer.name in job.cells for _, job in columns)]
    rows = [
        (peer, [speed_cell(job, peer, reference, troubles, signs[peer], scale_of(job)) for _, job in columns])
        for peer in peers
    ]
    return LatencyTable(title, [(label, scale_of(job).unit) for label, job in columns], rows)
