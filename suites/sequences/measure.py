"""Sequences: how many sequences of consecutive steps a buffer returns per second, each peer in its own way.

    python -m suites.sequences --peer NAME [--job JOB ...] [--seconds S]

sample              from a full buffer, at rest
sample_after_adds   each sample follows 16 new steps, whose adding is not timed
prioritized         a prioritized sample and the update of its priorities

Before anything is timed, a small buffer shows whether the peer keeps what its adapter states about its sequences
(`adapters.sequence_checks`), and the first batch of each figure is compared with the recording.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from adapters import registry, sequence_checks
from adapters.base import Columns
from adapters.sequence_checks import NumberedSteps
from adapters.sequences import SequenceAdapter, SequenceSpec
from suites import workloads
from suites.runner import entry
from suites.runner.filling import TooSlow
from suites.runner.results import Result, failure
from suites.runner.spent import SPENT
from suites.runner.timing import Stopwatch
from suites.sequences.spec import ADDS, AFTER_ADDS, PRIORITIZED, PROFILES, SAMPLE, SUITE, WORKLOAD, SequencesJob
from suites.workloads.priorities import priority_sets

STEPS_A_CALL = 800  # as ADDS, a divisor of the recording
SAMPLES_A_ROUND, FEWEST_ROUNDS = 10, 5  # of sample_after_adds


def measure(peer: str, jobs: Sequence[SequencesJob], watch: Stopwatch) -> Iterator[Result]:
    """Yield the figure of each job as soon as it is known. Jobs on the same buffer must be adjacent."""
    kind, steps = registry.sequences_class(peer), recorded_steps()
    for _, some in itertools.groupby(jobs, key=lambda job: job.buffer):
        for job, figure in on_one_buffer(kind, list(some), steps, watch):
            result = Result(job.benchmark, peer, WORKLOAD, job.params, "ok")
            if isinstance(figure, Exception):
                outcome, reason = failure(figure)
                yield replace(result, outcome=outcome, reason=reason)
            else:
                yield replace(result, value=figure)


def on_one_buffer(
    kind: type[SequenceAdapter], jobs: Sequence[SequencesJob], steps: NumberedSteps, watch: Stopwatch
) -> Iterator[tuple[SequencesJob, float | Exception]]:
    """Yield each job with its sequences per second, or with the exception that was raised instead."""
    try:
        check_contract(kind, jobs[0].is_prioritized)
        buffer = FullBuffer(kind, jobs[0], steps)
    except Exception as error:
        yield from ((job, error) for job in jobs)
        return
    try:
        for job in jobs:
            try:
                yield job, _speed(buffer, job, watch)
            except Exception as error:
                yield job, error
    finally:
        buffer.close()


def _speed(buffer: FullBuffer, job: SequencesJob, watch: Stopwatch) -> float:
    with SPENT.on("check"):
        buffer.check(job.shape.sequences, job.shape.steps)
    return job.shape.sequences / BENCHMARKS[job.benchmark](buffer, job.shape.sequences, watch)


@functools.cache
def recorded_steps() -> NumberedSteps:
    """Return the recording as one stream that can be repeated: its last step ends an episode."""
    columns = {name: column[:, None] for name, column in workloads.load(WORKLOAD).columns.items()}
    columns["done"] = columns["done"].copy()
    columns["done"][-1] = True
    return NumberedSteps(columns, workloads.load(WORKLOAD).fields)


@functools.cache
@SPENT.on("check")
def check_contract(kind: type[SequenceAdapter], prioritized: bool) -> None:
    sequence_checks.check(kind, prioritized=prioritized)


class FullBuffer:
    """A full buffer of a peer, to which the recording is added again and again, as one stream."""

    @SPENT.on("fill")
    def __init__(self, kind: type[SequenceAdapter], job: SequencesJob, steps: NumberedSteps) -> None:
        """Raises `TooSlow` if filling takes longer than the job's limit, counted from the end of the first call, in
        which a peer may compile."""
        shape = job.shape
        spec = SequenceSpec(
            job.capacity, steps.fields, shape.steps - shape.burn_in, shape.burn_in, prioritized=job.is_prioritized
        )
        self.adapter, self.steps, self._at = kind.make(spec), steps, 0
        try:
            self._fill(job)
        except BaseException:
            self.close()
            raise

    def _fill(self, job: SequencesJob) -> None:
        begin = None
        for _, columns in zip(range(0, job.capacity + 1, STEPS_A_CALL), self.coming(STEPS_A_CALL), strict=False):
            self.adapter.add(columns)
            begin = begin or time.monotonic()
            if time.monotonic() - begin > job.fill_seconds:
                raise TooSlow(f"too slow for {job.capacity:,} steps: not full after {job.fill_seconds:g} s")

    def coming(self, steps: int) -> Iterator[Columns]:
        """Generate the next steps to add, so many at a time, without end. The recording has a multiple of them."""
        while True:
            at, self._at = self._at, (self._at + steps) % self.steps.steps
            yield {name: column[at : at + steps] for name, column in self.steps.columns.items()}

    def check(self, sequences: int, length: int) -> None:
        """Check a batch. Raises `WrongAnswer`."""
        self.steps.check(self.adapter.sequences, self.adapter.sample(sequences), sequences, length)

    def close(self) -> None:
        self.adapter.close()


# The benchmarks. Each takes a full buffer, the sequences per batch and a stopwatch, and returns the seconds per batch.


def sample(buffer: FullBuffer, sequences: int, watch: Stopwatch) -> float:
    draw = buffer.adapter.sample

    def run(count: int) -> None:
        for _ in range(count):
            held = draw(sequences)  # noqa: F841 (a learner holds one batch while it samples the next)

    return watch.per_call(run)


def sample_after_adds(buffer: FullBuffer, sequences: int, watch: Stopwatch) -> float:
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
    draw, update, priorities = buffer.adapter.sample, buffer.adapter.update_priorities, priority_sets(sequences)

    def run(count: int) -> None:
        for fresh in itertools.islice(priorities, count):
            held = draw(sequences)
            update(held["indexes"], fresh)

    return watch.per_call(run)


BENCHMARKS: dict[str, Callable[[FullBuffer, int, Stopwatch], float]] = {
    SAMPLE: sample,
    AFTER_ADDS: sample_after_adds,
    PRIORITIZED: prioritized,
}


def options(parser: argparse.ArgumentParser) -> None:
    entry.add_jobs(parser, SequencesJob, "those of the profile quick")
    entry.add_seconds(parser, 0.25)


def main() -> int:
    def figures(args: argparse.Namespace) -> Iterator[Result]:
        return measure(args.peer, args.jobs or PROFILES["quick"].jobs, Stopwatch(args.seconds))

    return entry.main(SUITE, __doc__, options, figures, counts_time=True)


if __name__ == "__main__":
    sys.exit(main())
