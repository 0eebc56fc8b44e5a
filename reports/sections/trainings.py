"""The effect of a replay buffer on training: how long Ape-X takes to reach its target, and what another library's
learner gains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from reports import plots
from reports.figures.formatting import NOTHING, Scale, interval, number, scale_of
from reports.figures.ratios import Ratio, figure_of
from reports.plots import Picture
from reports.sections.section import Context, Part
from reports.trainings import NEEDED, RELATIVE_SPEED, SOLVED, ComparedTask, tasks_of
from results.jobs import Job, has_figure
from results.statistics import detectable, holm, least_p, p_equal
from results.suites import SUITES, SuitePresentation
from results.verdicts import ENOUGH

ALPHA = 0.05
#: suite -> benchmark -> its column
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "solve_time": {"seconds": "time", "transitions": "transitions", "steps": "learner steps"},
    "paired_training": {
        "steps": "speed of the training",
        RELATIVE_SPEED: "relative speed, in turns",
        "in_buffer": "in the buffer",
        "memory": "memory",
        "needed": "steps to the target",
    },
}
#: suite -> the x axis of its learning curves
ALONG = {"solve_time": "seconds", "paired_training": "steps of the environment"}
#: The tables of docs/sb3.md.
SPEED_COLUMNS = ("training", "buffer", "memory, B per transition (ratio)", "time in the buffer, %", "speed")
OUTCOME_COLUMNS = ("training", "buffer", "reached the target", "after so many steps", "mean return at the end")


def parts(context: Context) -> Iterator[Part]:
    for suite in (SUITES["solve_time"], SUITES["paired_training"]):
        tasks = [(task, *_table(context, task), _curves(context, task)) for task in _tasks(context, suite)]
        if tasks:
            pictures = [picture for *_, picture in tasks if picture]
            names = {row[0] for _, _, rows, _ in tasks for row in rows}
            values = {
                "suite": suite,
                "arms": [peer for peer in context.run.peers if context.signed(peer.name) in names],
                "tasks": tasks,
                "columns": {column for _, columns, _, _ in tasks for column in columns},
                "pictures": pictures,
                "reference": tasks[0][0].reference,
                "enough": ENOUGH,
            }
            yield Part("trainings", suite.name, suite.title, values, pictures)


def _tasks(context: Context, suite: SuitePresentation) -> list[ComparedTask]:
    return tasks_of(context.jobs_of(suite), context.reference(suite))


def _table(context: Context, task: ComparedTask) -> tuple[list[str], list[list[str]]]:
    """Return the columns of a task's table, and its rows of peers."""
    names = {name: title for name, title in COLUMNS[task.suite].items() if name in task.jobs}
    final = task.final if task.steps else None  # a run that ends at its target has no meaningful last score
    jobs = [*(task.jobs[name] for name in names), *([final] if final else [])]
    peers = [peer.name for peer in context.run.peers if any(peer.name in job.cells for job in jobs)]
    columns: dict[str, Mapping[str, str]] = {}
    if SOLVED in task.jobs:
        columns["reached the target"] = {peer: task.count(peer) for peer in peers}
    for name, title in names.items():
        unit = scale_of(task.jobs[name]).unit
        heading = title if title.endswith((unit, "in turns")) else f"{title}, {unit}"
        columns[heading] = {peer: _needed(task, name, peer) for peer in peers}
    if final:
        columns["last score"] = {peer: _figure(final, peer) for peer in peers}
        columns |= _tested(task, final)
    if task.twins:
        columns["differing seeds"] = {peer: ", ".join(map(str, seeds)) or "none" for peer, seeds in task.twins.items()}
    rows = [[context.signed(peer), *(cells.get(peer, "") for cells in columns.values())] for peer in peers]
    return ["buffer", *columns], rows


def _figure(job: Job, peer: str, scale: Scale | None = None) -> str:
    record, scale = job.cells.get(peer), scale or scale_of(job)
    if record is None or not has_figure(record):
        return record.status.replace("_", " ") if record else NOTHING
    figure = figure_of(record)
    return f"{scale.of(figure)} {interval(figure, scale.factor)}"


