"""How long an Ape-X training takes, with each way of sharing its buffer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from reports import plots
from reports.figures.formatting import Scale
from reports.figures.ratios import Ratio, figure_of, ratio_of
from reports.plots import Picture
from reports.rendering import worded
from reports.sections.matrix import MatrixTable
from reports.sections.section import Context, Part, Section
from reports.tables.cells import Cell, scale_of, speed_cell, without_figure
from reports.tables.troubles import number_of
from results.jobs import Job, fastest_first, has_figure
from results.statistics import speed_up
from results.suites import SUITES
from results.verdicts import ENOUGH, SHARED_REFERENCE, library_of

NEEDED = {"seconds": "time", "transitions": "transitions", "steps": "learner steps"}
SUITE = SUITES["learning"]
said = partial(worded, "learning_notes.j2")


@dataclass(frozen=True)
class Task:
    """The trainings of one environment."""

    workload: str
    target: float
    explorers: int
    jobs: Mapping[str, Job]  # by benchmark, without the scores
    scores: Sequence[Job]

    @property
    def title(self) -> str:
        return f"{self.workload} to a mean return of {self.target:g}"

    @cached_property
    def solved(self) -> dict[str, dict[int, bool]]:
        """Peer -> block -> whether that training reached the target, for the peers of which this is known."""
        job = self.jobs.get("solved")
        shown = job.shown if job else {}
        return {peer: {each.block: each.value > 0 for each in record.samples} for peer, record in shown.items()}

    def is_complete(self, peer: str) -> bool:
        return all(self.solved.get(peer, {0: False}).values())

    def count(self, peer: str) -> str:
        """Return how many trainings reached the target, such as "4 of 5"."""
        outcomes = self.solved[peer].values()
        return f"{sum(outcomes)} of {len(outcomes)}"

    def reached(self, name: str) -> Job:
        """Return the job with only the trainings that reached the target; the others give lower bounds."""
        job = self.jobs[name]
        cells = {}
        for peer, record in job.shown.items():
            samples = [each for each in record.samples if self.solved.get(peer, {}).get(each.block)]
            if samples:
                cells[peer] = replace(record, samples=samples)
        return replace(job, cells=cells)

    @property
    def reference(self) -> str | None:
        """The buffer to which others are compared: the usual one, another of the same library, or the first."""
        alike = [peer for peer in self.solved if library_of(peer) == library_of(SHARED_REFERENCE)]
        return SHARED_REFERENCE if SHARED_REFERENCE in alike else next(iter([*alike, *self.solved]), None)

    def ratio(self, name: str, peer: str, reference: str | None) -> Ratio | None:
        """Return the ratio over the seeds with which both reached the target, or a lower bound if the reference never
        did."""
        job, against = self.reached(name), self.jobs[name].shown.get(reference or "")
        if peer not in job.cells or against is None or peer == reference:
            return None
        if reference in job.cells:
            return ratio_of(job.cells[peer], job.cells[reference])
        found = speed_up(job.cells[peer], against) if reference in self.solved else None
        return Ratio(found, is_bound=True) if found else None

    def fastest(self, name: str) -> str | None:
        """Return the best of the peers whose every training reached the target."""
        complete = [record for peer, record in self.reached(name).measured.items() if self.is_complete(peer)]
        return fastest_first(complete)[0].peer if complete else None


@dataclass(frozen=True)
class TaskPart:
    title: str
    solved: Sequence[tuple[str, str]]  # peer, "5 of 5"
    table: MatrixTable
    notes: Sequence[str]
    picture: Picture | None


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
        params = mine[0].params
        once = {job.benchmark: job for job in mine if job.benchmark != "score"}
        scores = [job for job in mine if job.benchmark == "score"]
        tasks.append(Task(workload, float(params["target"]), int(params["explorers"]), once, scores))
    return tasks


def _part(context: Context, task: Task) -> TaskPart:
    return TaskPart(
        title=task.title,
        solved=[(peer, task.count(peer)) for peer in task.solved],
        table=_table(context, task),
        notes=list(_notes(task)),
        picture=_curves(context, task),
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
    record, reached, marks = task.jobs[name].cells.get(peer), task.reached(name), context.signs[peer]
    if record is None:
        return None
    if not has_figure(record):
        return without_figure(record, marks, context.troubles)
    if peer not in task.solved:
        return Cell(peer, marks, status="not known whether solved")
    if peer not in reached.cells:
        least = min(each.value for each in record.samples)
        return Cell(peer, marks, status=said("not_solved", least=scale.number(least), unit=scale.unit))
    cell = speed_cell(reached, peer, task.reference, context.troubles, marks, scale)
    ratio = task.ratio(name, peer, task.reference)
    return cell and replace(
        cell,
        interval=cell.interval if task.is_complete(peer) else f"{cell.interval} ({task.count(peer)} solved)",
        ratio=ratio.text if ratio else cell.ratio,
        ratio_interval=ratio.interval if ratio else "",
        trouble=number_of(record, context.troubles),
        fastest=peer == task.fastest(name),
    )


def _notes(task: Task) -> Iterator[str]:
    """Yield whether some buffer needs more or fewer transitions or steps than the reference does, and for which there
    is no verdict."""
    reference, alike = task.reference, False
    clear: list[str] = []
    few: dict[int, dict[str, None]] = {}
    for name in ("transitions", "steps"):
        for peer in task.solved if name in task.jobs else ():
            ratio = task.ratio(name, peer, reference)
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


def _curves(context: Context, task: Task) -> Picture | None:
    """Draw the scores until the last training has ended."""
    needed = task.jobs["seconds"].shown.values() if "seconds" in task.jobs else ()
    last = max((sample.value for record in needed for sample in record.samples), default=float("inf"))
    moments = sorted({int(job.params["second"]) for job in task.scores})
    shown = moments[: 1 + sum(moment < last for moment in moments)]
    jobs = [job for job in task.scores if job.params["second"] in shown]
    names = [peer.name for peer in context.run.peers if any(peer.name in job.shown for job in jobs)]
    if not names:
        return None
    look = plots.looks([peer.name for peer in context.run.peers], names)
    lines = {
        peer: {int(job.params["second"]): figure_of(job.shown[peer]) for job in jobs if peer in job.shown}
        for peer in names
    }
    draw = partial(plots.curves, task.title, lines, "mean return", "seconds", task.target, look)
    return plots.draw(f"learning: {task.title}", draw)


SECTION = Section(parts)
