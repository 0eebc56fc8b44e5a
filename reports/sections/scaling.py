"""How far Ape-X scales: a queueing model, fitted to one and two explorers, against what more of them reached."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from reports import plots
from reports.figures.formatting import NOTHING, number, percent, times
from reports.figures.ratios import figure_of
from reports.plots import Picture
from reports.queueing.fit import fit
from reports.queueing.model import Costs, Crowd, Rates
from reports.queueing.mva import predict
from reports.queueing.simulation import simulate
from reports.rendering import worded
from reports.sections import apex
from reports.sections.apex import ALONG, REAL, Setting, cost_of, environment_of, explorers_of
from reports.sections.section import Context, Part, Section
from results.statistics import Figure

FITTED = 2  # explorers; the model sees no more
TWICE = 2 * FITTED
CORES = (16, 64, 256)
DRAWN = 64  # cores
TRUSTED = 0.25  # the largest error of the explorers' rate with which a buffer is predicted on larger machines
NEAR = 0.9  # of the most: the knee of a curve
SIDES = ("explorers", "learner")
FIGURES = (*SIDES, "explorers_blocked", "learner_blocked")  # the fields of Rates
STEPS = (20e-6, 200e-6)  # seconds of the environments for which larger machines are predicted

said = partial(worded, "scaling_notes.j2")


@dataclass(frozen=True)
class Fitted:
    peer: str
    costs: Costs
    measured: Mapping[Crowd, Rates]

    def compared(self, side: str, by: Callable[[Costs, Crowd], Rates], crowds: Callable[[Crowd], bool]) -> list[float]:
        """The ratios of the predicted to the measured rate of "explorers" or "learner", for these crowds."""
        return [
            getattr(by(self.costs, crowd), side) / getattr(rates, side)
            for crowd, rates in self.measured.items()
            if crowds(crowd)
        ]

    def is_trusted(self, cores: int) -> bool:
        costly = self.compared("explorers", predict, lambda each: _unseen(each, cores) and each.step > 0)
        return _worst(costly) <= TRUSTED and min(self.without_steps(cores), default=1.0) >= 1 - TRUSTED

    def without_steps(self, cores: int, side: str = "explorers") -> list[float]:
        """The ratios of the predicted to the measured rate with steps of 0 µs."""
        return self.compared(side, predict, lambda each: _unseen(each, cores) and each.step == 0)


@dataclass(frozen=True)
class Scaling:
    explained: str
    left_out: str
    summary: Sequence[str]
    error_columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]  # peer and cells
    knee_columns: Sequence[str]
    knees: Sequence[tuple[str, Sequence[str]]]
    pictures: Sequence[Picture]


def parts(context: Context) -> list[Part]:
    fitted = list(_fitted(context))
    if not fitted:
        return []
    cores = int(context.run.machine["cores"])
    more = sorted({crowd.explorers for each in fitted for crowd in each.measured if crowd.explorers > FITTED})
    trusted = [each for each in fitted if each.is_trusted(cores)]
    medians = {
        (side, by): statistics.median(
            _median(each.compared(side, by, lambda crowd: _is_costly(crowd, cores, TWICE))) for each in fitted
        )
        for side in SIDES
        for by in (predict, simulate)
    }
    fails = any(_worst(each.without_steps(cores)) > TRUSTED for each in fitted)
    counts = {"twice": TWICE, "cores": cores, "buffers": len(fitted)}
    errors = {f"{side}_{by.__name__}": _rounded(median) for (side, by), median in medians.items()}
    summary = [
        said("errors", **counts, **errors),
        *([said("fails")] if fails else []),
        said("trust", trusted=len(trusted), limit=_rounded(TRUSTED)),
    ]
    drawings = [*_against(context, fitted, cores), *_curves(context, trusted)]
    pictures = [plots.draw(title, make) for title, make in drawings]
    body = Scaling(
        explained=said("explained"),
        left_out=said("left_out"),
        summary=summary,
        error_columns=[
            *(f"{side}, N={number}" for number in more for side in SIDES),
            *(f"{side}, one core" for side in SIDES),
            *(f"{side}, 0 µs, worst" for side in SIDES),
        ],
        rows=[(each.peer, [*_costs(each.costs), *_errors(each, more, cores)]) for each in fitted],
        knee_columns=[f"{1e6 * step:g} µs, {each} cores" for step in STEPS for each in CORES],
        knees=[(each.peer, [_knee(each, step, size) for step in STEPS for size in CORES]) for each in trusted],
        pictures=pictures,
    )
    return [Part("scaling", "scaling", "How far it scales", body, pictures)]


def _fitted(context: Context) -> Iterator[Fitted]:
    """Yield a model for each peer with enough figures: 1 and 2 explorers in two environments of known cost, and more
    explorers to compare with."""
    jobs = [job for job in context.jobs_of(apex.SUITE) if job.benchmark in FIGURES and environment_of(job) != REAL]
    settings = [Setting.of(job) for job in jobs if not Setting.of(job).cores]
    if not settings:
        return
    main = max(set(settings), key=lambda each: (settings.count(each), each.capacity))
    cores = int(context.run.machine["cores"])
    for peer in context.run.peers:
        sides: dict[Crowd, dict[str, float]] = {}
        for job in jobs:
            setting = Setting.of(job)
            if replace(setting, cores=0) == main and peer.name in job.shown:
                step = cost_of(environment_of(job)) / 1e6
                crowd = Crowd(explorers_of(job), main.rows, step, setting.cores or cores, main.capacity)
                sides.setdefault(crowd, {})[job.benchmark] = figure_of(job.shown[peer.name]).value
        measured = {
            crowd: Rates(*(found[name] for name in FIGURES))
            for crowd, found in sides.items()
            if found.keys() == set(FIGURES) and found["explorers"] and found["learner"]
        }
        here = {crowd: rates for crowd, rates in measured.items() if crowd.cores == cores}
        seen = {crowd: rates for crowd, rates in here.items() if crowd.explorers <= FITTED}
        if len(seen) >= 2 * FITTED and any(crowd.explorers == TWICE for crowd in here):
            yield Fitted(peer.name, fit(seen), measured)


def _unseen(crowd: Crowd, cores: int) -> bool:
    """Whether this is a crowd on all cores that the fit has not seen."""
    return crowd.cores == cores and crowd.explorers > FITTED


def _is_costly(crowd: Crowd, cores: int, explorers: int | None) -> bool:
    """Whether this is a crowd on so many cores whose environment costs time, with this or any number of explorers."""
    return crowd.cores == cores and crowd.step > 0 and explorers in (None, crowd.explorers)


def _median(ratios: Sequence[float]) -> float:
    """Return the median error of these predictions."""
    return statistics.median(abs(ratio - 1) for ratio in ratios)


def _worst(ratios: Sequence[float]) -> float:
    return max((abs(ratio - 1) for ratio in ratios), default=0.0)


def _rounded(error: float) -> str:
    return percent(error).removeprefix("+")


def _costs(costs: Costs) -> list[str]:
    calls = (costs.add, costs.add_alone, costs.learn, costs.learn_alone)
    return [*(number(1e6 * each, 2) if each > 1e-8 else "0" for each in calls), number(1e9 * costs.row, 2)]


def _errors(each: Fitted, more: Sequence[int], cores: int) -> list[str]:
    cells = []
    for size, explorers in [*((cores, each_number) for each_number in more), (1, None)]:
        for side in SIDES:
            found = each.compared(side, predict, partial(_is_costly, cores=size, explorers=explorers))
            cells.append(_rounded(_median(found)) if found else NOTHING)
    for side in SIDES:
        worst = max(each.without_steps(cores, side), key=lambda ratio: abs(math.log(max(ratio, 1e-9))), default=None)
        cells.append(NOTHING if worst is None else times(worst, 2))
    return cells


def _curve(each: Fitted, step: float, cores: int) -> dict[int, float]:
    """Predicted transitions per second by number of explorers, up to one per core beside the learner."""
    crowd = next(iter(each.measured))
    counts = sorted({min(2**power, cores - 1) for power in range(12)})
    return {
        count: predict(each.costs, Crowd(count, crowd.rows, step, cores, crowd.capacity)).explorers
        for count in counts
        if count < cores
    }


def _knee(each: Fitted, step: float, cores: int) -> str:
    curve = _curve(each, step, cores)
    most = max(curve.values())
    knee = min(count for count, rate in curve.items() if rate >= NEAR * most)
    where = "no limit" if knee == max(curve) else str(knee)
    return f"{where}, {number(most / 1e6, 2)} M/s"


def _against(context: Context, fitted: Sequence[Fitted], cores: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield pictures of measured and predicted rates on this machine."""
    look = plots.looks([peer.name for peer in context.run.peers], [each.peer for each in fitted])
    for name, unit in (("explorers", "transitions/s"), ("learner", "steps/s")):
        for step in (0.0, *STEPS):
            lines: dict[str, dict[int, Figure]] = {}
            predicted: dict[str, dict[int, float]] = {}
            for each in fitted:
                for crowd, rates in each.measured.items():
                    if (crowd.cores, crowd.step) == (cores, step):
                        found = getattr(rates, name)
                        lines.setdefault(each.peer, {})[crowd.explorers] = Figure(found, found, found, 1)
                        predicted.setdefault(each.peer, {})[crowd.explorers] = getattr(predict(each.costs, crowd), name)
            title = f"{name}, environment {1e6 * step:g} µs, and the model"
            if lines:
                yield (
                    f"Ape-X: {title}",
                    partial(
                        plots.scaling, title, lines, unit, ALONG, look, context.signs, log=True, predicted=predicted
                    ),
                )


def _curves(context: Context, fitted: Sequence[Fitted]) -> Iterator[tuple[str, Callable[[], Any]]]:
    look = plots.looks([peer.name for peer in context.run.peers], [each.peer for each in fitted])
    for step in STEPS:
        title = f"predicted on {DRAWN} cores, environment {1e6 * step:g} µs"
        lines = {
            each.peer: {count: Figure(rate, rate, rate, 1) for count, rate in _curve(each, step, DRAWN).items()}
            for each in fitted
        }
        yield (
            f"Ape-X: {title}",
            partial(plots.scaling, title, lines, "transitions/s", ALONG, look, context.signs, log=True),
        )


SECTION = Section(parts)