def _needed(task: ComparedTask, name: str, peer: str) -> str:
    """Return a figure with its ratio to the reference. If a training run never reached the target, the figure is a
    lower bound."""
    job = task.jobs[name]
    record = job.shown.get(peer)
    if record and name in NEEDED[task.suite]:
        if peer not in task.solved:
            return "not known"
        if peer not in task.reached(name).cells:
            return f"> {scale_of(job).number(min(each.value for each in record.samples))}"
        job = task.reached(name)
    ratio = None if name == RELATIVE_SPEED else task.ratio(name, peer)
    return "; ".join(filter(None, [_figure(job, peer, scale_of(task.jobs[name])), ratio.words if ratio else ""]))


def _tested(task: ComparedTask, final: Job) -> dict[str, Mapping[str, str]]:
    """Return for each buffer the p-value of its last scores, compared with the reference's, and the difference that the
    test would find four times in five. A buffer that draws the reference's rows is not tested."""
    values = {peer: [sample.value for sample in record.samples] for peer, record in final.shown.items()}
    theirs = values.pop(task.reference or "", [])
    tested = {
        peer: mine
        for peer, mine in values.items()
        if theirs and peer not in task.twins and least_p(len(mine), len(theirs)) <= ALPHA
    }
    if not tested:
        return {}
    corrected = holm([p_equal(mine, theirs) for mine in tested.values()])
    return {
        "p": {peer: number(p, 2) for peer, p in zip(tested, corrected, strict=True)},
        "would find": {peer: number(detectable(mine, theirs), 2) for peer, mine in tested.items()},
    }


def _curves(context: Context, task: ComparedTask) -> Picture | None:
    """Draw the scores up to the end of the last training."""
    ended = task.jobs["seconds"].shown.values() if "seconds" in task.jobs else ()
    last = max((sample.value for record in ended for sample in record.samples), default=math.inf)
    moments = sorted(task.scores)
    moments = moments[: 1 + sum(moment < last for moment in moments)]
    names = [peer.name for peer in context.run.peers if any(peer.name in task.scores[each].shown for each in moments)]
    if not names:
        return None
    look = plots.looks([peer.name for peer in context.run.peers], names)
    lines = {
        peer: {each: figure_of(job.shown[peer]) for each in moments if peer in (job := task.scores[each]).shown}
        for peer in names
    }
    draw = partial(plots.curves, task.name, lines, "mean return", ALONG[task.suite], task.target, look)
    return plots.draw(f"{task.suite}: {task.name}", draw)


def speed_rows(context: Context) -> Iterator[Sequence[str]]:
    """Yield the rows of `SPEED_COLUMNS`: the effect of each buffer on training with another library's learner."""
    for task in _tasks(context, SUITES["paired_training"]):
        for peer in _reference_first(task, (peer for job in task.jobs.values() for peer in job.shown)):
            ratio = task.ratio("memory", peer) if "memory" in task.jobs else None
            memory = " ".join(filter(None, [_value(task, "memory", peer), f"({ratio.text})" if ratio else ""]))
            yield task.name, peer, memory, _value(task, "in_buffer", peer), _speed(task, peer)


def outcome_rows(context: Context) -> Iterator[Sequence[str]]:
    """Yield the rows of `OUTCOME_COLUMNS`: the training tasks with a target."""
    for task in _tasks(context, SUITES["paired_training"]):
        if task.target is None or task.final is None or "needed" not in task.jobs:
            continue
        name = f"{task.name}, {task.steps:,} steps, target {task.target:g}"
        for peer in _reference_first(task, task.solved):
            reached = task.reached("needed").cells.get(peer)
            needed = scale_of(task.jobs["needed"]).of(figure_of(reached)) if reached else ""
            yield name, peer, task.count(peer), needed, _figure(task.final, peer)


def _reference_first(task: ComparedTask, peers: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(peers), key=lambda peer: peer != task.reference)


def _value(task: ComparedTask, name: str, peer: str) -> str:
    shown = task.jobs[name].shown if name in task.jobs else {}
    return scale_of(task.jobs[name]).of(figure_of(shown[peer])) if peer in shown else ""


def _speed(task: ComparedTask, peer: str) -> str:
    """Return the relative speed: from training runs that took turns, or else from consecutive ones."""
    if RELATIVE_SPEED in task.jobs and task.jobs[RELATIVE_SPEED].shown:
        record = task.jobs[RELATIVE_SPEED].shown.get(peer)
        return Ratio(figure_of(record)).words if record else ""
    ratio = task.ratio("steps", peer) if "steps" in task.jobs else None
    return f"{ratio.words}, one after the other" if ratio else ""
