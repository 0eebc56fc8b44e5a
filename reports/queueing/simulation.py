"""The same model as a discrete-event simulation in SimPy: processes take slices of a core in turn, and get a lock in
order of arrival. Unlike mean-value analysis, it needs no assumption about averages."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

import simpy

from reports.queueing.model import CycleCosts, ModelledFleet, Rates
from reports.queueing.processors import Cores, Process

CYCLES = 100  # of the slower side; a quarter as many come before, as a warm-up
MOST_EVENTS = 200_000


def simulate(costs: CycleCosts, fleet: ModelledFleet, seed: int = 0) -> Rates:
    """Return the rates over a simulated time in which about CYCLES cycles of the slower side end."""
    environment, chance = simpy.Environment(), random.Random(seed)
    cores, exclusive = Cores(environment, fleet.cores), simpy.Resource(environment, 1)
    ended = {"explorer": 0, "learner": 0}
    asleep = {"explorer": 0.0, "learner": 0.0}

    def cycle(kind: str, free: float, alone: float) -> Generator[Any, Any, None]:
        process = Process(cores)
        taken_in = 0  # calls of explorers whose rows the learner has taken in
        while True:
            extra = 0.0
            if kind == "learner":
                new = min(fleet.capacity, fleet.rows * (ended["explorer"] - taken_in))
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

    for _ in range(fleet.explorers):
        environment.process(cycle("explorer", costs.add + fleet.rows * fleet.step, costs.add_alone))
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
    return Rates(rate["explorer"] * fleet.rows, rate["learner"], slept["explorer"] / fleet.explorers, slept["learner"])
