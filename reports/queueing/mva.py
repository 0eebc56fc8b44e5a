"""Mean-value analysis of the model, in Schweitzer's approximation (Schweitzer 1979; Bard 1979).

A customer that arrives at a station finds the customers that would be there on average if it did not exist itself: of
its own class, (N - 1) / N times the mean number. Two extensions are needed here. The processors are `cores` equal
servers in processor sharing: a part of a cycle is stretched by the number of processes per core if that exceeds 1.
Also, a process that holds the exclusive part needs a processor at the same time, so that part is stretched in the same
way (simultaneous resource possession).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reports.queueing.model import CycleCosts, ModelledFleet, Rates

ROUNDS, DAMPING, CLOSE = 2_000, 0.3, 1e-6


def predict(costs: CycleCosts, fleet: ModelledFleet) -> Rates:
    """Return the rates in equilibrium."""
    return predict_all(costs, [fleet])[0]


def predict_all(costs: CycleCosts, fleets: Sequence[ModelledFleet]) -> list[Rates]:
    """Return the rates of each fleet in equilibrium. All fleets are computed at once; the rows are explorers and
    learner."""
    ones = np.ones(len(fleets))
    rows, cores, capacity = (
        np.array([getattr(fleet, name) for fleet in fleets], float) for name in ("rows", "cores", "capacity")
    )
    number = np.array([[fleet.explorers for fleet in fleets], ones])
    free = np.array([[costs.add + fleet.rows * fleet.step for fleet in fleets], costs.learn * ones])
    alone = np.array([costs.add_alone * ones, costs.learn_alone * ones])
    running, waiting = number.copy(), np.zeros_like(number)  # mean numbers outside and inside the exclusive part
    rate = number / (free + alone)
    for _ in range(ROUNDS):
        # The number of processes of its own kind that an arriving process finds: the mean number if it did not exist.
        others = running.sum(axis=0) - running / number
        queue = (waiting * alone).sum(axis=0) - waiting / number * alone
        busy = np.minimum(1.0, (rate * alone).sum(axis=0))  # at most one process is inside
        # The learner takes in the new rows since its last step.
        taking_in = costs.row * np.minimum(capacity, rows * rate[0] / rate[1])
        demand = free + np.array([0 * ones, taking_in])
        inside = np.maximum(1.0, (1 + others) / cores)
        outside_time = demand * np.maximum(1.0, (1 + others + busy) / cores)
        inside_time = inside * (alone + queue)
        before, cycle = rate, outside_time + inside_time
        rate = (1 - DAMPING) * rate + DAMPING * number / cycle
        running, waiting = number * outside_time / cycle, number * inside_time / cycle
        if np.all(np.abs(rate / before - 1) < CLOSE):
            break
    blocked = np.minimum(1.0, inside * (queue + alone * costs.served) / cycle)
    return [
        Rates(float(rate[0, i] * rows[i]), float(rate[1, i]), float(blocked[0, i]), float(blocked[1, i]))
        for i in range(len(fleets))
    ]
