"""What adding costs in a buffer with sequences: it takes turns with the same buffer without them, in one launch."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from ctypes import c_int
from functools import partial
from multiprocessing import RawValue

from adapters.base import Columns
from suites.runner.explorers import Shared, exploring, giving_up, next_slice
from suites.runner.spent import SPENT
from suites.runner.timing import ROUND_SECONDS, Stopwatch
from suites.runner.windows import PART_SECONDS, WARM_SECONDS
from suites.sequences.buffers import FullBuffer
from suites.sequences.spec import SequencesJob

FEWEST_ROUNDS = 5  # each has a turn of both buffers
CHECKED_BATCHES = 100

Arms = tuple[FullBuffer, FullBuffer]  # with sequences, and without
ORDERS = (0, 1), (1, 0)  # of the arms in a round: a turn leaves the caches to the next one
Figures = tuple[float, float]  # rows per second with sequences, and how much of the rate without them that is


def figures(spent: list[tuple[float, float]]) -> Figures:
    """Return the medians over rounds, in each of which both arms added; `spent` has their seconds per row."""
    return statistics.median(1 / mine for mine, _ in spent), statistics.median(plain / mine for mine, plain in spent)


def prepared(buffer: FullBuffer, rows: int) -> list[Columns]:
    """Return the calls that add the recording."""
    steps = buffer.steps
    return [
        buffer.adapter.prepared({name: column[at : at + rows] for name, column in steps.columns.items()})
        for at in range(0, steps.steps, rows)
    ]


def alone(arms: Arms, job: SequencesJob, watch: Stopwatch) -> Figures:
    """One process adds. The arms take the first turn alternately."""
    calls = prepared(arms[0], job.rows)

    def seconds_a_row(arm: FullBuffer, some: list[Columns]) -> float:
        begin = time.perf_counter()
        arm.adapter.add_prepared(some)
        return (time.perf_counter() - begin) / (len(some) * job.rows)

    slowest = max([seconds_a_row(arm, calls) for arm in arms])
    at_once = max(1, round(ROUND_SECONDS / slowest / job.rows))
    groups = itertools.cycle([calls[at : at + at_once] for at in range(0, len(calls), at_once)])
    orders, spent = itertools.cycle(ORDERS), []

    def run() -> None:
        some = next(groups)
        took = {arm: seconds_a_row(arms[arm], some) for arm in next(orders)}
        spent.append((took[0], took[1]))

    watch.per_round(run, watch.rounds(2 * ROUND_SECONDS, FEWEST_ROUNDS))
    return figures(spent)


def fleet(arms: Arms, job: SequencesJob, watch: Stopwatch) -> Figures:
    """Explorers add beside a learner, all of them to one buffer at a time. From the buffer without sequences, the
    learner draws as many steps. Sequences that are drawn directly afterwards, while the explorers go on, are
    checked."""
    shape, turn, spent = job.shape, RawValue(c_int, 0), []
    learners: list[Callable[[], object]] = [
        partial(arm.adapter.sample, count)
        for arm, count in zip(arms, (shape.sequences, shape.sequences * shape.steps), strict=True)
    ]
    rounds = max(FEWEST_ROUNDS, round(watch.seconds / (2 * PART_SECONDS)))
    work = partial(explore, arms, turn, job)
    limit = 2 * WARM_SECONDS + 4 * rounds * PART_SECONDS
    with giving_up(limit), exploring(work, job.explorers) as explorers, SPENT.on("measure"):

        def seconds_a_row(arm: int, wanted: float) -> float:
            turn.value = arm
            before = sum(explorers.added())
            took, _ = explorers.learn(learners[arm], wanted)
            explorers.wait_for(before + 1)
            return took / (sum(explorers.added()) - before)

        for arm in (0, 1):
            seconds_a_row(arm, WARM_SECONDS)
        for order in itertools.islice(itertools.cycle(ORDERS), rounds):
            took = {arm: seconds_a_row(arm, PART_SECONDS) for arm in order}
            spent.append((took[0], took[1]))
        turn.value = 0
        for _ in range(CHECKED_BATCHES):
            arms[0].check(shape.sequences, shape.steps)
    return figures(spent)


def explore(arms: Arms, turn: c_int, job: SequencesJob, number: int, shared: Shared) -> None:
    """An explorer: adds the recording again and again to the buffer whose turn it is, in a few calls at a time, so that
    it sees the next turn soon. Each explorer begins at another call, and goes on in each buffer where it was."""
    calls = prepared(arms[0], job.rows)
    positions, count = [number * len(calls) // job.explorers] * len(arms), 1
    adds, counter, stop = [arm.adapter.add_prepared for arm in arms], shared.added[number], shared.stop
    shared.start()
    while not stop.value:
        arm = turn.value
        some = calls[positions[arm] : positions[arm] + count]
        begin = time.perf_counter()
        adds[arm](some)
        count = next_slice(count, time.perf_counter() - begin)
        counter.value += len(some) * job.rows
        positions[arm] = (positions[arm] + len(some)) % len(calls)
