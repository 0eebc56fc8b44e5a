"""Throughput of one process: single calls, a learner's whole step, and sampling as a learner does it.

    python -m suites.throughput --peer NAME [--job JOB ...] [--seconds S]

add, add_dicts, add_lists      adding transitions in the forms that a training loop may have
sample                         uniform sampling
prioritized                    a prioritized sample and the update of its priorities
learner_step                   some transitions added one by one, a prioritized sample, the update of its priorities
learner_step_uniform           the same on a uniform buffer, which has no priorities to update
sample_beside                  how long `sample` blocks a learner that works between samples
sample_held                    uniform sampling while the newest batches are kept
compressed_add, compressed_sample   adding and sampling when each frame is stored once

Buffers are full and wrap while they are timed, successive calls get different rows, and new priorities
always differ from the old ones. Each benchmark checks the peer's answers before it starts the clock, so a
wrong answer is never timed.
The timed loops call the peer directly, so that a figure includes hardly any overhead of the harness.
`test_benchmarks.py` runs the same benchmarks under pytest-benchmark.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from adapters import checks
from adapters.base import Adapter, Columns, Step
from suites import workloads
from suites.runner import entry
from suites.runner.results import NotMeasured, Result, failure
from suites.runner.timing import Stopwatch
from suites.runner.turns import OtherSideEndedError
from suites.throughput.buffers import STEPS_A_CALL, Buffers
from suites.throughput.spec import SUITE
from suites.throughput.tasks import USUAL, ThroughputJob
from suites.workloads import Workload
from suites.workloads.priorities import priority_sets

# Batches per call of an adapter, which loops over them, and the limit of their total size.
BATCHES_A_CALL, BYTES_A_CALL = 20, 1 << 20
LARGEST_LISTED_ROW = 1_000  # bytes
BESIDE_CALLS, BESIDE_ROUNDS = 10, 5  # calls per round, and the fewest rounds, of sample_beside
LEARNER_BYTES, LEARNER_PIECES = 8 << 20, 16  # the memory that the stand-in for a learner works on
CHECKED_ROWS = 32


def measure(peer: str, jobs: Sequence[ThroughputJob], watch: Stopwatch) -> Iterator[Result]:
    """Yield the figure of each job as soon as it is known. Jobs on the same buffer must be adjacent."""
    for _, some in itertools.groupby(jobs, key=lambda job: (job.workload, job.capacity)):
        adjacent = list(some)
        buffers = Buffers(peer, adjacent[0].workload, adjacent[0].capacity, adjacent[0].fill_seconds)
        for job in adjacent:
            result = Result(job.benchmark, peer, job.workload, job.params, "ok")
            try:
                result = replace(result, value=BENCHMARKS[job.benchmark](buffers, dict(job.task.sizes), watch))
            except KeyboardInterrupt:
                raise
            except OtherSideEndedError:
                continue
            except BaseException as error:  # a Rust panic is not an Exception
                outcome, reason = failure(error)
                result = replace(result, outcome=outcome, reason=reason)
            finally:
                watch.end()
            yield result
        try:
            buffers.close()
        except Exception as error:
            outcome, reason = failure(error)
            yield replace(result, outcome=outcome, reason=reason)


# The benchmarks. Each takes the buffers of a peer, the task's sizes and a stopwatch, and returns a figure.


def add(buffers: Buffers, sizes: dict[str, int], watch: Stopwatch) -> float:
    recording, batch, plain = buffers.recording, sizes["batch"], buffers.recording.is_plain
    if batch == 1:
        calls = zip(_over_and_over(buffers.steps, STEPS_A_CALL))
        form = buffers.uniform.add if plain else buffers.uniform.add_dicts
        return _time_adding(watch, buffers.known, buffers.uniform, form, calls, STEPS_A_CALL)
    at_once = _batches_a_call(recording, batch)
    calls = zip(_over_and_over(recording.batches(batch), at_once))
    form = buffers.uniform.add_batches if plain else buffers.uniform.add_columns
    return _time_adding(watch, buffers.known, buffers.uniform, form, calls, at_once * batch)


def add_dicts(buffers: Buffers, _sizes: dict[str, int], watch: Stopwatch) -> float:
    _require_steps(buffers.recording)
    calls = zip(_over_and_over([step._asdict() for step in buffers.steps], STEPS_A_CALL))
    return _time_adding(watch, buffers.known, buffers.uniform, buffers.uniform.add_dicts, calls, STEPS_A_CALL)


def add_lists(buffers: Buffers, sizes: dict[str, int], watch: Stopwatch) -> float:
    recording, batch = buffers.recording, sizes["batch"]
    _require_steps(recording)
    if recording.row_bytes > LARGEST_LISTED_ROW:
        raise NotMeasured(
            "nested lists are not measured for rows this large: no program holds whole frames as lists, and they take "
            "eight times the memory"
        )
    at_once = _batches_a_call(recording, batch)
    lists = [Step(*(column.tolist() for column in columns)) for columns in recording.batches(batch)]
    calls = zip(_over_and_over(lists, at_once))
    return _time_adding(watch, buffers.known, buffers.uniform, buffers.uniform.add_lists, calls, at_once * batch)


def sample(buffers: Buffers, sizes: dict[str, int], watch: Stopwatch) -> float:
    return _time_sampling(watch, buffers.known, buffers.uniform, sizes["batch"])


def prioritized(buffers: Buffers, sizes: dict[str, int], watch: Stopwatch) -> float:
    batch = sizes["batch"]
    sample, update = buffers.prioritized.sample, buffers.prioritized.update_priorities
    priorities = priority_sets(batch)

    def run(count: int) -> Columns:
        for fresh in itertools.islice(priorities, count):
            held = sample(batch)
            update(held["indexes"], fresh)
        return held

    buffers.known.check(run(1), batch)
    return watch.per_call(run)


def learner_step(buffers: Buffers, sizes: dict[str, int], watch: Stopwatch) -> float:
    _require_steps(buffers.recording)
    batch, step = sizes["batch"], buffers.prioritized.learner_step
    added, priorities = _over_and_over(buffers.steps, sizes["adds"]), priority_sets(batch)

    def run(count: int) -> Columns:
        for some, fresh in itertools.islice(zip(added, priorities, strict=True), count):
            held = step(some, batch, fresh)
        return held

    buffers.known.check(run(1), batch)
    return watch.per_call(run)


def learner_step_uniform(buffers: Buffers, sizes: dict[str, int], watch: Stopwatch) -> float:
    _require_steps(buffers.recording)
    batch, step, added = (
        sizes["batch"],
        buffers.uniform.learner_step_uniform,
        _over_and_over(buffers.steps, sizes["adds"]),
    )

    def run(count: int) -> Columns:
        for some in itertools.islice(added, count):
            held = step(some, batch)
        return held

    buffers.known.check(run(1), batch)
    return watch.per_call(run)


def sample_beside(buffers: Buffers, sizes: dict[str, int], watch: Stopwatch) -> float:
    batch, sample, work = sizes["batch"], buffers.uniform.sample, _stand_in(sizes["work_ms"] / 1_000)
    blocked: list[float] = []  # the mean per call of each round, since prefetched batches return at once

    def run() -> None:
        spent = 0.0
        for _ in range(BESIDE_CALLS):
            work()
            begin = time.perf_counter()
            held = sample(batch)  # noqa: F841 (a learner holds one batch while it samples the next)
            spent += time.perf_counter() - begin
        blocked.append(spent / BESIDE_CALLS)

    buffers.known.check(sample(batch), batch)
    begin = time.perf_counter()
    run()
    rounds = watch.rounds(time.perf_counter() - begin, BESIDE_ROUNDS)
    blocked.clear()
    watch.per_round(run, rounds)
    return statistics.median(blocked)


def sample_held(buffers: Buffers, sizes: dict[str, int], watch: Stopwatch) -> float:
    batch, sample = sizes["batch"], buffers.uniform.sample
    kept = collections.deque((sample(batch) for _ in range(sizes["held"])), maxlen=sizes["held"])
    for each in kept:
        buffers.known.check(each, batch)
    del each  # otherwise this batch would be kept, too

    def run(count: int) -> None:
        for _ in range(count):
            kept.append(sample(batch))

    return watch.per_call(run)


def compressed_add(buffers: Buffers, _sizes: dict[str, int], watch: Stopwatch) -> float:
    calls = zip(_over_and_over(buffers.frames.steps(), STEPS_A_CALL))
    compressed = buffers.compressed
    return _time_adding(watch, buffers.known_frames, compressed, compressed.add, calls, STEPS_A_CALL)


def compressed_sample(buffers: Buffers, sizes: dict[str, int], watch: Stopwatch) -> float:
    return _time_sampling(watch, buffers.known_frames, buffers.compressed, sizes["batch"])


BENCHMARKS: dict[str, Callable[[Buffers, dict[str, int], Stopwatch], float]] = {
    each.__name__: each
    for each in (
        *(add, add_dicts, add_lists, sample, prioritized, learner_step, learner_step_uniform, sample_beside),
        *(sample_held, compressed_add, compressed_sample),
    )
}


def _time_adding(
    watch: Stopwatch, known: checks.AddedRows, adapter: Adapter, add: Callable, calls: Iterator[tuple], rows: int
) -> float:
    """Return seconds per row. `calls` yields the arguments of successive calls of `add`, each of `rows` rows."""
    add(*next(calls))
    batch = adapter.sample(CHECKED_ROWS)
    known.check(batch, CHECKED_ROWS)
    if "indexes" in batch:
        adapter.update_priorities(batch["indexes"], np.ones(CHECKED_ROWS))

    def run(count: int) -> None:
        for arguments in itertools.islice(calls, count):
            add(*arguments)

    return watch.per_call(run) / rows


def _time_sampling(watch: Stopwatch, known: checks.AddedRows, adapter: Adapter, batch: int) -> float:
    sample = adapter.sample
    known.check(sample(batch), batch)

    def run(count: int) -> None:
        for _ in range(count):
            held = sample(batch)  # noqa: F841 (a learner holds one batch while it samples the next)

    return watch.per_call(run)


def _over_and_over(items: Sequence, at_once: int) -> Iterator[Sequence]:
    """Cycle through the items, `at_once` at a time; an incomplete last group is skipped."""
    starts = range(0, len(items) - at_once + 1, at_once)
    return itertools.cycle([items[at : at + at_once] for at in starts])


def _batches_a_call(recording: Workload, rows: int) -> int:
    return max(1, min(BATCHES_A_CALL, BYTES_A_CALL // (rows * recording.row_bytes)))


def _require_steps(recording: Workload) -> None:
    """Raise `NotMeasured` unless rows are steps: some forms of adding accept only a `Step`."""
    if not recording.is_plain:
        raise NotMeasured(f"the rows of {recording.name} are not single steps; `add` measures adding them as dicts")


def _stand_in(seconds: float) -> Callable[[], None]:
    """Return a function that works for `seconds` and reads 8 MB at least once, which evicts the buffer from the caches.

    Like a learner's matrix products, it releases the GIL in NumPy, so that threads of the peer can run.
    """
    pieces = np.ones(LEARNER_BYTES // 8).reshape(LEARNER_PIECES, -1)

    def work() -> None:
        end = time.perf_counter() + seconds
        for number in itertools.count():
            if number >= LEARNER_PIECES and time.perf_counter() >= end:
                return
            piece = pieces[number % LEARNER_PIECES]
            np.negative(piece, out=piece)

    return work


def usual_jobs() -> list[ThroughputJob]:
    rows = {name: workloads.usual_rows(name) for name in workloads.NAMES}
    return [ThroughputJob(task, workload, capacity) for workload, capacity in rows.items() for task in USUAL]


def options(parser: argparse.ArgumentParser) -> None:
    entry.add_jobs(parser, ThroughputJob, "the usual ones on every workload")
    entry.add_seconds(parser, 0.25)
    entry.add_turns(parser)


def main() -> int:
    def figures(args: argparse.Namespace) -> Iterator[Result]:
        return measure(args.peer, args.jobs or usual_jobs(), entry.stopwatch(args))

    return entry.main(SUITE, __doc__, options, figures, counts_time=True)


if __name__ == "__main__":
    sys.exit(main())
