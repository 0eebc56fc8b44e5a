"""Sharing: the cost of a buffer that many processes use, in tight loops that make only buffer calls.

    python -m suites.sharing --peer NAME --job JOB ... [--seconds S] [--cells FILE]

fleet              explorer processes add prepared rows, BATCH per call, alongside one learner that samples 32
prioritized_fleet  the same with a priority for each row; the learner samples 32 and updates their priorities
step               one process adds BATCH rows to a prioritized buffer, samples 32 and updates their priorities
alone              one process adds, and no other process uses the buffer: the overhead of a buffer that can be shared

One launch measures one peer. Each job uses its own buffer, which is filled first. Answers are checked before the
explorers start, but not while they add, since that would slow the learner down. The integrity suite checks whether rows
stay intact while explorers add.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from adapters import registry
from adapters.base import Adapter, Spec
from adapters.checks import AddedRows, check_priorities, check_round_trip
from suites import workloads
from suites.runner import entry
from suites.runner.explorers import giving_up, prepare
from suites.runner.filling import fill
from suites.runner.results import Result, failure
from suites.runner.timing import Stopwatch
from suites.runner.turns import OtherSideEndedError
from suites.runner.windows import Window
from suites.sharing.fleet import LEARNER_BATCH, watch
from suites.sharing.spec import KINDS, SUITE, SharingJob
from suites.workloads import Workload
from suites.workloads.priorities import priority_sets

STEPS_A_CALL = 64  # steps per call of an adapter, which loops over them
FILL_SECONDS = 30.0
CHECKED = {"rows": 32, "batches": 100}


class Rate(NamedTuple):
    """A rate of the learner."""

    value: float
    calls: int  # the number of calls from which it was computed


Figures = dict[str, float | Rate | str]  # by benchmark; a string says why there is no figure


def measure(peer: str, jobs: Sequence[SharingJob], window: Window, stopwatch: Stopwatch) -> Iterator[Result]:
    """Yield the figures of each job as soon as they are known."""
    for job in jobs:
        figures: Figures = {}
        outcome, reason = "ok", None
        try:
            with giving_up(FILL_SECONDS + 2 * window.longest):
                figures = _measure(peer, job, window, stopwatch)
        except OtherSideEndedError:
            continue
        except Exception as error:
            outcome, reason = failure(error)
        finally:
            stopwatch.end()
        for name in job.benchmarks:
            figure = figures.get(name)
            calls = figure.calls if isinstance(figure, Rate) else None
            value = figure.value if isinstance(figure, Rate) else figure
            mine = ("failed", None, value) if isinstance(value, str) else (outcome, value, reason)
            yield Result(name, peer, job.workload, job.params, *mine, calls=calls)


def _measure(peer: str, job: SharingJob, window: Window, stopwatch: Stopwatch) -> Figures:
    """Return the figure of each benchmark, or the reason why there is none."""
    recording = workloads.load(job.workload)
    known = AddedRows(recording.columns, recording.fields)
    spec = Spec(job.capacity, recording.fields, prioritized=job.prioritized)
    kind = registry.adapter_class(peer)
    kind.version()  # raises if the peer is not available
    prepare(kind.preload)
    make = kind.make
    if spec.prioritized:
        _check_draws(make, spec)
    adapter = make(spec)
    try:
        fill(adapter, spec, recording, FILL_SECONDS)
        check_round_trip(adapter, spec, known)
        if job.kind in ALONE:
            return ALONE[job.kind](adapter, job, recording, stopwatch)
        return fleet_figures(adapter, job, recording, window)
    finally:
        adapter.close()


def _check_draws(make: Callable[[Spec], Adapter], spec: Spec) -> None:
    """Check samples from a small buffer, since some peers take milliseconds to sample from a large one."""
    small = Spec(4 * CHECKED["rows"], spec.fields, prioritized=True)
    adapter = make(small)
    try:
        check_priorities(adapter, small, **CHECKED)
    finally:
        adapter.close()


def fleet_figures(adapter: Adapter, job: SharingJob, recording: Workload, window: Window) -> Figures:
    work = watch(adapter, job, recording, window)
    starved = (
        f"{work.added.count(0)} of {len(work.added)} explorers added no rows in {work.seconds:.1f} s "
        "while the learner ran"
    )
    figures = [
        work.usual(lambda part: part.added) or (sum(work.added) / work.seconds) or starved,
        Rate(work.usual(lambda part: part.calls), work.calls),
        min(work.added) * len(work.added) / sum(work.added) if min(work.added) else starved,
    ]
    return dict(zip(KINDS[job.kind], figures, strict=True))


def _step(adapter: Adapter, job: SharingJob, recording: Workload, stopwatch: Stopwatch) -> Figures:
    batches = itertools.cycle([batch._asdict() for batch in recording.batches(job.batch)])
    priorities = priority_sets(LEARNER_BATCH)
    add, sample, update = adapter.add_batch, adapter.sample, adapter.update_priorities

    def run(count: int) -> None:
        for columns, fresh in itertools.islice(zip(batches, priorities, strict=True), count):
            add(columns)
            update(sample(LEARNER_BATCH)["indexes"], fresh)

    return {"step": stopwatch.per_call(run)}


def _alone(adapter: Adapter, job: SharingJob, recording: Workload, stopwatch: Stopwatch) -> Figures:
    steps = recording.steps()
    calls = itertools.cycle([steps[at : at + STEPS_A_CALL] for at in range(0, len(steps), STEPS_A_CALL)])

    def run(count: int) -> None:
        for some in itertools.islice(calls, count):
            adapter.add(some)

    return {"add_alone": stopwatch.per_call(run) / STEPS_A_CALL}


#: Kinds of jobs with one process; the others are fleets.
ALONE = {"step": _step, "alone": _alone}


def options(parser: argparse.ArgumentParser) -> None:
    entry.add_jobs(parser, SharingJob)
    entry.add_seconds(parser, 0.5)
    most = "limit of the time per job until its learner has made 1,000 calls; default: %(default)s"
    parser.add_argument("--most-seconds", type=float, default=2.0, help=most)
    entry.add_turns(parser)


def main() -> int:
    def figures(args: argparse.Namespace) -> Iterator[Result]:
        return measure(args.peer, args.jobs, Window(args.seconds, args.most_seconds), entry.stopwatch(args))

    known = list(dict.fromkeys([*registry.together(), *registry.alone()]))
    return entry.main(SUITE, __doc__, options, figures, peers=known)


if __name__ == "__main__":
    sys.exit(main())
