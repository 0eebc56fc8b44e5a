"""The memory suite's part of the report: bytes a transition by peer and feature, beside the row's own bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports import notes, plots
from reports.answers import figure_of
from reports.formatting import counted, interval, number, times
from reports.jobs import MEMORY_SUITE, Job
from reports.suite import Cell, Picture
from results import Run

#: benchmark -> what the buffer was asked for; others come after, under their own name
ASKED = {
    "plain": "plain",
    "priorities": "prioritized",
    "next_of": "next_of",
    "stack_compress": "stack_compress",
    "both": "next_of, stack_compress",
}


@dataclass(frozen=True)
class MemoryTable:
    """One workload: a row a peer, a column a feature."""

    workload: str
    row_bytes: int
    capacity: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | None]]]


@dataclass(frozen=True)
class MemoryPart:
    tables: Sequence[MemoryTable]
    picture: Picture
    launches: str


def memory_part(run: Run, jobs: Sequence[Job], troubles: Sequence[notes.Trouble]) -> MemoryPart | None:
    """None if the run has no such suite."""
    if not jobs:
        return None
    row_bytes = {workload.name: workload.row_bytes for workload in run.workloads}
    by_workload: dict[str, list[Job]] = {}
    for job in jobs:
        by_workload.setdefault(job.workload, []).append(job)
    tables = [_table(run, name, mine, row_bytes[name], troubles) for name, mine in by_workload.items()]
    names = [peer.name for peer in run.peers]
    shown = [name for name in names if any(name in job.cells for job in jobs)]
    panels = {
        f"{name}, {row_bytes[name]:,} bytes a row": _points(mine, row_bytes[name]) for name, mine in by_workload.items()
    }
    title = f"{MEMORY_SUITE}: bytes a transition over the row's own bytes"
    drawn = plots.draw(title, lambda: plots.multiples(panels, shown, plots.looks(names, shown)))
    launches = sorted({len(record.samples) for job in jobs for record in job.measured.values()})
    return MemoryPart(tables, Picture(title, *drawn), counted(launches[0], "launch") if launches else "no launch")


def _asked(job: Job) -> str:
    return ASKED.get(job.benchmark, job.benchmark)


def _table(
    run: Run, workload: str, jobs: Sequence[Job], row_bytes: int, troubles: Sequence[notes.Trouble]
) -> MemoryTable:
    peers = [peer.name for peer in run.peers if any(peer.name in job.cells for job in jobs)]
    capacities = sorted({int(job.params.get("capacity", 0)) for job in jobs})
    return MemoryTable(
        workload=workload,
        row_bytes=row_bytes,
        capacity=" and ".join(f"{rows:,}" for rows in capacities),
        columns=[_asked(job) for job in jobs],
        rows=[(peer, [_cell(job, peer, row_bytes, troubles) for job in jobs]) for peer in peers],
    )


def _cell(job: Job, peer: str, row_bytes: int, troubles: Sequence[notes.Trouble]) -> Cell | None:
    record = job.cells.get(peer)
    if record is None:
        return None
    if not record.ok:
        number_of = next((trouble.number for trouble in troubles if record in trouble.records), None)
        return Cell(peer, "", status=record.status, trouble=number_of)
    figure = figure_of(record)
    least = min(figure_of(other).value for other in job.measured.values())
    return Cell(
        peer=peer,
        marks="",
        value=number(figure.value),
        interval="" if figure.launches == 1 else interval(figure),
        ratio=times(figure.value / row_bytes),
        fastest=figure.value == least,
    )


def _points(jobs: Sequence[Job], row_bytes: int) -> Mapping[str, Mapping[str, float]]:
    """What was asked for -> peer -> how many times the row's own bytes."""
    return {
        _asked(job): {peer: figure_of(record).value / row_bytes for peer, record in job.measured.items()}
        for job in jobs
    }
