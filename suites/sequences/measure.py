"""Sequences: how many sequences of consecutive steps a buffer returns per second, each peer in its own way.

    python -m suites.sequences --peer NAME [--job JOB ...] [--seconds S]

sample              from a full buffer, at rest
sample_after_adds   each sample follows 16 new steps, whose adding is not timed; not for peers that draw batches ahead
prioritized         a prioritized sample and the update of its priorities
memory              bytes per stored step
fleet               samples while explorers add to the same buffer, ROWS steps per call; each is a stream of its own
prioritized_fleet   the same, with priorities
add                 adds ROWS steps per call, in turn with the same buffer without sequences
fleet_add           the same by explorers, beside a learner that draws from the buffer to which they add

Before anything is timed, a small buffer shows whether the peer keeps what its adapter states about its sequences
(`adapters.sequence_checks`), and the first batch of each figure is compared with the recording.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from adapters import registry
from adapters.base import Columns
from adapters.sequences import SequenceAdapter
from suites.runner import entry
from suites.runner.explorers import Shared, exploring, giving_up
from suites.runner.memory_use import in_use
from suites.runner.results import NotMeasured, Result, failure
from suites.runner.spent import SPENT
from suites.runner.timing import Stopwatch
from suites.runner.turns import OtherSideEndedError
from suites.runner.windows import WARM_SECONDS, Window, watch_window
from suites.sequences import adding
from suites.sequences.buffers import FullBuffer, check_contract
from suites.sequences.spec import (
    ADD,
    ADDS,
    AFTER_ADDS,
    FLEET_ADD,
    KINDS,
    MEMORY,
    PRIORITIZED,
    PROFILES,
    SAMPLE,
    SUITE,
    SequenceShape,
    SequencesJob,
)
from suites.workloads.priorities import priority_sets

SAMPLES_A_ROUND, FEWEST_ROUNDS = 10, 5  # of sample_after_adds
FLEET_SECONDS = 0.5  # at least
CHECKED_BATCHES = 100
SMALLER, FEWEST_STEPS = 16, 800  # the smaller buffer whose memory is compared


def measure(peer: str, jobs: Sequence[SequencesJob], watch: Stopwatch) -> Iterator[Result]:
    """Yield the figures of each job as soon as they are known. Jobs on the same buffer must be adjacent."""
    kind = registry.sequences_class(peer)
    for _, some in itertools.groupby(jobs, key=lambda job: job.buffer):
        for job, figures in on_one_buffer(kind, list(some), watch):
            watch.end()
            if isinstance(figures, OtherSideEndedError):
                continue
            for name in KINDS[job.kind]:
                result = Result(name, peer, job.workload, job.params, "ok")
                if isinstance(figures, Exception):
                    outcome, reason = failure(figures)
                    yield replace(result, outcome=outcome, reason=reason)
                else:
                    yield replace(result, value=figures[name])


def on_one_buffer(
    kind: type[SequenceAdapter], jobs: Sequence[SequencesJob], watch: Stopwatch
) -> Iterator[tuple[SequencesJob, dict[str, float] | Exception]]:
    """Yield each job with its figures by benchmark, or with the exception that was raised instead."""
    try:
        check_contract(kind, jobs[0].is_prioritized)
        if jobs[0].kind == MEMORY:
            yield jobs[0], {MEMORY: memory(kind, jobs[0])}
            return
        buffer = FullBuffer(kind, jobs[0])
    except Exception as error:
        yield from ((job, error) for job in jobs)
        return
    try:
        for job in jobs:
            try:
                yield job, _figures(buffer, job, watch)
            except Exception as error:
                yield job, error
    finally:
        buffer.close()


def _figures(buffer: FullBuffer, job: SequencesJob, watch: Stopwatch) -> dict[str, float]:
    with SPENT.on("check"):
        buffer.check(job.shape.sequences, job.shape.steps)
    if job.kind in ADDING:
        without = replace(job, shape=SequenceShape(0, 0))
        with closing(FullBuffer(type(buffer.adapter), without)) as plain:
            return dict(zip(KINDS[job.kind], ADDING[job.kind]((buffer, plain), job, watch), strict=True))
    if job.is_fleet:
        return dict(zip(KINDS[job.kind], fleet(buffer, job, watch.seconds), strict=True))
    return {job.kind: job.shape.sequences / BENCHMARKS[job.kind](buffer, job.shape.sequences, watch)}


# The benchmarks of one process. Each takes a full buffer, the sequences per batch and a stopwatch, and returns the
# seconds per batch.


def sample(buffer: FullBuffer, sequences: int, watch: Stopwatch) -> float:
    draw = buffer.adapter.sample

    def run(count: int) -> None:
        for _ in range(count):
            held = draw(sequences)  # noqa: F841 (a learner holds one batch while it samples the next)

    return watch.per_call(run)


def sample_after_adds(buffer: FullBuffer, sequences: int, watch: Stopwatch) -> float:
    """Raises `NotMeasured` if the peer draws batches ahead, while steps are added and the clock stands still."""
    if buffer.adapter.contract.batches_ahead:
        raise NotMeasured("its batches are drawn ahead, before the new steps are added")
    add, draw, new = buffer.adapter.add, buffer.adapter.sample, buffer.coming(ADDS)
    means: list[float] = []

    def run() -> None:
        spent = 0.0
        for columns in itertools.islice(new, SAMPLES_A_ROUND):
            add(columns)
            begin = time.perf_counter()
            held = draw(sequences)  # noqa: F841 (a learner holds one batch while it samples the next)
            spent += time.perf_counter() - begin
        means.append(spent / SAMPLES_A_ROUND)

    run()
    begin = time.perf_counter()
    run()
    rounds = watch.rounds(time.perf_counter() - begin, FEWEST_ROUNDS)
    means.clear()
    watch.per_round(run, rounds)
    return statistics.median(means)


def prioritized(buffer: FullBuffer, sequences: int, watch: Stopwatch) -> float:
    cycle = prioritized_cycle(buffer, sequences)

    def run(count: int) -> None:
        for _ in range(count):
            held = cycle()  # noqa: F841

    return watch.per_call(run)


def prioritized_cycle(buffer: FullBuffer, sequences: int) -> Callable[[], Columns]:
    draw, update, priorities = buffer.adapter.sample, buffer.adapter.update_priorities, priority_sets(sequences)

    def cycle() -> Columns:
        held = draw(sequences)
        update(held["indexes"], next(priorities))
        return held

    return cycle


BENCHMARKS: dict[str, Callable[[FullBuffer, int, Stopwatch], float]] = {
    SAMPLE: sample,
    AFTER_ADDS: sample_after_adds,
    PRIORITIZED: prioritized,
}

ADDING: dict[str, Callable[[adding.Arms, SequencesJob, Stopwatch], adding.Figures]] = {
    ADD: adding.alone,
    FLEET_ADD: adding.fleet,
}


def memory(kind: type[SequenceAdapter], job: SequencesJob) -> float:
    """Return the bytes per step: by how much the memory of a full buffer exceeds that of a smaller one, from each of
    which a batch was drawn."""
    small = replace(job, capacity=max(FEWEST_STEPS, job.capacity // SMALLER))
    used = {}
    for each in (small, small, job):  # the first buffer allocates what does not depend on the capacity
        with closing(FullBuffer(kind, each)) as buffer:
            buffer.check(job.shape.sequences, job.shape.steps)
            used[each.capacity] = in_use()
        del buffer
    return (used[job.capacity] - used[small.capacity]) / (job.capacity - small.capacity)


def fleet(buffer: FullBuffer, job: SequencesJob, seconds: float) -> tuple[float, float]:
    """Return the learner's sequences and the explorers' rows per second, in the same window. Batches that are sampled
    directly after it, while the explorers go on, are checked."""
    sequences = job.shape.sequences
    learn = prioritized_cycle(buffer, sequences) if job.is_prioritized else partial(buffer.adapter.sample, sequences)
    least = max(seconds, FLEET_SECONDS)
    window = Window(least, 2 * least)
    work = partial(explore, buffer, job)
    with giving_up(WARM_SECONDS + window.longest), exploring(work, job.explorers) as explorers, SPENT.on("measure"):
        explorers.learn(learn, WARM_SECONDS)
        done = watch_window(explorers, learn, window)
        for _ in range(CHECKED_BATCHES):
            buffer.check(sequences, job.shape.steps)
    return sequences * done.usual(lambda part: part.calls), done.usual(lambda part: part.added)


def explore(buffer: FullBuffer, job: SequencesJob, number: int, shared: Shared) -> None:
    """An explorer: adds the recording again and again. Each begins at another of its calls."""
    calls = [
        {name: column[at : at + job.rows] for name, column in buffer.steps.columns.items()}
        for at in range(0, buffer.steps.steps, job.rows)
    ]
    first = number * len(calls) // job.explorers
    add, counter, stop = buffer.adapter.add, shared.added[number], shared.stop
    shared.start()
    for columns in itertools.cycle([*calls[first:], *calls[:first]]):
        if stop.value:
            return
        add(columns)
        counter.value += job.rows


def options(parser: argparse.ArgumentParser) -> None:
    entry.add_jobs(parser, SequencesJob, "those of the profile quick")
    entry.add_seconds(parser, 0.25)
    entry.add_turns(parser)


def main() -> int:
    def figures(args: argparse.Namespace) -> Iterator[Result]:
        return measure(args.peer, args.jobs or PROFILES["quick"].alone, entry.stopwatch(args))

    return entry.main(SUITE, __doc__, options, figures, counts_time=True)


if __name__ == "__main__":
    sys.exit(main())
