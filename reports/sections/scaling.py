"""How far Ape-X scales: a queueing model, fitted to one and two explorers, against measurements of more explorers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from reports.figures.formatting import NOTHING, number, share, times
from reports.figures.ratios import figure_of
from reports.queueing.fit import fit
from reports.queueing.model import CycleCosts, ModelledFleet, Rates
from reports.queueing.mva import predict
from reports.queueing.simulation import simulate
from reports.sections.apex import REAL, SUITE, Setting, cost_of, environment_of, explorers_of
from reports.sections.section import Context, Part

FITTED = 2  # explorers: the model is fitted to fleets with at most this many
TWICE = 2 * FITTED
CORES = (16, 64, 256)
TRUSTED = 0.25  # for a larger error of the explorers' rate, no prediction is made for larger machines
NEAR = 0.9  # of the highest rate: the knee of a curve
SIDES = ("explorers", "learner")
FIGURES = (*SIDES, "explorers_blocked", "learner_blocked")  # the fields of Rates
STEPS = (20e-6, 200e-6)  # seconds of the environments for which larger machines are predicted
COSTS = ("add, µs/call", "exclusive, + µs/call", "learner, µs/step", "exclusive, + µs/step", "new row, ns")


@dataclass(frozen=True)
class Fitted:
    peer: str
    costs: CycleCosts
    measured: Mapping[ModelledFleet, Rates]

    def compared(
        self, side: str, by: Callable[[CycleCosts, ModelledFleet], Rates], fleets: Callable[[ModelledFleet], bool]
    ) -> list[float]:
        """Return the ratios of the predicted to the measured rate of "explorers" or "learner", for these fleets."""
        return [
            getattr(by(self.costs, fleet), side) / getattr(rates, side)
            for fleet, rates in self.measured.items()
            if fleets(fleet)
        ]

    def is_trusted(self, cores: int) -> bool:
        costly = self.compared("explorers", predict, lambda each: _unseen(each, cores) and each.step > 0)
        return _worst(costly) <= TRUSTED and min(self.without_steps(cores), default=1.0) >= 1 - TRUSTED

    def without_steps(self, cores: int, side: str = "explorers") -> list[float]:
        """Return the ratios of the predicted to the measured rate with steps of 0 µs."""
        return self.compared(side, predict, lambda each: _unseen(each, cores) and each.step == 0)


def parts(context: Context) -> Iterator[Part]:
    fitted = list(_fitted(context))
    if not fitted:
        return
    cores = int(context.run.machine["cores"])
    more = sorted({fleet.explorers for each in fitted for fleet in each.measured if fleet.explorers > FITTED})
    trusted = [each for each in fitted if each.is_trusted(cores)]
    medians = [
        statistics.median(
            _median(each.compared(side, by, partial(_is_costly, cores=cores, explorers=TWICE))) for each in fitted
        )
        for by in (predict, simulate)
        for side in SIDES
    ]
    columns = [
        *COSTS,
        *(f"{side}, N={number}" for number in more for side in SIDES),
        *(f"{side}, one core" for side in SIDES),
        *(f"{side}, 0 µs, worst" for side in SIDES),
    ]
    values = {
        "errors": list(map(share, medians)),
        "twice": TWICE,
        "cores": cores,
        "buffers": len(fitted),
        "fails": any(_worst(each.without_steps(cores)) > TRUSTED for each in fitted),
        "trusted": len(trusted),
        "limit": share(TRUSTED),
        "columns": ["buffer", *columns],
        "rows": [[each.peer, *_costs(each.costs), *_errors(each, more, cores)] for each in fitted],
        "knee_columns": ["buffer", *(f"{1e6 * step:g} µs, {each} cores" for step in STEPS for each in CORES)],
        "knees": [[each.peer, *(_knee(each, step, size) for step in STEPS for size in CORES)] for each in trusted],
    }
    yield Part("scaling", "scaling", "How far it scales", values)


def _fitted(context: Context) -> Iterator[Fitted]:
    """Yield a model for each peer with enough figures: 1 and 2 explorers in two environments of known cost, and more
    explorers to compare with."""
    jobs = [job for job in context.jobs_of(SUITE) if job.benchmark in FIGURES and environment_of(job) != REAL]
    settings = [Setting.of(job) for job in jobs if not Setting.of(job).cores]
    if not settings:
        return
    main = max(set(settings), key=lambda each: (settings.count(each), each.capacity))
    cores = int(context.run.machine["cores"])
    for peer in context.run.peers:
        sides: dict[ModelledFleet, dict[str, float]] = {}
        for job in jobs:
            setting = Setting.of(job)
            if replace(setting, cores=0) == main and peer.name in job.shown:
                step = cost_of(environment_of(job)) / 1e6
                fleet = ModelledFleet(explorers_of(job), main.rows, step, setting.cores or cores, main.capacity)
                sides.setdefault(fleet, {})[job.benchmark] = figure_of(job.shown[peer.name]).value
        measured = {
            fleet: Rates(*(found[name] for name in FIGURES))
            for fleet, found in sides.items()
            if found.keys() == set(FIGURES) and found["explorers"] and found["learner"]
        }
        here = {fleet: rates for fleet, rates in measured.items() if fleet.cores == cores}
        seen = {fleet: rates for fleet, rates in here.items() if fleet.explorers <= FITTED}
        if len(seen) >= 2 * FITTED and any(fleet.explorers == TWICE for fleet in here):
            yield Fitted(peer.name, fit(seen), measured)


def _unseen(fleet: ModelledFleet, cores: int) -> bool:
    """Whether this is a fleet on all cores that was not used in the fit."""
    return fleet.cores == cores and fleet.explorers > FITTED


def _is_costly(fleet: ModelledFleet, cores: int, explorers: int | None) -> bool:
    """Whether this is a fleet on this many cores, with this number of explorers (None: any), whose environment takes
    time."""
    return fleet.cores == cores and fleet.step > 0 and explorers in (None, fleet.explorers)


def _median(ratios: Sequence[float]) -> float:
    """Return the median error of these predictions."""
    return statistics.median(abs(ratio - 1) for ratio in ratios)


def _worst(ratios: Sequence[float]) -> float:
    return max((abs(ratio - 1) for ratio in ratios), default=0.0)


def _costs(costs: CycleCosts) -> list[str]:
    calls = (costs.add, costs.add_alone, costs.learn, costs.learn_alone)
    return [*(number(1e6 * each, 2) if each > 1e-8 else "0" for each in calls), number(1e9 * costs.row, 2)]


def _errors(each: Fitted, more: Sequence[int], cores: int) -> list[str]:
    cells = []
    for size, explorers in [*((cores, each_number) for each_number in more), (1, None)]:
        for side in SIDES:
            found = each.compared(side, predict, partial(_is_costly, cores=size, explorers=explorers))
            cells.append(share(_median(found)) if found else NOTHING)
    for side in SIDES:
        worst = max(each.without_steps(cores, side), key=lambda ratio: abs(math.log(max(ratio, 1e-9))), default=None)
        cells.append(NOTHING if worst is None else times(worst, 2))
    return cells


def _knee(each: Fitted, step: float, cores: int) -> str:
    """Return the smallest number of explorers that reaches `NEAR` of the highest rate of transitions, and that highest
    rate. At most one explorer per core is considered, and the learner has a core of its own."""
    fleet = next(iter(each.measured))
    counts = [count for count in sorted({min(2**power, cores - 1) for power in range(12)}) if count < cores]
    curve = {
        count: predict(each.costs, ModelledFleet(count, fleet.rows, step, cores, fleet.capacity)).explorers
        for count in counts
    }
    most = max(curve.values())
    knee = min(count for count, rate in curve.items() if rate >= NEAR * most)
    return f"{'no limit' if knee == max(curve) else knee}, {number(most / 1e6, 2)} M/s"
