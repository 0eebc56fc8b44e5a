"""The work of explorers and the learner in the integrity suite."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count, cycle, repeat

import numpy as np

from adapters.base import Adapter, Columns
from suites.integrity import certified
from suites.integrity.spec import IntegritySettings
from suites.runner.explorers import START_PATIENCE, Explorers, Shared
from suites.runner.results import Stuck

BATCH = 32
MOST_ROWS = 16  # per call
PREPARED = 4_096  # rows that a racing explorer adds repeatedly: making them takes longer than adding them
MOMENT = 0.002  # seconds of learning between checks of the explorers' progress


def hammer(adapter: Adapter, rows: int, waits: bool, number: int, shared: Shared) -> None:
    """An explorer that adds the same rows repeatedly, `rows` per call."""
    batches = list(_batches(number + 1, np.arange(PREPARED), repeat(rows)))
    counter, stop = shared.added[number], shared.stop
    if waits:
        shared.start()
    for columns, priorities in cycle(batches):
        if stop.value:
            return
        adapter.add_batch(columns, priorities)
        counter.value += len(priorities)


def fill(adapter: Adapter, setting: IntegritySettings, number: int, shared: Shared) -> None:
    """An explorer that adds its share of the ring's capacity, waits, and repeats this with other rows."""
    random = np.random.default_rng((setting.seed, number))
    share = setting.capacity // setting.explorers
    for turn in count():
        try:
            shared.start()
        except threading.BrokenBarrierError:  # the learner has finished
            return
        sizes = (int(random.integers(1, MOST_ROWS + 1)) for _ in count())
        for columns, priorities in _batches(number + 1, np.arange(turn * share, (turn + 1) * share), sizes):
            adapter.add_batch(columns, priorities)
        shared.added[number].value += share


def rows_per_call(capacity: int, turn: int) -> int:
    """Return how many rows every call of the explorers adds: a number that divides the capacity and varies with `turn`.

    As a result, no call wraps around the end of the ring. Some libraries give wrong priorities to rows that wrap
    around, even in a single process. The conformance suite finds this error, which has nothing to do with sharing.
    """
    return math.gcd(capacity, MOST_ROWS >> turn % MOST_ROWS.bit_length())


def _batches(writer: int, numbers: np.ndarray, sizes: Iterator[int]) -> Iterator[tuple[Columns, np.ndarray]]:
    """Yield these rows with their priorities, a few rows at a time."""
    rows, priorities = certified.rows(writer, numbers), certified.priorities(writer, numbers)
    first = 0
    while first < len(numbers):
        some = slice(first, first := first + next(sizes))
        yield {name: column[some] for name, column in rows.items()}, priorities[some]


class CheckingLearner:
    """Samples rows, sets the priority that belongs to each, and counts the faults that it finds."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.read = self.torn = self.unwritten = self.weighed = self.stale = 0

    def step(self) -> tuple[certified.Reading, np.ndarray]:
        batch = self.adapter.sample(BATCH)
        reading = certified.read(batch)
        weights, indexes = np.array(batch["weights"]), np.array(batch["indexes"]).reshape(-1)  # copies
        # A torn row's own priority is unknown.
        mine = certified.priorities(reading.writer[reading.whole], reading.number[reading.whole])
        if len(mine):
            self.adapter.update_priorities(indexes[reading.whole], mine)
        self.read += BATCH
        self.torn += int(reading.torn.sum())
        self.unwritten += int(reading.unwritten.sum())
        self.weighed += len(mine)
        self.stale += int(certified.stale(reading, weights).sum())
        return reading, indexes


def learn_until(done: Callable[[], bool], explorers: Explorers, learner: CheckingLearner) -> None:
    deadline = time.monotonic() + START_PATIENCE
    while not done():
        explorers.learn(learner.step, MOMENT)
        if time.monotonic() > deadline:
            raise Stuck(f"explorers did not add their rows within {START_PATIENCE:.0f} s")


def settle(learner: CheckingLearner, writers: np.ndarray, numbers: np.ndarray) -> tuple[int, int]:
    """Return how many of these rows cannot be drawn, and how many are stored more than once, while no process adds."""
    places: dict[tuple[int, int], set[int]] = {
        each: set() for each in zip(writers.tolist(), numbers.tolist(), strict=True)
    }
    for _ in range(learner.adapter.contract.batches_ahead):
        learner.step()
    # The probability that all of these draws miss the row that is drawn least often is one in a billion.
    draws = certified.priorities(writers, numbers).sum() * math.log(1e9 * len(numbers))
    for _ in range(math.ceil(draws / BATCH)):
        reading, indexes = learner.step()
        whole = reading.whole
        for writer, number, index in zip(
            reading.writer[whole].tolist(), reading.number[whole].tolist(), indexes[whole].tolist(), strict=True
        ):
            if (writer, number) in places:
                places[writer, number].add(index)
        if all(places.values()):  # the rows fill the buffer: if all are stored, none is stored twice
            break
    return sum(not found for found in places.values()), sum(len(found) > 1 for found in places.values())
