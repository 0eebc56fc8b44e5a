"""What the section on other libraries' learners says about a task, beside its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports.figures.formatting import interval, listed, number
from reports.figures.ratios import Ratio
from reports.figures.statistics import detectable, figure, holm, least_p, p_equal
from reports.figures.trainings import WEIGHTS, Task, ratios_of
from reports.rendering import worded
from results.verdicts import ENOUGH, MATTERS
from results.words import counted

ALPHA = 0.05
TEST = "exact permutation test of the mean last score over seeds, with Holm's correction"


def notes_of(task: Task) -> list[str]:
    return [*_speeds(task), *_identical(task), *_returns(task), *_needed(task)]


def _speeds(task: Task) -> Iterator[str]:
    """Yield with which buffers the whole training is faster than with the reference, slower, or neither."""
    ratios = task.speeds
    few = [peer for peer, ratio in ratios.items() if ratio.figure.launches < ENOUGH]
    judged = {peer: ratio for peer, ratio in ratios.items() if peer not in few}

    def words(peers: Sequence[str]) -> str:
        return listed([f"{peer} ({judged[peer].words})" for peer in peers])

    faster = [peer for peer, ratio in judged.items() if ratio.clearly_faster]
    slower = [peer for peer, ratio in judged.items() if ratio.figure.high < 1]
    others = [peer for peer in judged if peer not in (*faster, *slower)]
    if faster:
        yield f"The whole training is clearly faster than with {task.reference}: {words(faster)}."
    if others:
        yield (
            f"The whole training is not clearly faster than with {task.reference} (which needs an interval above "
            f"{MATTERS:g}): {words(others)}."
        )
    if slower:
        yield f"The whole training is slower than with {task.reference} (interval below 1): {words(slower)}."
    if task.control:
        yield (
            f"Control: {task.reference}, in turns with itself, is {task.control.words} as fast. Its distance from 1 "
            "and its interval are the error of the method."
        )
    if few:
        yield worded("learners_notes.j2", "few_seeds", peers=few, enough=ENOUGH)


def _identical(task: Task) -> Iterator[str]:
    for peer in (peer for peer, seeds in task.twins.items() if not seeds):
        blocks = len(task.jobs[WEIGHTS].shown[peer].samples)
        yield (
            f"{peer} draws the rows that {task.reference} draws: all its scores and the final weights of the network "
            f"are identical, with {counted(blocks, 'seed')}."
        )


def faults_of(task: Task) -> Iterator[str]:
    for peer, seeds in task.twins.items():
        if seeds:
            yield (
                f"Fault: {peer} should draw the rows that {task.reference} draws, but scores or the final weights of "
                f"the network differ with seed {listed([str(seed) for seed in seeds])}."
            )


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
        yield (
            f"Too few seeds to compare the last scores of {listed(few)} with those of {reference}: no difference would "
            "be significant."
        )
    tested = {peer: scores for peer, scores in mine.items() if peer not in few}
    p_values = dict(zip(tested, holm([p_equal(scores, theirs) for scores in tested.values()]), strict=True))
    alike = [peer for peer in tested if p_values[peer] > ALPHA]
    if alike:
        said = listed([f"{peer} (p = {number(p_values[peer], 2)})" for peer in alike])
        least = max(detectable(tested[peer], theirs) for peer in alike)
        found = f"with this spread of scores, it finds a difference of {number(least, 2)} four times in five"
        yield (
            f"No difference of returns from {reference} is shown for {said}. The test is an {TEST}; "
            f"{found if least else 'all scores are equal'}."
        )
    for peer in tested:
        if peer not in alike:
            ours, other = figure(tested[peer]), figure(theirs)
            yield (
                f"Returns with {peer} differ from those with {reference} (p = {number(p_values[peer], 2)}; {TEST}): "
                f"{number(ours.value)} {interval(ours)} against {number(other.value)} {interval(other)}."
            )


def _needed(task: Task) -> Iterator[str]:
    """Yield which buffers need more or fewer steps to the target, and for which that is not shown."""
    reached, reference = task.reached, task.reference
    if reached is None or reference is None:
        return
    if reference in task.solved and reference not in reached.cells:
        yield f"{reference} never reached the target, so there is no ratio to it."
        return
    for peer, ratio in ratios_of(reached, reference).items():
        if peer not in task.twins:
            yield _steps_needed(peer, reference, ratio)


def _steps_needed(peer: str, reference: str, ratio: Ratio) -> str:
    if ratio.figure.launches < ENOUGH:
        return (
            f"No verdict on the steps that {peer} needs to the target: {counted(ratio.figure.launches, 'seed')} "
            f"reached it with both {peer} and {reference}, and it takes {ENOUGH}."
        )
    times, low, high = (number(1 / value) for value in (ratio.figure.value, ratio.figure.high, ratio.figure.low))
    clear = ratio.clearly_faster or ratio.clearly_slower
    return (
        f"{peer} needs {times} [{low}, {high}] times as many steps to the target as {reference}"
        f"{'' if clear else ', which is no clear difference'}."
    )
