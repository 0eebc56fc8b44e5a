"""Sharing: what a buffer that many processes use costs them, in loops so tight that nothing but the buffer is in them.

    python -m suites.sharing --peer NAME --job KIND:WORKLOAD:CAPACITY:BATCH:EXPLORERS ... [--seconds S] [--cells FILE]

crowd  explorer processes add prepared rows, so many a call, beside one learner that samples 32
step   one process adds so many rows to a prioritized buffer, samples 32 and updates their priorities
alone  one process adds and nobody else is there: what it costs that others could be

One launch measures one peer, each job on a buffer of its own that was filled once over. Answers are checked before
explorers start, and not while they add: that would slow the learner down, and whether rows are whole then is a
question of its own, which the integrity suite asks.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from adapters import registry
from adapters.base import Adapter, Spec, Step
from adapters.checks import AddedRows, check_priorities, check_round_trip
from suites import workloads
from suites.cells import Result, SharingJob, failure, hand_back
from suites.explorers import Explorers, Shared, exploring, giving_up, next_slice, prepare
from suites.filling import fill
from suites.workloads import Workload

LEARNER_BATCH = 32
STEPS_A_CALL = 64  # of an adapter, which loops over them
ROUND_SECONDS = 0.002
PRIORITY_SETS = 1_021  # prime, so that the cycle of sets never falls into step with anything
CHECKED = {"rows": 32, "batches": 100}
STARVED_SECONDS = 5.0  # who gets no turn for that long has starved


def launch(peer: str, jobs: Sequence[SharingJob], seconds: float) -> Iterator[Result]:
    """The figures of each job as soon as it has them."""
    for job in jobs:
        figures: dict[str, float | str] = {}
        outcome, reason = "ok", None
        try:
            with giving_up(10 * seconds + STARVED_SECONDS):
                figures = measure(peer, job, seconds)
        except Exception as error:
            outcome, reason = failure(error)
        for name in job.benchmarks:
            value = figures.get(name)
            mine = ("failed", None, value) if isinstance(value, str) else (outcome, value, reason)
            yield Result(name, peer, job.workload, job.params, *mine)


def measure(peer: str, job: SharingJob, seconds: float) -> dict[str, float | str]:
    """By benchmark, its figure or why it has none."""
    recording = workloads.load(job.workload)
    known = AddedRows(recording.columns, recording.fields)
    spec = Spec(job.capacity, recording.fields, prioritized=job.kind == "step")
    kind = registry.adapter_class(peer)
    kind.version()  # there is nothing to prepare if it can't be had
    prepare(kind.preload)
    make = kind.make
    if spec.prioritized:
        _check_draws(make, spec)
    adapter = make(spec)
    try:
        fill(adapter, spec, recording)
        check_round_trip(adapter, spec, known)
        return MEASURES[job.kind](adapter, job, recording, seconds)
    finally:
        adapter.close()


def _check_draws(make: Callable[[Spec], Adapter], spec: Spec) -> None:
    """On a small buffer: some peers need milliseconds for a draw from a large one."""
    small = Spec(4 * CHECKED["rows"], spec.fields, prioritized=True)
    adapter = make(small)
    try:
        check_priorities(adapter, small, **CHECKED)
    finally:
        adapter.close()


def _crowd(adapter: Adapter, job: SharingJob, recording: Workload, seconds: float) -> dict[str, float | str]:
    calls = recording.steps() if job.batch == 1 else recording.batches(job.batch)
    add = adapter.add if job.batch == 1 else adapter.add_batches
    with exploring(partial(explore, add, calls, job), job.explorers, adapter.start_method) as explorers:
        sample = partial(adapter.sample, LEARNER_BATCH)
        explorers.learn(sample, seconds / 4)
        return _watch(explorers, sample, seconds)


def explore(add: Callable[[Sequence[Step]], None], calls: Sequence[Step], job: SharingJob, number: int, shared: Shared):
    """An explorer: all of `calls` again and again, from a place of its own on.

    So many of them at a time that the loop around the peer's own calls costs next to nothing, and few enough that
    an explorer that waits for its turns is counted by what it has really added.
    """
    counter, stop = shared.added[number], shared.stop
    at, count = number * len(calls) // job.explorers, 1
    shared.start()
    while not stop.value:
        some = calls[at : at + count]
        begin = time.perf_counter()
        add(some)
        count = next_slice(count, time.perf_counter() - begin)
        counter.value += len(some) * job.batch
        at = (at + len(some)) % len(calls)


def _watch(explorers: Explorers, sample: Callable[[], object], seconds: float) -> dict[str, float | str]:
    """What explorers and learner do in so much time; a little longer where an explorer has not had a turn yet."""
    before, took, samples = explorers.added(), 0.0, 0
    while True:
        more, calls = explorers.learn(sample, seconds)
        took, samples = took + more, samples + calls
        added = [now - then for now, then in zip(explorers.added(), before, strict=True)]
        if min(added) or took > STARVED_SECONDS:
            break
    starved = f"{added.count(0)} of {len(added)} explorers could add nothing beside the learner in {took:.1f} s"
    return {
        "adds": sum(added) / took or starved,
        "samples": samples / took,
        "slowest": min(added) * len(added) / sum(added) if min(added) else starved,
    }


def _step(adapter: Adapter, job: SharingJob, recording: Workload, seconds: float) -> dict[str, float | str]:
    batches = itertools.cycle([batch._asdict() for batch in recording.batches(job.batch)])
    random = np.random.default_rng(1)
    priorities = itertools.cycle(list(random.uniform(0.01, 1.0, (PRIORITY_SETS, LEARNER_BATCH))))
    add, sample, update = adapter.add_batch, adapter.sample, adapter.update_priorities

    def run(count: int) -> None:
        for columns, fresh in itertools.islice(zip(batches, priorities, strict=True), count):
            add(columns)
            update(sample(LEARNER_BATCH)["indexes"], fresh)

    return {"step": median_seconds(run, seconds)}


def _alone(adapter: Adapter, job: SharingJob, recording: Workload, seconds: float) -> dict[str, float | str]:
    steps = recording.steps()
    calls = itertools.cycle([steps[at : at + STEPS_A_CALL] for at in range(0, len(steps), STEPS_A_CALL)])

    def run(count: int) -> None:
        for some in itertools.islice(calls, count):
            adapter.add(some)

    return {"add_alone": median_seconds(run, seconds) / STEPS_A_CALL}


MEASURES = {"crowd": _crowd, "step": _step, "alone": _alone}


def median_seconds(run: Callable[[int], None], seconds: float) -> float:
    """Of one call, where `run(n)` makes n of them: the median over rounds that take so long together."""
    calls, spent = 1, 0.0
    gc.disable()  # at random moments it is the harness's noise more than a peer's cost
    try:
        while spent < seconds / 10:
            calls = 2 * calls if spent else 1
            spent = _timed(run, calls)
        calls = max(1, round(ROUND_SECONDS * calls / spent))
        rounds: list[float] = []
        while sum(rounds) < seconds or len(rounds) < 3:
            rounds.append(_timed(run, calls))
        return statistics.median(rounds) / calls
    finally:
        gc.enable()


def _timed(run: Callable[[int], None], calls: int) -> float:
    start = time.perf_counter()
    run(calls)
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.sharing", description=__doc__.partition("\n")[0])
    known = tuple(dict.fromkeys([*registry.together(), *registry.alone()]))
    parser.add_argument("--peer", required=True, choices=known, metavar="NAME")
    parser.add_argument("--job", required=True, action="append", type=SharingJob.parse, metavar="JOB", dest="jobs")
    parser.add_argument("--seconds", type=float, default=0.5, help="on each job (default: %(default)s)")
    parser.add_argument("--cells", type=Path, help="append one JSON line a figure here instead of printing it")
    args = parser.parse_args()
    return hand_back(launch(args.peer, args.jobs, args.seconds), args.cells)


if __name__ == "__main__":
    sys.exit(main())
