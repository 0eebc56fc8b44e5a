"""The tables of docs/sb3.md: what a replay buffer changes in the trainings of another library."""

from __future__ import annotations

from reports.figures.formatting import NOTHING, TIMES, interval
from reports.figures.ratios import Ratio, figure_of
from reports.figures.trainings import NEEDED, Task, ratios_of, tasks_of
from reports.sections.section import Context
from reports.tables.cells import scale_of
from results.jobs import Job
from results.suites import SUITES
from results.verdicts import MATTERS

HEAD = (
    "| training | buffer | memory, B per transition | time in the buffer | speed of the training |",
    "|---|---|--:|--:|--:|",
)
OUTCOME_HEAD = (
    "| training | buffer | reached the target | after so many steps | mean return at the end |",
    "|---|---|--:|--:|--:|",
)


def tasks(context: Context) -> list[Task]:
    return tasks_of(context.jobs_of(SUITES["learners"]), context.reference(SUITES["learners"]))


def table_lines(context: Context) -> list[str]:
    """Return a table of all trainings, with ratios to the library's own buffer."""
    rows = []
    for task in tasks(context):
        columns = [_amounts(task, "memory"), _amounts(task, "in_buffer"), _speeds(task)]
        peers = dict.fromkeys(peer for job in task.jobs.values() for peer in job.shown)
        for place, peer in enumerate(sorted(peers, key=lambda peer: peer != task.reference)):
            cells = [task.name if place == 0 else "", peer, *(column.get(peer, NOTHING) for column in columns)]
            rows.append(f"| {' | '.join(cells)} |")
    return [*HEAD, *rows, ""] if rows else []


def outcome_lines(context: Context) -> list[str]:
    """Return a table of trainings with a target: how many reached it, after how many steps, and the last score."""
    rows = []
    for task in tasks(context):
        if task.target is None or task.final is None or NEEDED not in task.jobs:
            continue
        steps = scale_of(task.jobs[NEEDED])
        for place, peer in enumerate(sorted(task.solved, key=lambda peer: peer != task.reference)):
            reached = task.reached(NEEDED).cells.get(peer)
            cells = [
                f"{task.name}, {task.steps:,} steps, target {task.target:g}" if place == 0 else "",
                peer,
                task.count(peer),
                steps.of(figure_of(reached)) if reached else NOTHING,
                _with_interval(task.final, peer),
            ]
            rows.append(f"| {' | '.join(cells)} |")
    return [*OUTCOME_HEAD, *rows, ""] if rows else []


def _with_interval(job: Job, peer: str) -> str:
    if peer not in job.shown:
        return NOTHING
    figure, scale = figure_of(job.shown[peer]), scale_of(job)
    return f"{scale.of(figure)} {interval(figure, scale.factor)}"


def _amounts(task: Task, name: str) -> dict[str, str]:
    """Return the figure of each peer, and for memory its ratio."""
    job = task.jobs.get(name)
    if job is None:
        return {}
    ratios, scale = ratios_of(job, task.reference), scale_of(job)
    texts = {}
    for peer, record in job.shown.items():
        amount, ratio = scale.of(figure_of(record)), ratios.get(peer)
        if name == "in_buffer":
            texts[peer] = f"{amount}%"
        else:
            texts[peer] = f"{amount} ({_fewer(ratio)})" if ratio else amount
    return texts


def _speeds(task: Task) -> dict[str, str]:
    """Return the relative speed of each peer, and of the reference what it is against itself."""
    if not task.speeds:
        return {}
    own = f"{task.control.words} against itself" if task.control else f"1{TIMES}"
    method = "" if task.control else " (one after the other)"
    return {str(task.reference): own, **{peer: each.words + method for peer, each in task.speeds.items()}}


def _fewer(ratio: Ratio) -> str:
    if ratio.value >= MATTERS:
        return f"{ratio.text} fewer"
    return "about as many" if ratio.value > 1 / MATTERS else f"{1 / ratio.value:.3g}{TIMES} as many"
