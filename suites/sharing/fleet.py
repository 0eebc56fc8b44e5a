"""A fleet: one learner, explorer processes that add prepared rows, and the work of each of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from adapters.base import Adapter
from suites.runner.explorers import Shared, exploring, next_slice
from suites.runner.windows import WARM_SECONDS, Window, Work, watch_window
from suites.sharing.spec import SharingJob
from suites.workloads import Workload
from suites.workloads.priorities import priority_sets

LEARNER_BATCH = 32


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
