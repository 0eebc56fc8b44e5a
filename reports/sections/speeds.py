"""The section of a suite that ranks peers: for each workload its plots and its table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports import plots
from reports.figures.formatting import counted
from reports.figures.jobs import Job, Suite, usual
from reports.figures.ratios import figure_of
from reports.figures.statistics import Figure
from reports.plots import Picture
from reports.sections.integrity import Safety, safety_of
from reports.sections.section import Context, Part, Section
from reports.tables import notes
from reports.tables.cells import Cell, scale_of, speed_cell
from results import Run

#: If all jobs of a suite have this parameter, the suite measures scaling and gets line plots instead of dot plots.
ALONG = "explorers"
JOBS_A_TABLE = 7
SPOKEN = {"batch", ALONG}  # parameters that are always part of a job's name


@dataclass(frozen=True)
class JobTable:
    label: str
    unit: str
    cells: Mapping[str, Cell | None]


@dataclass(frozen=True)
class WorkloadPart:
    name: str
    peers: Sequence[str]
    jobs: Sequence[JobTable]
    pictures: Sequence[Picture]
    footnotes: Sequence[tuple[str, str]]
    common: str  # parameters that all its jobs have in common
    explained: str  # the meaning of its jobs' names

    @property
    def job_groups(self) -> list[Sequence[JobTable]]:
        """The jobs in even groups, few enough to be columns of one table."""
        parts = math.ceil(len(self.jobs) / JOBS_A_TABLE)
        width = math.ceil(len(self.jobs) / parts) if parts else 1
        return [self.jobs[start : start + width] for start in range(0, len(self.jobs), width)]


@dataclass(frozen=True)
class Speeds:
    title: str
    scaling: bool
    reference: str | None
    workloads: Sequence[WorkloadPart]
    safety: Mapping[str, Safety]


def section_of(suite: Suite) -> Section:
    """The section of a suite that ranks peers."""
    return Section(lambda context: parts_of(context, suite), suite)


def parts_of(context: Context, suite: Suite) -> list[Part]:
    run, jobs = context.run, context.ranking.get(suite.name)
    if not jobs:
        return []
    scaling = is_scaling(jobs)
    present = {peer for job in jobs for peer in job.cells}
    names = [peer.name for peer in run.peers]
    look = plots.looks(names, [name for name in names if name in present])
    workloads = [
        _workload(context, suite, workload, [job for job in jobs if job.workload == workload], scaling, look)
        for workload in dict.fromkeys(job.workload for job in jobs)
    ]
    pictures = [picture for part in workloads for picture in part.pictures]
    body = Speeds(suite.title, scaling, context.reference(suite), workloads, safety_of(run) if scaling else {})
    return [Part("speeds", suite.name, suite.title, body, pictures)]


def is_scaling(jobs: Sequence[Job]) -> bool:
    return all(ALONG in job.params for job in jobs)


def crowding_note(run: Run, jobs: Sequence[Job]) -> str:
    """Return a note if explorers and learner outnumber the cores, so that scheduling affects the figures; else ""."""
    cores = int(run.machine["cores"])
    most = max((int(job.params[ALONG]) for job in jobs), default=0)
    if most + 1 <= cores:
        return ""
    return (
        f"This machine has {counted(cores, 'core')}: with more than {counted(cores - 1, 'explorer')} beside the "
        "learner, the processes have to take turns, so the figures depend on the system's scheduling."
    )


def _workload(
    context: Context, suite: Suite, name: str, jobs: Sequence[Job], scaling: bool, look: Mapping[str, plots.Look]
) -> WorkloadPart:
    run, signs, reference = context.run, context.signs, context.reference(suite)
    peers = [peer.name for peer in run.peers if any(peer.name in job.cells for job in jobs)]
    pictures = _lines(name, jobs, look, signs) if scaling else _dots(run, name, jobs, look, signs)
    benchmarks = {job.benchmark for job in jobs}
    return WorkloadPart(
        name=name,
        peers=peers,
        jobs=[_job_table(context, job, reference) for job in jobs],
        pictures=[plots.draw(title, make) for title, make in pictures],
        footnotes=[*notes.footnotes(run, jobs), *context.explained("".join(signs[peer] for peer in peers))],
        common=", ".join(_common(jobs)),
        explained="; ".join(meaning for name, meaning in suite.explained.items() if name in benchmarks),
    )


def _common(jobs: Sequence[Job]) -> Iterator[str]:
    """The parameters that the jobs' names omit."""
    for name in jobs[0].params if jobs else ():
        values = [job.params.get(name) for job in jobs]
        value = usual(values)
        if value is None or name in SPOKEN:
            continue
        said = f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
        yield said if len(set(values)) == 1 else f"{said} unless stated otherwise"


def _job_table(context: Context, job: Job, reference: str | None) -> JobTable:
    scale = scale_of(job)
    cells = {
        peer.name: speed_cell(
            job, peer.name, reference, context.troubles, notes.marks(peer, job) + context.signs[peer.name], scale
        )
        for peer in context.run.peers
        if peer.name in job.cells
    }
    return JobTable(job.label, scale.unit, cells)


def _dots(
    run: Run, workload: str, jobs: Sequence[Job], look: Mapping[str, plots.Look], signs: Mapping[str, str]
) -> list[tuple[str, Callable[[], Any]]]:
    peers = {peer.name: peer for peer in run.peers}
    made = []
    for job in jobs:
        entries = [
            plots.Dot(
                name,
                notes.marks(peers[name], job) + signs[name],
                figure_of(record) if name in job.shown else None,
                record.status,
            )
            for name, record in job.cells.items()
        ]
        made.append(
            (
                f"{job.suite}: {job.label} on {workload}",
                lambda job=job, entries=entries: plots.dots(job.label, entries, scale_of(job), job.better, look),
            )
        )
    return made


def _lines(
    workload: str, jobs: Sequence[Job], look: Mapping[str, plots.Look], marks: Mapping[str, str]
) -> list[tuple[str, Callable[[], Any]]]:
    made = []
    for benchmark in dict.fromkeys(job.benchmark for job in jobs):
        mine = [job for job in jobs if job.benchmark == benchmark]
        lines: dict[str, dict[Any, Figure]] = {}
        for job in mine:
            for peer, record in job.shown.items():
                lines.setdefault(peer, {})[job.params[ALONG]] = figure_of(record)
        title = f"{benchmark} on {workload}"
        made.append(
            (
                f"{mine[0].suite}: {title}",
                lambda title=title, lines=lines, unit=mine[0].unit: plots.scaling(
                    title, lines, unit, f"number of {ALONG}", look, marks
                ),
            )
        )
    return made
