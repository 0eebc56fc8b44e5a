"""Memory: bytes per transition for each peer and option, compared with the row's own bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from reports import plots
from reports.figures.formatting import interval, number, size, times
from reports.figures.jobs import Job, Kind, Suite, launches_of
from reports.figures.ratios import figure_of
from reports.plots import Picture
from reports.sections.section import Context, Part, Section
from reports.tables import notes
from reports.tables.cells import Cell, without_figure
from reports.tables.troubles import Trouble, number_of
from results import Run

SUITE = Suite(
    "memory",
    kind=Kind.AMOUNTS,
    benchmarks={
        "plain": "memory, plain",
        "priorities": "memory, prioritized",
        "next_of": "memory, next_of",
        "stack_compress": "memory, stack_compress",
        "both": "memory, next_of and stack_compress",
        "constructed": "memory, empty",
        "quarter": "memory, a quarter full",
        "half": "memory, half full",
        "peak": "peak while sampling",
        "leak": "leak",
        "leak_prioritized": "leak, prioritized",
    },
)
LEAKS = ("leak", "leak_prioritized")
#: benchmark -> options of the buffer, as a column heading; other benchmarks follow, under their own names
OPTIONS = {
    "plain": "plain",
    "priorities": "prioritized",
    "next_of": "next_of",
    "stack_compress": "stack_compress",
    "both": "next_of, stack_compress",
}
#: benchmark -> the share of the capacity that is filled; the last is the figure of the full plain buffer
LEVELS = {"constructed": 0.0, "quarter": 0.25, "half": 0.5, "plain": 1.0}
PEAK, PEAK_BATCH = "peak", 256
#: Benchmarks other than the bytes per transition of a full buffer.
BESIDE = ("constructed", "quarter", "half", PEAK, *LEAKS)
COLUMNS = {
    "constructed": "empty",
    "quarter": "a quarter full",
    "half": "half full",
    "plain": "full",
    PEAK: f"peak, sampling {PEAK_BATCH} rows",
    "leak": "leak per round",
    "leak_prioritized": "leak per round, prioritized",
}
COUNTED = 0.9  # of a row's own bytes: a buffer that copies rows but uses less keeps some in memory that is not counted
NOTHING_BYTES = 0.5  # per transition: memory is counted in pages, so less than this is shown as none
LEVELS_EXPLAINED = (
    "The same measurement while a plain buffer is being filled shows which peers allocate all their memory up front. "
    "The peak is how far the resident memory of all the peer's processes rises while batches are sampled, each held "
    "until the next one is complete. Memory that grows in every quarter of a long series of rounds counts as a leak; a "
    "round adds 64 rows and samples 32 (and, if prioritized, updates their priorities). If no leak was found, the "
    "figure is the largest leak that could have gone unnoticed."
)


@dataclass(frozen=True)
class MemoryTable:
    """One workload: a row per peer, a column per option."""

    workload: str
    row_bytes: int
    capacity: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | None]]]

    @property
    def footnote(self) -> str:
        marked = any(cell and cell.marks for _, cells in self.rows for cell in cells)
        return f"{notes.ELSEWHERE} {notes.MEANINGS[notes.ELSEWHERE]}" if marked else ""


@dataclass(frozen=True)
class LevelsTable:
    """One workload: a row per peer, with its bytes at each fill level, its peak and its leaks."""

    workload: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | None]]]


@dataclass(frozen=True)
class Memory:
    tables: Sequence[MemoryTable]
    levels: Sequence[LevelsTable]
    pictures: Sequence[Picture]
    launches: str
    levels_explained: str = LEVELS_EXPLAINED

    @property
    def explained(self) -> str:
        launches = f"{self.launches} per cell, each" if self.launches else "Each cell is"
        return (
            "These figures show how much memory one more transition takes: the difference between a large buffer and a "
            "small one, each filled one and a half times over, divided by the difference in rows. Memory is the "
            "proportional set size of the process and of the peer's server, if it has one, excluding file-backed "
            f"pages; in shared segments, only touched pages count. {launches} a fresh process. Steps are added one by "
            "one; each observation is a separate array, to which the caller keeps no reference. A peer that keeps "
            "references stores each observation only once, since a step's next observation is the same object as the "
            "next step's observation."
        )


def parts(context: Context) -> list[Part]:
    run, jobs, troubles = context.run, context.jobs_of(SUITE), context.troubles
    if not jobs:
        return []
    row_bytes = {workload.name: workload.row_bytes for workload in run.workloads}
    by_workload: dict[str, list[Job]] = {}
    for job in jobs:
        by_workload.setdefault(job.workload, []).append(job)
    buffers = {name: [job for job in mine if job.benchmark not in BESIDE] for name, mine in by_workload.items()}
    tables = [_table(run, name, mine, row_bytes[name], troubles) for name, mine in buffers.items()]
    names = [peer.name for peer in run.peers]
    shown = [name for name in names if any(name in job.cells for job in jobs)]
    panels = {
        f"{name}, {row_bytes[name]:,} bytes per row": _points(mine, row_bytes[name]) for name, mine in buffers.items()
    }
    title = f"{SUITE.name}: bytes per transition over the row's own bytes"
    pictures = [plots.draw(title, lambda: plots.multiples(panels, shown, plots.looks(names, shown)))]
    curves = {name: found for name, mine in by_workload.items() if (found := _curves(mine))}
    for name, mine in curves.items():
        pictures += _fill_pictures(name, mine, plots.looks(names, [peer for peer in names if peer in mine]))
    body = Memory(
        tables=tables,
        levels=[_levels_table(run, name, mine, troubles) for name, mine in by_workload.items() if name in curves],
        pictures=pictures,
        launches=launches_of(jobs),
    )
    return [Part("memory", "memory", SUITE.title, body, pictures)]


def _curves(jobs: Sequence[Job]) -> dict[str, list[tuple[float, float]]]:
    """peer -> (share of the capacity that is filled, bytes per transition of capacity)."""
    found: dict[str, list[tuple[float, float]]] = {}
    of = {job.benchmark: job for job in jobs}
    for benchmark, share in LEVELS.items() if of.keys() >= LEVELS.keys() else ():
        for peer, record in of[benchmark].measured.items():
            found.setdefault(peer, []).append((share, figure_of(record).value))
    return {peer: points for peer, points in found.items() if len(points) == len(LEVELS)}


def _fill_pictures(
    workload: str, curves: Mapping[str, Sequence[tuple[float, float]]], look: Mapping[str, plots.Look]
) -> list[Picture]:
    parts, pictures = plots.in_parts(list(curves), look), []
    for place, part in enumerate(parts, start=1):
        label = workload if len(parts) == 1 else f"{workload}, part {place} of {len(parts)}"
        title = f"{SUITE.name}: bytes per transition over the fill level, {label}"
        make = partial(plots.filling, label, curves, part, look)
        pictures.append(plots.draw(title, make))
    return pictures


def _levels_table(run: Run, workload: str, jobs: Sequence[Job], troubles: Sequence[Trouble]) -> LevelsTable:
    of = {job.benchmark: job for job in jobs}
    shown = [benchmark for benchmark in (*LEVELS, *BESIDE) if benchmark in of]
    shown = list(dict.fromkeys(shown))
    peers = [peer.name for peer in run.peers if any(peer.name in of[name].cells for name in shown)]
    return LevelsTable(
        workload=workload,
        columns=[COLUMNS[name] for name in shown],
        rows=[(peer, [_beside(of[name], peer, troubles) for name in shown]) for peer in peers],
    )


def _beside(job: Job, peer: str, troubles: Sequence[Trouble]) -> Cell | None:
    record = job.cells.get(peer)
    if record is None:
        return None
    if not record.ok:
        if record.benchmark in LEAKS and record.status == "wrong":
            leaked = (record.reason or "").partition(" of ")[0]
            return Cell(peer, "", value=leaked, trouble=number_of(record, troubles))
        return without_figure(record, "", troubles)
    value = figure_of(record).value
    if record.benchmark in LEAKS:
        return Cell(peer, "", value=f"none above {number(value)} B")
    if record.benchmark == PEAK:
        return Cell(peer, "", value=size(value * PEAK_BATCH))
    return Cell(peer, "", value=number(value) if value > NOTHING_BYTES else "none")


def _options(job: Job) -> str:
    return OPTIONS.get(job.benchmark, job.benchmark)


def _table(run: Run, workload: str, jobs: Sequence[Job], row_bytes: int, troubles: Sequence[Trouble]) -> MemoryTable:
    peers = [peer.name for peer in run.peers if any(peer.name in job.cells for job in jobs)]
    elsewhere = _elsewhere(run, jobs, row_bytes)
    capacities = sorted({int(job.params.get("capacity", 0)) for job in jobs})
    return MemoryTable(
        workload=workload,
        row_bytes=row_bytes,
        capacity=" and ".join(f"{rows:,}" for rows in capacities),
        columns=[_options(job) for job in jobs],
        rows=[(peer, [_cell(job, peer, row_bytes, elsewhere, troubles) for job in jobs]) for peer in peers],
    )


def _elsewhere(run: Run, jobs: Sequence[Job], row_bytes: int) -> set[str]:
    """Return the peers that copy each row, yet use fewer bytes than the row has: the rest is in memory that is not
    counted, such as a file."""
    full = [job for job in jobs if job.benchmark in ("plain", "priorities")]
    return {
        peer.name
        for peer in run.peers
        if peer.known.keeps_references == "never"
        and any(
            peer.name in job.measured and figure_of(job.measured[peer.name]).value < COUNTED * row_bytes for job in full
        )
    }


def _cell(job: Job, peer: str, row_bytes: int, elsewhere: Collection[str], troubles: Sequence[Trouble]) -> Cell | None:
    record = job.cells.get(peer)
    if record is None:
        return None
    if not record.ok:
        return without_figure(record, "", troubles)
    figure = figure_of(record)
    counted_whole = [figure_of(other).value for name, other in job.measured.items() if name not in elsewhere]
    return Cell(
        peer=peer,
        marks=notes.ELSEWHERE if peer in elsewhere else "",
        value=number(figure.value) if figure.value > NOTHING_BYTES else "none",
        interval="" if figure.launches == 1 else interval(figure),
        ratio=times(figure.value / row_bytes),
        fastest=peer not in elsewhere and number(figure.value) == number(min(counted_whole)),
    )


def _points(jobs: Sequence[Job], row_bytes: int) -> Mapping[str, Mapping[str, float]]:
    """Options -> peer -> bytes per transition as a multiple of the row's own bytes."""
    return {
        _options(job): {peer: figure_of(record).value / row_bytes for peer, record in job.measured.items()}
        for job in jobs
    }


SECTION = Section(parts, SUITE)
