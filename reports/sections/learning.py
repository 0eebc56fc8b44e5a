"""How long an Ape-X training takes, with each way of sharing its buffer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from reports.figures.formatting import Scale
from reports.figures.ratios import Ratio, ratio_of
from reports.figures.trainings import SCORE, SOLVED, Trainings
from reports.rendering import worded
from reports.sections.section import Context, Part, Section
from reports.sections.trainings import TaskPart, curves, needed_cell
from reports.tables.cells import Cell, MatrixTable, scale_of
from results.jobs import Job
from results.statistics import speed_up
from results.suites import SUITES
from results.verdicts import ENOUGH, SHARED_REFERENCE, library_of

NEEDED = {"seconds": "time", "transitions": "transitions", "steps": "learner steps"}
SUITE = SUITES["learning"]
said = partial(worded, "learning_notes.j2")


@dataclass(frozen=True)
class Task(Trainings):
    """The trainings of one environment."""

    workload: str

    @property
    def title(self) -> str:
        return said("title", workload=self.workload, target=self.target)

    def ratio(self, name: str, peer: str) -> Ratio | None:
        """Return the ratio over the seeds with which both reached the target, or a lower bound if the reference never
        did."""
        job, against = self.reached(name), self.jobs[name].shown.get(self.reference or "")
        if peer not in job.cells or against is None or peer == self.reference:
            return None
        if self.reference in job.cells:
            return ratio_of(job.cells[peer], job.cells[self.reference])
        found = speed_up(job.cells[peer], against) if self.reference in self.solved else None
        return Ratio(found, is_bound=True) if found else None


@dataclass(frozen=True)
class LearningBody:
    tasks: Sequence[TaskPart]


def parts(context: Context) -> list[Part]:
    tasks = tasks_of(context)
    if not tasks:
        return []
    body = LearningBody([_part(context, task) for task in tasks])
    pictures = [task.picture for task in body.tasks if task.picture]
    return [Part("learning", "learning", SUITE.title, body, pictures)]


def tasks_of(context: Context) -> list[Task]:
    """Return the tasks of which the run has a figure."""
    tasks = []
    jobs = context.jobs_of(SUITE)
    for workload in dict.fromkeys(job.workload for job in jobs if job.shown):
        mine = [job for job in jobs if job.workload == workload]
        once = {job.benchmark: job for job in mine if job.benchmark != SCORE}
        scores = {int(job.params["second"]): job for job in mine if job.benchmark == SCORE}
        tasks.append(
            Task(
                target=float(mine[0].params["target"]),
                jobs=once,
                scores=scores,
                reference=_reference(once.get(SOLVED)),
                workload=workload,
            )
        )
    return tasks


def _reference(solved: Job | None) -> str | None:
    """Return the buffer to which others are compared: the usual one, another of the same library, or the first."""
    peers = list(solved.shown) if solved else []
    alike = [peer for peer in peers if library_of(peer) == library_of(SHARED_REFERENCE)]
    return SHARED_REFERENCE if SHARED_REFERENCE in alike else next(iter([*alike, *peers]), None)


def _part(context: Context, task: Task) -> TaskPart:
    needed = task.jobs["seconds"].shown.values() if "seconds" in task.jobs else ()
    last = max((sample.value for record in needed for sample in record.samples), default=math.inf)
    return TaskPart(
        title=task.title,
        table=_table(context, task),
        notes=list(_notes(task)),
        picture=curves(context, task, task.title, "learning", "seconds", last),
        solved=[(peer, task.count(peer)) for peer in task.solved],
    )


def _table(context: Context, task: Task) -> MatrixTable:
    names = [name for name in NEEDED if name in task.jobs]
    scales = {name: scale_of(task.reached(name)) for name in names}
    peers = [peer.name for peer in context.run.peers if any(peer.name in task.jobs[name].cells for name in names)]
    return MatrixTable(
        task.title,
        [(NEEDED[name], scales[name].unit) for name in names],
        [(peer, [_cell(context, task, name, peer, scales[name]) for name in names]) for peer in peers],
        task.reference,
    )


def _cell(context: Context, task: Task, name: str, peer: str, scale: Scale) -> Cell | None:
    cell, ratio = needed_cell(context, task, name, peer, scale), task.ratio(name, peer)
    return replace(cell, ratio=ratio.text, ratio_interval=ratio.interval) if cell and ratio else cell


def _notes(task: Task) -> Iterator[str]:
    """Yield whether some buffer needs more or fewer transitions or steps than the reference does, and for which there
    is no verdict."""
    reference, alike = task.reference, False
    clear: list[str] = []
    few: dict[int, dict[str, None]] = {}
    for name in ("transitions", "steps"):
        for peer in task.solved if name in task.jobs else ():
            ratio = task.ratio(name, peer)
            if ratio is None or ratio.is_bound:
                continue
            if ratio.figure.launches < ENOUGH:
                few.setdefault(ratio.figure.launches, {})[peer] = None
            elif ratio.clearly_faster or ratio.clearly_slower:
                clear.append(said("needs", peer=peer, times=1 / ratio.value, what=NEEDED[name]))
            else:
                alike = True
    if clear:
        yield said("clear", reference=reference, needs=clear)
    elif alike:
        yield said("alike", reference=reference)
    for seeds, peers in few.items():
        yield said("no_verdict", seeds=seeds, peers=list(peers), reference=reference, enough=ENOUGH)
    if reference and not any(task.solved[reference].values()):
        yield said("bounds", reference=reference)


SECTION = Section(parts)
