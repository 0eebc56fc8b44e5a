"""A fleet: one learner, explorer processes that add prepared rows, and the work of each of them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from adapters.base import Adapter
from suites.runner.explorers import Explorers, Shared, exploring, next_slice
from suites.sharing.spec import SharingJob
from suites.workloads import Workload
from suites.workloads.priorities import priority_sets

LEARNER_BATCH = 32
WARM_SECONDS = 0.25
PART_SECONDS = 0.1  # length of a part of a window; each part has its own rate
ENOUGH_CALLS = 1_000  # of the learner
STARVED_SECONDS = 5.0  # an explorer that adds nothing for this long has starved


@dataclass(frozen=True)
class Window:
    """For how long a fleet is measured: at least `least` and at most `most` seconds. In between, the measurement ends
    once the learner has made `ENOUGH_CALLS` calls."""

    least: float  # seconds
    most: float

    @property
    def longest(self) -> float:
        """The upper limit in seconds, even if an explorer has added nothing."""
        return max(self.most, STARVED_SECONDS)


@dataclass
class ExplorerRows:
    """The rows that explorers add. It is a class because a process that is not forked receives it by pickling."""

    adapter: Adapter
    job: SharingJob
    recording: Workload
    calls: list = field(init=False)
    priorities: list = field(init=False)

    def __post_init__(self) -> None:
        batch = self.job.batch
        self.calls = self.recording.steps() if batch == 1 else self.recording.batches(batch)
        random = np.random.default_rng(3).uniform(0.01, 1.0, (len(self.calls), batch))
        self.priorities = random[:, 0].tolist() if batch == 1 else list(random)

    def add(self, some: slice) -> int:
        """Make these calls; return the number of rows added."""
        calls, priorities = self.calls[some], self.priorities[some]
        if not self.job.prioritized:
            (self.adapter.add if self.job.batch == 1 else self.adapter.add_batches)(calls)
        elif self.job.batch == 1:
            self.adapter.add_with_priorities(calls, priorities)
        else:
            for batch, fresh in zip(calls, priorities, strict=True):
                self.adapter.add_batch(batch._asdict(), fresh)
        return len(calls) * self.job.batch


def explore(rows: ExplorerRows, number: int, shared: Shared) -> None:
    """An explorer: makes all calls in order, again and again. Each explorer starts with a different call.

    Calls are made in groups, which are large enough that the loop around them costs next to nothing, and small enough
    that a blocked explorer's counter is up to date.
    """
    counter, stop = shared.added[number], shared.stop
    at, count = number * len(rows.calls) // rows.job.explorers, 1
    shared.start()
    while not stop.value:
        some = slice(at, min(at + count, len(rows.calls)))
        begin = time.perf_counter()
        added = rows.add(some)
        count = next_slice(count, time.perf_counter() - begin)
        counter.value += added
        at = some.stop % len(rows.calls)


@dataclass(frozen=True)
class WindowPart:
    """The work done in a part of the window."""

    seconds: float
    calls: int  # of the learner
    added: int


@dataclass(frozen=True)
class Work:
    """The work that explorers and learner did in a window."""

    parts: list[WindowPart]
    added: list[int]  # by explorer

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.parts)

    @property
    def calls(self) -> int:
        return sum(part.calls for part in self.parts)

    def usual(self, count: Callable[[WindowPart], int]) -> float:
        """The median rate per second over the parts, weighted by their duration.

        This is not the mean: if another program takes a core for a moment, a learner that was starved before can get
        access to the buffer, and a few such parts would dominate the mean (docs/measuring/sharing.md).
        """
        by_rate = sorted(self.parts, key=lambda part: count(part) / part.seconds)
        spent = itertools.accumulate(part.seconds for part in by_rate)
        middle = next(part for part, sofar in zip(by_rate, spent, strict=True) if 2 * sofar >= self.seconds)
        return count(middle) / middle.seconds


def watch(adapter: Adapter, job: SharingJob, recording: Workload, window: Window) -> Work:
    """Run `job.explorers` explorers alongside a learner for one window, after a warm-up."""
    with exploring(
        partial(explore, ExplorerRows(adapter, job, recording)), job.explorers, adapter.start_method, adapter.serve
    ) as explorers:
        learn = learner(adapter, job.prioritized)
        explorers.learn(learn, WARM_SECONDS)
        return watch_window(explorers, learn, window)


def learner(adapter: Adapter, prioritized: bool) -> Callable[[], object]:
    """Return a function that makes one call of the learner: a sample, or a prioritized sample and the update of its
    priorities."""
    sample = partial(adapter.sample, LEARNER_BATCH)
    if not prioritized:
        return sample
    update = adapter.update_priorities
    priorities = priority_sets(LEARNER_BATCH, seed=2)

    def cycle() -> object:
        batch = sample()
        update(batch["indexes"], next(priorities))
        return batch

    return cycle


def watch_window(explorers: Explorers, learn: Callable[[], object], window: Window) -> Work:
    """Measure one window, which is extended if the learner has made few calls or an explorer has added nothing."""
    parts: list[WindowPart] = []
    first = before = explorers.added()
    while True:
        took, calls = explorers.learn(learn, PART_SECONDS)
        now = explorers.added()
        parts.append(WindowPart(took, calls, sum(now) - sum(before)))
        before = now
        work = Work(parts, [late - early for late, early in zip(now, first, strict=True)])
        enough = work.calls >= ENOUGH_CALLS or work.seconds >= window.most
        if work.seconds >= window.least and enough and min(work.added):
            return work
        if work.seconds >= window.longest:
            return work
