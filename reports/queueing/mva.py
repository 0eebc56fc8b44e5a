"""Mean-value analysis of the model, in Schweitzer's approximation (Schweitzer 1979; Bard 1979).

A customer that arrives at a station finds what it would find on average if it did not exist: of its own class, the mean
number times (N - 1) / N. Two extensions are needed here. The processors are `cores` equal servers in processor sharing:
a cycle's part is stretched by the number of processes per core where that exceeds 1. And a process that holds the
exclusive part needs a processor meanwhile, so that part is stretched alike (simultaneous resource possession).
"""

from __future__ import annotations

from reports.queueing.model import Costs, Crowd, Rates

ROUNDS, DAMPING, CLOSE = 2_000, 0.3, 1e-7
MOST_DEMAND = 10.0  # seconds per step of the learner


def predict(costs: Costs, crowd: Crowd) -> Rates:
    """Return the rates in equilibrium."""
    number = {"explorer": float(crowd.explorers), "learner": 1.0}
    alone = {"explorer": costs.add_alone, "learner": costs.learn_alone}
    free = {"explorer": costs.add + crowd.rows * crowd.step, "learner": costs.learn}
    running = dict(number)  # mean number at the processors outside the exclusive part
    waiting = dict.fromkeys(number, 0.0)  # mean number at the exclusive part, in service or in its queue
    rate = {each: number[each] / (free[each] + alone[each]) for each in number}
    for _ in range(ROUNDS):
        busy = min(1.0, sum(rate[each] * alone[each] for each in number))  # at most one process is inside
        before = dict(rate)
        for mine in number:

            def others(counts: dict[str, float], mine: str = mine) -> float:
                return sum(counts.values()) - counts[mine] / number[mine]

            demand = free[mine]
            if mine == "learner":
                # The new rows since its last step. Their cost per second is bounded by a core.
                demand += min(MOST_DEMAND, costs.row * crowd.rows * rate["explorer"] / rate["learner"])
            stretch = max(1.0, (1 + others(running) + busy) / crowd.cores)
            inside = max(1.0, (1 + others(running)) / crowd.cores)
            outside_time = demand * stretch
            queue = sum(
                (waiting[each] - (waiting[each] / number[each] if each == mine else 0.0)) * alone[each]
                for each in number
            )
            alone_time = inside * (alone[mine] + queue)
            new = number[mine] / (outside_time + alone_time)
            rate[mine] = (1 - DAMPING) * rate[mine] + DAMPING * new
            running[mine] = rate[mine] * outside_time
            waiting[mine] = rate[mine] * alone_time
            total = running[mine] + waiting[mine]
            running[mine] *= number[mine] / total
            waiting[mine] *= number[mine] / total
        if all(abs(rate[each] / before[each] - 1) < CLOSE for each in number):
            break
    return Rates(rate["explorer"] * crowd.rows, rate["learner"])
