"""What the sections on trainings share: the cells of a figure that a training needs to reach its target, and curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from reports import plots
from reports.figures.formatting import Scale
from reports.figures.ratios import figure_of
from reports.figures.trainings import Trainings
from reports.plots import Picture
from reports.rendering import worded
from reports.sections.section import Context
from reports.tables.cells import Cell, MatrixTable, speed_cell, without_figure
from reports.tables.troubles import number_of
from results.jobs import has_figure

said = partial(worded, "trainings_notes.j2")


@dataclass(frozen=True)
class TaskPart:
    """What a page shows of one task."""

    title: str
    table: MatrixTable
    notes: Sequence[str]
    picture: Picture | None
    faults: Sequence[str] = ()
    solved: Sequence[tuple[str, str]] = ()  # peer, "5 of 5"


def needed_cell(context: Context, task: Trainings, name: str, peer: str, scale: Scale) -> Cell | None:
    """Return the cell of what a training needed to reach the target."""
    record, reached, marks = task.jobs[name].cells.get(peer), task.reached(name), context.signs[peer]
    if record is None:
        return None
    if not has_figure(record):
        return without_figure(record, marks, context.troubles)
    if peer not in task.solved:
        return Cell(peer, marks, status=said("unknown"))
    if peer not in reached.cells:
        least = min(each.value for each in record.samples)
        return Cell(peer, marks, status=said("not_reached", least=scale.number(least), unit=scale.unit))
    cell = speed_cell(reached, peer, task.reference, context.troubles, marks, scale)
    if cell is None:
        return None
    some = "" if task.is_complete(peer) else said("some", count=task.count(peer))
    return replace(
        cell,
        interval=f"{cell.interval} {some}".strip(),
        trouble=number_of(record, context.troubles),
        fastest=peer == task.fastest(name),
    )


def curves(context: Context, task: Trainings, title: str, kind: str, along: str, last: float) -> Picture | None:
    """Draw the scores up to the first moment that is not before `last`."""
    moments = sorted(task.scores)
    shown = moments[: 1 + sum(moment < last for moment in moments)]
    jobs = {moment: task.scores[moment] for moment in shown}
    names = [peer.name for peer in context.run.peers if any(peer.name in job.shown for job in jobs.values())]
    if not names:
        return None
    look = plots.looks([peer.name for peer in context.run.peers], names)
    lines = {
        peer: {moment: figure_of(job.shown[peer]) for moment, job in jobs.items() if peer in job.shown}
        for peer in names
    }
    draw = partial(plots.curves, title, lines, "mean return", along, task.target, look)
    return plots.draw(f"{kind}: {title}", draw)
