"""One suite of the report: its answers, and for each workload its plots and its table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports import plots
from reports.figures.formatting import NOTHING, counted, interval, scale_for
from reports.figures.jobs import EXPLAINED, REFERENCE, SHARED_REFERENCE, SHARED_SUITES, Job, reference_name, usual
from reports.figures.ranking import Answer, Standing, answers_of, standings
from reports.figures.ratios import Ratio, figure_of
from reports.figures.statistics import Figure
from reports.tables import notes
from reports.tables.cells import Cell, scale_of, speed_cell
from reports.tables.marks import explained, marks_of
from results import Run

#: A suite all of whose jobs have this parameter is about scaling: it gets lines over it, not dots.
ALONG = "explorers"
JOBS_A_TABLE = 7
SPOKEN = {"batch", ALONG}  # parameters that the names of jobs always hold
TITLES = {"apex": "Ape-X", "startup": "Start-up"}


@dataclass(frozen=True)
class JobTable:
    label: str
    unit: str
    better: str
    reference: str | None
    cells: Mapping[str, Cell | None]


@dataclass(frozen=True)
class AnswerRow:
    workload: str
    job: str
    fastest: str
    figure: str
    ratio: str  # over the reference
    reference: str  # who that is, and its own figure
    runner_up: str
    runner_up_ratio: str
    sureness: str
    clear: bool
    among_copying: bool


@dataclass(frozen=True)
class Picture:
    name: str  # also names its file beside the Markdown report
    svg: str
    png: bytes

    @property
    def file(self) -> str:
        return "plots/" + "".join(c if c.isalnum() else "-" for c in self.name).strip("-").lower() + ".png"


@dataclass(frozen=True)
class WorkloadPart:
    name: str
    peers: Sequence[str]
    jobs: Sequence[JobTable]
    pictures: Sequence[Picture]
    footnotes: Sequence[tuple[str, str]]
    common: str  # parameters that all its jobs share
    explained: str  # what the names of its jobs mean

    @property
    def job_groups(self) -> list[Sequence[JobTable]]:
        """As columns, a few a table: even parts."""
        parts = math.ceil(len(self.jobs) / JOBS_A_TABLE)
        width = math.ceil(len(self.jobs) / parts) if parts else 1
        return [self.jobs[start : start + width] for start in range(0, len(self.jobs), width)]


@dataclass(frozen=True)
class SuitePart:
    name: str
    title: str
    scaling: bool
    reference: str | None
    reference_note: str
    answers: Sequence[AnswerRow]
    standings: Sequence[Standing]
    workloads: Sequence[WorkloadPart]

    @property
    def answer_marks(self) -> list[tuple[str, str]]:
        return explained("".join(row.fastest + row.reference + row.runner_up for row in self.answers))

    @property
    def pictures(self) -> list[Picture]:
        return [picture for part in self.workloads for picture in part.pictures]


def suite_part(run: Run, name: str, jobs: list[Job], troubles: Sequence[notes.Trouble]) -> SuitePart:
    reference = reference_name(run, name)
    answers = answers_of(run, jobs, reference)
    scaling = all(ALONG in job.params for job in jobs)
    present = {peer for job in jobs for peer in job.cells}
    names = [peer.name for peer in run.peers]
    look = plots.looks(names, [name for name in names if name in present])
    workloads = [
        _workload(run, workload, [job for job in jobs if job.workload == workload], reference, troubles, scaling, look)
        for workload in dict.fromkeys(job.workload for job in jobs)
    ]
    return SuitePart(
        name=name,
        title=TITLES.get(name, name.capitalize()),
        scaling=scaling,
        reference=reference,
        reference_note=" ".join(filter(None, [_reference_note(reference, name), scaling and crowding_note(run, jobs)])),
        answers=[_answer_row(answer, marks_of(run)) for answer in answers],
        standings=standings(run, jobs, answers, reference),
        workloads=workloads,
    )


def crowding_note(run: Run, jobs: Sequence[Job]) -> str:
    """Explorers and learner beyond the cores take turns: the system's scheduling is then part of the figure."""
    cores = int(run.machine["cores"])
    most = max(int(job.params[ALONG]) for job in jobs)
    if most + 1 <= cores:
        return ""
    return (
        f"This machine has {counted(cores, 'core')}: with more than {counted(cores - 1, 'explorer')} beside the "
        "learner, processes take turns, and figures depend on the system's scheduling."
    )


