"""The same model as a discrete-event simulation in SimPy: processes take slices of a core in turn, and a lock in order
of arrival. Unlike mean-value analysis, it needs no assumption about averages."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

import simpy

from reports.queueing.model import Costs, Crowd, Rates

SLICE = 0.001  # seconds that a process runs before another one that is ready takes its core
CYCLES = 100  # of the slower side, after a quarter as many to warm up
MOST_EVENTS = 200_000


class _Process:
    """Keeps its core until its slice is over and another process is ready, or until it has to wait. The next one to run
    is that which has run least, as in Linux; one that wakes up counts as having run as long as the others."""

    def __init__(self, environment: simpy.Environment, cores: simpy.PriorityResource, least: list[float]) -> None:
        self._environment, self._cores, self._least = environment, cores, least
        self._core: Any = None
        self._left = self._used = 0.0

    def run(self, seconds: float) -> Generator[Any, Any, None]:
        """Use a core for this long."""
        while seconds > 0:
            if self._core is None:
                self._used = max(self._used, self._least[0] - SLICE)
                self._core, self._left = self._cores.request(self._used), SLICE
                yield self._core
                self._least[0] = max(self._least[0], self._used)
            spent = min(seconds, self._left)
            yield self._environment.timeout(spent)
            seconds, self._left, self._used = seconds - spent, self._left - spent, self._used + spent
            if self._left <= 0:
                if self._cores.queue:
                    self.sleep()
                else:
                    self._left = SLICE

    def sleep(self) -> None:
        """Give up the core, unless that has happened at the end of a slice."""
        if self._core is not None:
            self._cores.release(self._core)
            self._core = None


def simulate(costs: Costs, crowd: Crowd, seed: int = 0) -> Rates:
    """Return the rates over a simulated time in which about CYCLES cycles of the slower side end."""
    environment, chance = simpy.Environment(), random.Random(seed)
    cores, exclusive = simpy.PriorityResource(environment, crowd.cores), simpy.Resource(environment, 1)
    ended, least = {"explorer": 0, "learner": 0}, [0.0]  # the least that a process has run
    asleep = {"explorer": 0.0, "learner": 0.0}

    def cycle(kind: str, free: float, alone: float) -> Generator[Any, Any, None]:
        process = _Process(environment, cores, least)
        taken_in = 0  # calls of explorers whose rows the learner has taken in
        while True:
            extra = 0.0
            if kind == "learner":
                new = min(crowd.capacity, crowd.rows * (ended["explorer"] - taken_in))
                extra, taken_in = costs.row * new, ended["explorer"]
            yield from process.run((free + extra) * chance.uniform(0.5, 1.5))
            if alone > 0:
                seconds, began = alone * chance.uniform(0.5, 1.5), environment.now
                with exclusive.request() as turn:
                    if not turn.triggered:
                        process.sleep()
                    yield turn
                    granted = environment.now
                    # A server has a thread for each caller, which is scheduled as the caller itself would be.
                    yield from process.run(seconds)
                    asleep[kind] += (environment.now if costs.served else granted) - began
            ended[kind] += 1

    for _ in range(crowd.explorers):
        environment.process(cycle("explorer", costs.add + crowd.rows * crowd.step, costs.add_alone))
    environment.process(cycle("learner", costs.learn, costs.learn_alone))

    def advance(cycles: int) -> float:
        begin, known, events = environment.now, dict(ended), 0
        while min(ended[each] - known[each] for each in ended) < cycles and events < MOST_EVENTS:
            environment.step()
            events += 1
        return float(environment.now - begin)

    advance(CYCLES // 4)
    ended_before, asleep_before = dict(ended), dict(asleep)
    seconds = advance(CYCLES)
    rate = {each: (ended[each] - ended_before[each]) / seconds for each in ended}
    slept = {each: (asleep[each] - asleep_before[each]) / seconds for each in asleep}
    return Rates(rate["explorer"] * crowd.rows, rate["learner"], slept["explorer"] / crowd.explorers, slept["learner"])
