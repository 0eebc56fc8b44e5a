"""What our buffer changes in the trainings of another library: memory first, then the steps to a score, then time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reports.figures.formatting import NOTHING, TIMES, counted, interval, listed
from reports.figures.jobs import Job
from reports.figures.peers import base_name
from reports.figures.ratios import Ratio, figure_of
from reports.figures.trainings import NEEDED, Task, ratios_of, tasks_of
from reports.sections import learners
from reports.sections.section import Context
from reports.tables.cells import scale_of
from results.verdicts import MATTERS

LIMITS = (
    "Each training ran on one thread. Memory was measured with random play, whose frames may compress better or worse "
    "than those of a trained agent. Trainings of fewer than 10,000 steps learn little: they show the speed, and that "
    "exact draws change nothing. Where a speed was measured in turns with the library's own buffer, the trainings are "
    "shorter, and buffers at most a quarter full."
)
OUTCOMES = (
    "Steps are the median of the trainings that reached the target; returns are the median of all, with an interval of "
    "95%."
)
HEAD = (
    "| training | buffer | memory, B per transition | time in the buffer | speed of the training |",
    "|---|---|--:|--:|--:|",
)
OUTCOME_HEAD = (
    "| training | buffer | reached the target | after so many steps | mean return at the end |",
    "|---|---|--:|--:|--:|",
)


def tasks(context: Context) -> list[Task]:
    return tasks_of(context.jobs_of(learners.SUITE), context.reference(learners.SUITE))


def sentences(context: Context, subject: str) -> list[str]:
    """Return a sentence per question (memory, steps, time, speed, identity), over all trainings."""
    found = [task for task in tasks(context) if task.reference]
    reference = context.reference(learners.SUITE)
    return [
        *_sentence("Memory, in bytes per transition", {task.name: _memory(task, subject) for task in found}),
        *_sentence("Steps to a mean return", {task.name: _to_the_target(task) for task in found}),
        *_sentence("Time in the buffer", {task.name: _shares(task, subject) for task in found}),
        *_sentence(
            f"Speed of the whole program, relative to {reference}", {task.name: _speed(task, subject) for task in found}
        ),
        *_sentence(
            f"Scores and weights identical to those with {reference}",
            {task.name: _identical(task, subject) for task in found},
        ),
    ]


def _sentence(title: str, found: Mapping[str, str]) -> Iterator[str]:
    if parts := [f"{name} {part}" for name, part in found.items() if part]:
        yield f"{title}: {'; '.join(parts)}."


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
            outcomes = task.solved[peer].values()
            reached = task.reached.cells.get(peer) if task.reached else None
            cells = [
                f"{task.name}, {task.steps:,} steps, target {task.target:g}" if place == 0 else "",
                peer,
                f"{sum(outcomes)} of {len(outcomes)}",
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


def _ours(job: Job | None, subject: str) -> list[str]:
    return [peer for peer in job.shown if base_name(peer) == base_name(subject)] if job else []


def _memory(task: Task, subject: str) -> str:
    """The memory of the variants that need less than the library's own buffer, and of the best other one."""
    job = task.jobs.get("memory")
    ratios = ratios_of(job, task.reference)
    less = [peer for peer in _ours(job, subject) if peer in ratios and ratios[peer].value >= MATTERS]
    if job is None or not less:
        return ""
    scale, mine = scale_of(job), _ours(job, subject)
    amounts = {peer: figure_of(record) for peer, record in job.shown.items()}
    best = min((peer for peer in amounts if peer not in mine), key=lambda peer: amounts[peer].value)
    named = [f"{scale.of(amounts[peer])} with {peer} ({ratios[peer].text} fewer)" for peer in less]
    if best != task.reference:
        named.append(f"{scale.of(amounts[best])} with {best}")
    return f"{scale.of(amounts[str(task.reference)])} with {task.reference}, {listed(named)}"


def _to_the_target(task: Task) -> str:
    """After how many steps each algorithm reached the target. Identical trainings are named once.

    A median of only some seeds, those that were fast enough, would flatter: then it is said how many there were.
    """
    job, reached = task.jobs.get(NEEDED), task.reached
    if job is None or reached is None or task.target is None:
        return ""
    scale, parts = scale_of(job), []
    for peer, outcomes in task.solved.items():
        if peer in task.twins:
            continue
        seeds, record = counted(len(outcomes), "seed"), reached.cells.get(peer)
        if record and task.is_complete(peer):
            parts.append(f"{scale.of(figure_of(record))} with {peer} ({len(outcomes)} of {seeds})")
        elif not task.is_complete(peer):
            parts.append(f"reached by {sum(outcomes.values())} of {seeds} with {peer}")
    return f"(target {task.target:g}) {listed(parts)}" if parts else ""


def _shares(task: Task, subject: str) -> str:
    job = task.jobs.get("in_buffer")
    peer = next(iter(_ours(job, subject)), None)
    if job is None or peer is None or task.reference not in job.shown:
        return ""
    mine, theirs = (scale_of(job).of(figure_of(job.shown[str(name)])) for name in (peer, task.reference))
    return f"{mine}% with {peer} instead of {theirs}%"


def _speed(task: Task, subject: str) -> str:
    peer = next((peer for peer in task.speeds if base_name(peer) == base_name(subject)), None)
    return f"{task.speeds[peer].words} with {peer}" if peer else ""


def _identical(task: Task, subject: str) -> str:
    same = [peer for peer, seeds in task.twins.items() if not seeds and base_name(peer) == base_name(subject)]
    return f"with {listed(same)}" if same else ""