def _reference_note(reference: str | None, suite: str) -> str:
    """Which peer's speed the ratios are to, where that isn't the usual one."""
    wanted = SHARED_REFERENCE if suite in SHARED_SUITES else REFERENCE
    if reference is None or reference == wanted:
        return ""
    return f"{wanted} has no figure in this suite, so ratios are to {reference}, the first peer that has."


def _answer_row(answer: Answer, unsafe: Mapping[str, str]) -> AnswerRow:
    def named(peer: str | None, mark: str = "") -> str:
        return f"{peer} {mark}{unsafe.get(peer or '', '')}".strip()

    job = answer.job
    reference = job.cells.get(answer.reference or "")
    mark = notes.KEEPS_REFERENCES if answer.keeps_references else ""
    return AnswerRow(
        workload=job.workload,
        job=job.label + (" (copying)" if answer.among_copying else ""),
        fastest=named(answer.winner, mark) if answer.winner else NOTHING,
        figure=_with_interval(answer.figure, job.unit) if answer.figure else NOTHING,
        ratio=_ratio(answer.over_reference)
        if answer.over_reference
        else "is the reference"
        if answer.winner and answer.winner == answer.reference
        else NOTHING,
        reference=f"{named(answer.reference)}, {_alone(figure_of(reference), job.unit)}" if reference else NOTHING,
        runner_up=f"{named(answer.runner_up)}, {_alone(answer.runner_up_figure, job.unit)}"
        if answer.runner_up and answer.runner_up_figure
        else NOTHING,
        runner_up_ratio=_ratio(answer.over_runner_up) if answer.over_runner_up else NOTHING,
        sureness=answer.sureness,
        clear=answer.clear,
        among_copying=answer.among_copying,
    )


def _with_interval(figure: Figure, unit: str) -> str:
    return f"{_alone(figure, unit)} {interval(figure, scale_for(unit, [figure.value]).factor)}"


def _alone(figure: Figure, unit: str) -> str:
    scale = scale_for(unit, [figure.value])
    return f"{scale.of(figure)} {scale.unit}"


def _ratio(ratio: Ratio) -> str:
    return f"{ratio.text} {ratio.interval}".strip()


def _workload(
    run: Run,
    name: str,
    jobs: Sequence[Job],
    reference: str | None,
    troubles: Sequence[notes.Trouble],
    scaling: bool,
    look: Mapping[str, plots.Look],
) -> WorkloadPart:
    peers = [peer.name for peer in run.peers if any(peer.name in job.cells for job in jobs)]
    unsafe = marks_of(run)
    pictures = _lines(name, jobs, look, unsafe) if scaling else _dots(run, name, jobs, look)
    return WorkloadPart(
        name=name,
        peers=peers,
        jobs=[_job_table(run, job, reference, troubles) for job in jobs],
        pictures=[Picture(title, *plots.draw(title, make)) for title, make in pictures],
        footnotes=[
            *notes.footnotes(run, jobs),
            *explained("".join(unsafe[peer] for peer in peers)),
        ],
        common=", ".join(_common(jobs)),
        explained="; ".join(EXPLAINED[name] for name in EXPLAINED if any(job.benchmark == name for job in jobs)),
    )


def _common(jobs: Sequence[Job]) -> Iterator[str]:
    """Parameters that go without saying in the jobs' names."""
    for name in jobs[0].params if jobs else ():
        values = [job.params.get(name) for job in jobs]
        value = usual(values)
        if value is None or name in SPOKEN:
            continue
        said = f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
        yield said if len(set(values)) == 1 else f"{said} where no other is named"


def _job_table(run: Run, job: Job, reference: str | None, troubles: Sequence[notes.Trouble]) -> JobTable:
    scale = scale_of(job)
    peers, unsafe = {peer.name: peer for peer in run.peers}, marks_of(run)
    cells = {
        name: speed_cell(job, name, reference, troubles, notes.marks(peers[name], job) + unsafe[name], scale)
        for name in job.cells
    }
    return JobTable(job.label, scale.unit, job.better, reference if reference in job.shown else None, cells)


def _dots(
    run: Run, workload: str, jobs: Sequence[Job], look: Mapping[str, plots.Look]
) -> list[tuple[str, Callable[[], Any]]]:
    peers, unsafe = {peer.name: peer for peer in run.peers}, marks_of(run)
    made = []
    for job in jobs:
        entries = [
            plots.Dot(
                name,
                notes.marks(peers[name], job) + unsafe[name],
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
