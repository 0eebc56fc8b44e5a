"""What a replay buffer changes in the trainings of another library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from reports import plots
from reports.figures.formatting import Scale
from reports.figures.ratios import figure_of
from reports.figures.trainings import NEEDED, RELATIVE_SPEED, SCORE, STEPS, Task, tasks_of
from reports.plots import Picture
from reports.sections.learners_notes import faults_of, notes_of
from reports.sections.matrix import MatrixTable
from reports.sections.section import Context, Part, Section
from reports.tables.cells import Cell, scale_of, speed_cell, without_figure
from results.jobs import Job, fastest_first, has_figure
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
class TaskPart:
    title: str
    table: MatrixTable
    notes: Sequence[str]
    faults: Sequence[str]
    picture: Picture | None


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
        picture=_curves(context, task),
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
        return _needed_cell(context, task, job, peer, scale)
    # A mean return may be negative, and a relative speed is a ratio already.
    reference = None if name in (SCORE, RELATIVE_SPEED) else task.reference
    cell = speed_cell(job, peer, reference, context.troubles, marks, scale)
    # None of these is marked as best: the notes say which differences are more than chance.
    return replace(cell, fastest=False) if cell and name in (SCORE, RELATIVE_SPEED) else cell


def _needed_cell(context: Context, task: Task, job: Job, peer: str, scale: Scale) -> Cell | None:
    record, reached, marks = job.cells.get(peer), task.reached, context.signs[peer]
    if record is None or reached is None:
        return None
    if not has_figure(record):
        return without_figure(record, marks, context.troubles)
    if peer not in task.solved:
        return Cell(peer, marks, status="not known whether reached")
    if peer not in reached.cells:
        least = min(each.value for each in record.samples)
        return Cell(peer, marks, status=f"not reached, > {scale.number(least)}")
    cell = speed_cell(reached, peer, task.reference, context.troubles, marks, scale)
    outcomes = task.solved[peer].values()
    complete = [each for each in reached.measured.values() if task.is_complete(each.peer)]
    return cell and replace(
        cell,
        interval=cell.interval if all(outcomes) else f"{cell.interval} ({sum(outcomes)} of {len(outcomes)} reached it)",
        fastest=bool(complete) and fastest_first(complete)[0].peer == peer,
    )


def _curves(context: Context, task: Task) -> Picture | None:
    names = [peer.name for peer in context.run.peers if any(peer.name in job.shown for job in task.scores.values())]
    if not names:
        return None
    look = plots.looks([peer.name for peer in context.run.peers], names)
    lines = {
        peer: {step: figure_of(job.shown[peer]) for step, job in task.scores.items() if peer in job.shown}
        for peer in names
    }
    draw = partial(plots.curves, task.title, lines, "mean return", "steps of the environment", task.target, look)
    return plots.draw(f"learners: {task.title}", draw)


SECTION = Section(parts)
