"""Ape-X: explorer processes that fill a shared buffer while one learner samples it and sets priorities.

    python -m suites.apex --peer NAME [--job JOB ...] [--seconds S]

One launch measures one peer; its jobs share one buffer, which is filled first. Before each timed window every sampled
row is checked: CartPole's dynamics are deterministic, so a row that mixes two writers' rows, or was never written, is
detected. On Seaquest, only the frames are checked, since successive stacks overlap. The number of rows checked is a
separate figure, `whole`, whose status is `wrong` if any row was broken. The other figures are measured even in that
case.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from adapters import registry
from adapters.base import Adapter, Spec
from suites import workloads
from suites.apex.clocks import CpuTime, ThreadTimes, blocked
from suites.apex.fleet import LEARNER_BATCH, ExplorerFleet, TimedLearner, priorities_by
from suites.apex.playing import check_of
from suites.apex.spec import ALL, PERCENTILES, REAL, SUITE, WORKLOAD, ApexJob
from suites.runner import entry
from suites.runner.explorers import Explorers, exploring, giving_up, prepare
from suites.runner.filling import fill
from suites.runner.jobs import encoded
from suites.runner.memory_use import in_use
from suites.runner.results import NotMeasured, Outcome, Result, failure
from suites.workloads.recipes import RECIPES

JOB = ApexJob(WORKLOAD, explorers=4, rows=100, capacity=10_000, step_us=REAL, work_us=0)
FILL_SECONDS = 60.0
STARVED_SECONDS = 5.0  # a window in which no explorer adds anything is prolonged up to this length
NEW_ROWS = 1_000  # added by explorers before rows are checked, since a single process filled the buffer
CHECKED_SHARE, WARM_SHARE = 0.5, 0.125  # of the window's length, spent before it
HUGE, SMALL = 1e12, 0.01  # a priority that makes almost every draw return its row, and one for rows drawn earlier
TRIALS, MOST_SAMPLES = 10, 200  # per figure of staleness; samples after which a trial gives up

Figure = tuple[Outcome, float | None, str | None]  # outcome, value, and the reason if there is no value or it is wrong
Figures = dict[str, Figure]


def measure(peer: str, jobs: Sequence[ApexJob], seconds: float) -> Iterator[Result]:
    """Yield the figures of each job as soon as they are known. A buffer that failed once is not used again."""
    missing: Figure = "failed", None, None
    try:
        adapter = _make(peer, jobs)
    except Exception as error:
        missing = _figure(failure(error))
        adapter = None
    try:
        for job in jobs:
            figures: Figures = {}
            number: dict[str, int] = {}
            if adapter is not None:
                try:
                    with giving_up(3 * seconds + STARVED_SECONDS):
                        _measure(figures, number, adapter, job, seconds, last=job == jobs[-1])
                except Exception as error:
                    missing = _figure(failure(error))
                    if missing[0] != "skipped":
                        _close(adapter)
                        adapter = None
            for name in job.benchmarks(last=job == jobs[-1]):
                figure = figures.get(name, missing)
                yield Result(name, peer, job.workload, job.params, *figure, calls=number.get(name))
    finally:
        if adapter is not None:
            adapter.close()


def _figure(found: tuple[Outcome, str]) -> Figure:
    outcome, reason = found
    return outcome, None, reason


def _close(adapter: Adapter) -> None:
    """Close a buffer that has failed; a second failure is only printed."""
    try:
        adapter.close()
    except Exception as error:
        print(f"closing failed as well: {error}", file=sys.stderr)


def _make(peer: str, jobs: Sequence[ApexJob]) -> Adapter:
    kind, job = registry.adapter_class(peer), jobs[0]  # all jobs use the same buffer and cores
    kind.version()  # raises if the peer is not available
    if job.cores != ALL:  # before any process or thread is started
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job.cores])
    if any(each.step_us == REAL for each in jobs):
        RECIPES[job.workload].make().close()  # imports its libraries once, rather than in each explorer
    prepare(kind.preload)
    recording = workloads.load(job.workload)
    spec = Spec(job.capacity, recording.fields, prioritized=True)
    adapter = kind.make(spec)
    try:
        with giving_up(FILL_SECONDS):
            fill(adapter, spec, recording, FILL_SECONDS)
    except BaseException:
        _close(adapter)
        raise
    return adapter


def _measure(
    figures: Figures, number: dict[str, int], adapter: Adapter, job: ApexJob, seconds: float, last: bool
) -> None:
    """Store figures in `figures` one by one, so that figures measured before a failure are kept. `number` receives the
    number of calls behind each percentile."""
    fleet = ExplorerFleet(adapter, job, workloads.load(job.workload))
    are_whole, named = check_of(fleet.recording)
    learner = TimedLearner(adapter, priorities_by(job), are_whole)
    with exploring(fleet.explore, job.explorers, adapter.start_method, adapter.serve) as explorers:
        explorers.wait_for(NEW_ROWS)
        explorers.learn(learner.checked_step, CHECKED_SHARE * seconds)
        figures["whole"] = _whole(learner, named)
        explorers.learn(learner.step, WARM_SHARE * seconds)
        _window(figures, number, explorers, fleet, learner, seconds)
        if last:
            figures["memory"] = "ok", in_use(), None
    if last:
        figures["staleness"] = _staleness(adapter)


def _whole(learner: TimedLearner, named: str) -> Figure:
    if not learner.wrong:
        return "ok", learner.checked, None
    found = f"{learner.wrong} of {learner.checked} sampled rows are not {named}: torn or never written"
    return "wrong", learner.checked, found


def _window(
    figures: Figures,
    number: dict[str, int],
    explorers: Explorers,
    fleet: ExplorerFleet,
    learner: TimedLearner,
    seconds: float,
) -> None:
    durations = {"add": fleet.adds, "sample": [learner.samples], "update": [learner.updates]}
    calls = {name: [each.calls for each in kept] for name, kept in durations.items()}
    processes = [process.pid for process in explorers.processes.values() if process.pid is not None]
    # Slow readings are made first and last, with their own time stamps: on a busy machine, they take tens of ms.
    cpu = CpuTime.now()
    theirs, ours, rows = [ThreadTimes.by(each) for each in processes], ThreadTimes.by(os.getpid()), explorers.added()
    took, steps = 0.0, 0
    while not took or (sum(explorers.added()) == sum(rows) and took < STARVED_SECONDS):
        again, more = explorers.learn(learner.step, seconds)
        took, steps = took + again, steps + more
    added = [now - then for now, then in zip(explorers.added(), rows, strict=True)]
    learner_blocked = blocked(ours, ThreadTimes.by(os.getpid()))
    explorers_blocked = [blocked(spent, ThreadTimes.by(each)) for each, spent in zip(processes, theirs, strict=True)]
    cores = CpuTime.now().cores_since(cpu)

    total = sum(added)
    starved = f"no explorer could add a single batch within {took:.1f} s while the learner ran"
    figures["explorers"] = ("ok", total / took, None) if total else ("failed", None, starved)
    figures["cpu"] = ("ok", cores * took / total, None) if total else ("failed", None, starved)
    figures["slowest"] = ("ok", min(added) * len(added) / total, None) if total else ("failed", None, starved)
    figures["learner"] = "ok", steps / took, None
    figures["learner_blocked"] = "ok", learner_blocked, None
    figures["explorers_blocked"] = "ok", float(np.mean(explorers_blocked)), None
    for name, kept in durations.items():
        made = np.concatenate([each.since(known) for each, known in zip(kept, calls[name], strict=True)])
        for percentile, percent in PERCENTILES.items():
            figure: Figure = "failed", None, f"no call of {name} ended within {took:.1f} s"
            if len(made):
                figure = "ok", float(np.percentile(made, percent)) / 1e9, None
            figures[f"{name}_{percentile}"], number[f"{name}_{percentile}"] = figure, len(made)


def _staleness(adapter: Adapter) -> Figure:
    """Measure how many samples a new priority does not affect, because the buffer had already prefetched them. A row
    gets a huge priority, so the first sample drawn with this priority contains the row. As in training, all of the
    sample's indexes are passed: given only some of them, a buffer may be unable to tell which sample they belong to,
    and may refuse the update in case it comes too late."""
    worst = 0
    for _ in range(TRIALS):
        indexes = adapter.sample(LEARNER_BATCH)["indexes"]
        chosen = indexes[0]
        adapter.update_priorities(indexes, np.where(indexes == chosen, HUGE, SMALL))
        samples = (adapter.sample(LEARNER_BATCH)["indexes"] for _ in range(MOST_SAMPLES))
        stale = sum(1 for _ in itertools.takewhile(lambda drawn: chosen not in drawn, samples))  # noqa: B023
        if stale == MOST_SAMPLES:
            raise NotMeasured(f"a new priority had no effect within {MOST_SAMPLES} samples")
        worst = max(worst, stale)
        adapter.update_priorities(indexes, np.full(len(indexes), SMALL))
    return "ok", worst, None


def main() -> int:
    def options(parser: argparse.ArgumentParser) -> None:
        entry.add_jobs(parser, ApexJob, encoded(JOB))
        entry.add_seconds(parser)

    return entry.main(SUITE, __doc__, options, lambda args: measure(args.peer, args.jobs or [JOB], args.seconds))


if __name__ == "__main__":
    sys.exit(main())
