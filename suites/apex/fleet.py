"""The explorers and the learner of one job."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from adapters.base import Adapter, Array, Columns
from suites.apex.clocks import Durations, work
from suites.apex.playing import play
from suites.apex.spec import DQN, REAL, ApexJob
from suites.runner.explorers import Shared
from suites.workloads import Workload
from suites.workloads.priorities import priority_sets

LEARNER_BATCH = 64
PREPARED_ROWS = 10_000


@dataclass
class ExplorerFleet:
    """The state that an explorer needs. It is a class because a process that is not forked receives it by pickling."""

    adapter: Adapter
    job: ApexJob
    recording: Workload
    adds: list[Durations] = field(init=False)  # by explorer

    def __post_init__(self) -> None:
        self.adds = [Durations() for _ in range(self.job.explorers)]

    def explore(self, number: int, shared: Shared) -> None:
        """An explorer: steps its environment, and adds its rows with random priorities.

        Rows are counted when they are produced rather than when they are added, because an explorer with a slow
        environment adds rows only a few times in a short window. While it waits for the buffer, it produces no rows.
        """
        random = np.random.default_rng((number, os.getpid()))
        counter = shared.added[number]
        steps = self._really(number, counter) if self.job.step_us == REAL else self._prepared(number, counter)
        add, durations, rows = self.adapter.add_batch, self.adds[number], self.job.rows
        priorities = random.uniform(0.01, 1.0, (max(1, PREPARED_ROWS // rows), rows))
        clock, at = time.perf_counter_ns, 0
        shared.start()
        while not shared.stop.value:
            columns = next(steps)
            at = (at + 1) % len(priorities)
            begin = clock()
            add(columns, priorities[at])
            durations.add(clock() - begin)

    def _prepared(self, number: int, counter: ctypes.c_int64) -> Iterator[Columns]:
        """Yield recorded rows, after using CPU time for as many steps. Explorers begin at different rows."""
        rows, seconds = self.job.rows, self.job.step_us / 1e6
        usable = min(self.recording.transitions, PREPARED_ROWS) // rows * rows
        calls = [
            {name: column[at : at + rows] for name, column in self.recording.columns.items()}
            for at in range(0, usable, rows)
        ]
        at = number * len(calls) // self.job.explorers
        while True:
            if seconds:
                for _ in range(rows):
                    work(seconds)
                    counter.value += 1
            yield calls[at]
            if not seconds:
                counter.value += rows
            at = (at + 1) % len(calls)

    def _really(self, number: int, counter: ctypes.c_int64) -> Iterator[Columns]:
        """Yield rows of the real environment. The arrays are reused."""
        seed = int(np.random.SeedSequence((number, os.getpid())).generate_state(1)[0])
        transitions = play(self.job.workload, self.recording.stack, seed)
        columns = {
            key: np.empty((self.job.rows, *each.shape), each.dtype) for key, each in self.recording.fields.items()
        }
        while True:
            for row, transition in zip(range(self.job.rows), transitions, strict=False):
                for column, value in zip(columns.values(), transition, strict=True):
                    column[row] = value
                counter.value += 1
            yield columns


class TimedLearner:
    """The learner, in the launch's main process: samples, works, and updates priorities."""

    def __init__(
        self, adapter: Adapter, priorities_of: Callable[[Columns], Array], are_whole: Callable[[Columns], Array]
    ) -> None:
        self.adapter, self.priorities_of, self.are_whole = adapter, priorities_of, are_whole
        self.samples, self.updates = Durations(), Durations()
        self.checked = self.wrong = 0

    def step(self) -> Columns:
        clock = time.perf_counter_ns
        begin = clock()
        batch = self.adapter.sample(LEARNER_BATCH)
        self.samples.add(clock() - begin)
        priorities = self.priorities_of(batch)
        begin = clock()
        self.adapter.update_priorities(batch["indexes"], priorities)
        self.updates.add(clock() - begin)
        return batch

    def checked_step(self) -> None:
        """Take a step, and check each row: a row that is not whole was torn or never written."""
        whole = self.are_whole(self.step())
        self.checked += len(whole)
        self.wrong += int(np.count_nonzero(~whole))


def priorities_by(job: ApexJob) -> Callable[[Columns], Array]:
    """Return a function that does the learner's work on a batch and returns new priorities."""
    if job.work_us == DQN:
        return _dqn()
    fresh, seconds = priority_sets(LEARNER_BATCH, seed=2), job.work_us / 1e6

    def priorities_of(_batch: Columns) -> Array:
        if seconds:
            work(seconds)
        return next(fresh)

    return priorities_of


def _dqn() -> Callable[[Columns], Array]:
    """A DQN that learns from the rows of CartPole, as `make apex` does, with one-step targets."""
    import torch

    from suites.apex_dqn.dqn import DoubleDQN as Dqn
    from suites.apex_dqn.dqn import Network
    from suites.apex_dqn.settings import TrainingSettings

    torch.set_num_threads(1)
    settings = TrainingSettings(batch=LEARNER_BATCH)
    dqn = Dqn(Network((4,), 2, settings.hidden), settings)

    def priorities_of(batch: Columns) -> Array:
        discount = settings.gamma * (1 - batch["done"].astype(np.float32))
        return dqn.step({**batch, "discount": discount})

    return priorities_of
