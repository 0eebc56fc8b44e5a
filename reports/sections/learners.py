"""What a replay buffer changes in the trainings of another library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reports.figures.formatting import Scale
from reports.figures.trainings import NEEDED, RELATIVE_SPEED, SCORE, STEPS, Task, tasks_of
from reports.sections.learners_notes import faults_of, notes_of
from reports.sections.section import Context, Part, Section
from reports.sections.trainings import TaskPart, curves, needed_cell
from reports.tables.cells import Cell, MatrixTable, scale_of, speed_cell
from results.jobs import Job
from results.suites import SUITES

COLUMNS = {
    STEPS: "speed of the training",
    RELATIVE_SPEED: "relative speed, in turns",
    "in_buffer": "in the buffer",
    "memory": "memory",
    NEEDED: "steps to the target",
    SCORE: "last score",
}
SUITE = SUITES["learners"]


@dataclass(frozen=True)
class LearnersBody:
    arms: Sequence[tuple[str, str]]  # peer, how it is used
    tasks: Sequence[TaskPart]


def parts(context: Context) -> list[Part]:
    tasks = tasks_of(context.jobs_of(SUITE), context.reference(SUITE))
    if not tasks:
        return []
    shown = {peer for task in tasks for job in (*task.jobs.values(), *task.scores.values()) for peer in job.cells}
    body = LearnersBody(
        [(peer.name, peer.usage) for peer in context.run.peers if peer.name in shown],
        [_part(context, task) for task in tasks],
    )
    return [Part("learners", "learners", SUITE.title, body, [task.picture for task in body.tasks if task.picture])]


def _part(context: Context, task: Task) -> TaskPart:
    return TaskPart(
        title=task.title,
        table=_table(context, task),
        notes=notes_of(task),
        faults=list(faults_of(task)),
        picture=curves(context, task, task.title, "learners", "steps of the environment", math.inf),
    )


def _table(context: Context, task: Task) -> MatrixTable:
    jobs = {name: task.jobs[name] for name in COLUMNS if name in task.jobs}
    if task.final:
        jobs[SCORE] = task.final
    peers = [peer.name for peer in context.run.peers if any(peer.name in job.cells for job in jobs.values())]
    scales = {name: scale_of(job) for name, job in jobs.items()}
    return MatrixTable(
        task.title,
        [(COLUMNS[name], scales[name].unit) for name in jobs],
        [(peer, [_cell(context, task, name, jobs[name], peer, scales[name]) for name in jobs]) for peer in peers],
        task.reference,
    )


def _cell(context: Context, task: Task, name: str, job: Job, peer: str, scale: Scale) -> Cell | None:
    marks = context.signs[peer]
    if name == NEEDED:
        return needed_cell(context, task, name, peer, scale)
    # A mean return may be negative, and a relative speed is a ratio already.
    reference = None if name in (SCORE, RELATIVE_SPEED) else task.reference
    cell = speed_cell(job, peer, reference, context.troubles, marks, scale)
    # None of these is marked as best: the notes say which differences are more than chance.
    return replace(cell, fastest=False) if cell and name in (SCORE, RELATIVE_SPEED) else cell


SECTION = Section(parts)
