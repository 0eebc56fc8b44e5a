"""What the section on other libraries' learners says about a task, beside its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from reports.figures.formatting import number
from reports.figures.ratios import Ratio
from reports.figures.trainings import NEEDED, WEIGHTS, Task, ratios_of
from reports.rendering import worded
from results.statistics import detectable, figure, holm, least_p, p_equal
from results.verdicts import ENOUGH, MATTERS

ALPHA = 0.05
said = partial(worded, "learners_notes.j2")


def notes_of(task: Task) -> list[str]:
    return [*_speeds(task), *_identical(task), *_returns(task), *_needed(task)]


def _speeds(task: Task) -> Iterator[str]:
    """Yield with which buffers the whole training is faster than with the reference, slower, or neither."""
    ratios = task.speeds
    few = [peer for peer, ratio in ratios.items() if ratio.figure.launches < ENOUGH]
    judged = {peer: ratio for peer, ratio in ratios.items() if peer not in few}

    def words(peers: Sequence[str]) -> list[str]:
        return [f"{peer} ({judged[peer].words})" for peer in peers]

    faster = [peer for peer, ratio in judged.items() if ratio.clearly_faster]
    slower = [peer for peer, ratio in judged.items() if ratio.figure.high < 1]
    others = [peer for peer in judged if peer not in (*faster, *slower)]
    if faster:
        yield said("faster", reference=task.reference, peers=words(faster))
    if others:
        yield said("not_faster", reference=task.reference, peers=words(others), matters=MATTERS)
    if slower:
        yield said("slower", reference=task.reference, peers=words(slower))
    if task.control:
        yield said("control", reference=task.reference, ratio=task.control.words)
    if few:
        yield said("few_seeds", peers=few, enough=ENOUGH)


def _identical(task: Task) -> Iterator[str]:
    for peer in (peer for peer, seeds in task.twins.items() if not seeds):
        seeds = len(task.jobs[WEIGHTS].shown[peer].samples)
        yield said("identical", peer=peer, reference=task.reference, seeds=seeds)


def faults_of(task: Task) -> Iterator[str]:
    for peer, seeds in task.twins.items():
        if seeds:
            yield said("fault", peer=peer, reference=task.reference, seeds=[str(seed) for seed in seeds])


def _returns(task: Task) -> Iterator[str]:
    """Yield whether the last scores differ from the reference's, by a test, and what that test could have found."""
    final, reference = task.final, task.reference
    if final is None or reference not in final.shown:
        return
    values = {peer: [sample.value for sample in each.samples] for peer, each in final.shown.items()}
    theirs = values.pop(reference)
    mine = {peer: scores for peer, scores in values.items() if peer not in task.twins}
    few = [peer for peer, scores in mine.items() if least_p(len(scores), len(theirs)) > ALPHA]
    if few:
        yield said("few_scores", peers=few, reference=reference)
    tested = {peer: scores for peer, scores in mine.items() if peer not in few}
    p_values = dict(zip(tested, holm([p_equal(scores, theirs) for scores in tested.values()]), strict=True))
    alike = [peer for peer in tested if p_values[peer] > ALPHA]
    if alike:
        least = max(detectable(tested[peer], theirs) for peer in alike)
        peers = [f"{peer} (p = {number(p_values[peer], 2)})" for peer in alike]
        yield said("alike", reference=reference, peers=peers, least=least)
    for peer in tested:
        if peer not in alike:
            ours, other = figure(tested[peer]), figure(theirs)
            yield said("differ", peer=peer, reference=reference, p_value=p_values[peer], ours=ours, other=other)


def _needed(task: Task) -> Iterator[str]:
    """Yield which buffers need more or fewer steps to the target, and for which that is not shown."""
    reference = task.reference
    if NEEDED not in task.jobs or reference is None:
        return
    reached = task.reached(NEEDED)
    if reference in task.solved and reference not in reached.cells:
        yield said("never", reference=reference)
        return
    for peer, ratio in ratios_of(reached, reference).items():
        if peer not in task.twins:
            yield _steps_needed(peer, reference, ratio)


def _steps_needed(peer: str, reference: str, ratio: Ratio) -> str:
    if ratio.figure.launches < ENOUGH:
        return said("no_verdict", peer=peer, reference=reference, seeds=ratio.figure.launches, enough=ENOUGH)
    times, low, high = (1 / value for value in (ratio.figure.value, ratio.figure.high, ratio.figure.low))
    clear = ratio.clearly_faster or ratio.clearly_slower
    return said("needs", peer=peer, reference=reference, times=times, low=low, high=high, clear=clear)
