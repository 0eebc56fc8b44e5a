"""How far Ape-X scales: a queueing model, fitted to one and two explorers, against what more of them reached."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from reports import plots
from reports.figures.formatting import NOTHING, number, percent
from reports.figures.ratios import figure_of
from reports.figures.statistics import Figure
from reports.plots import Picture
from reports.queueing.fit import fit
from reports.queueing.model import Costs, Crowd, Rates
from reports.queueing.mva import predict
from reports.queueing.simulation import simulate
from reports.sections import apex
from reports.sections.apex import ALONG, REAL, Setting, cost_of, environment_of, explorers_of
from reports.sections.section import Context, Part, Section

FITTED = 2  # explorers; the model sees no more
TWICE = 2 * FITTED
CORES = (16, 64, 256)
DRAWN = 64  # cores
TRUSTED = 0.25  # the largest median error with which a buffer is predicted on larger machines
NEAR = 0.9  # of the most: the knee of a curve
FIGURES = ("explorers", "learner", "explorers_blocked", "learner_blocked")  # the fields of Rates
STEPS = (20e-6, 200e-6)  # seconds of the environments for which larger machines are predicted
EXPLAINED = (
    "The model has five costs per buffer, in CPU time: what a call of add and a step of the learner take, how much of "
    "each excludes all other processes (a lock, a gate, a server), and what each new row costs the learner. They are "
    "fitted to the rates, and to the shares of time in which processes are blocked, with 1 and 2 explorers in all "
    "environments of known cost. Mean-value analysis and a discrete-event simulation then predict more explorers, and "
    "all numbers of explorers on a single core. The errors compare these predictions with what was measured; the model "
    "has not seen those figures. In the plots, markers are measured and lines are predicted."
)
LEFT_OUT = (
    "Left out: memory on several sockets (NUMA), clock frequencies that fall when many cores are busy, the bandwidth "
    "of memory, and contention for single cache lines. They make large machines slower than these curves, above all "
    "for buffers without a lock."
)


@dataclass(frozen=True)
class Fitted:
    peer: str
    costs: Costs
    measured: Mapping[Crowd, Rates]

    def errors(
        self, by: Callable[[Costs, Crowd], Rates], cores: int, explorers: int | None = None
    ) -> list[tuple[float, float]]:
        """The relative errors of both rates in each environment, on so many cores, with this or any number of
        explorers."""
        found = []
        for crowd, rates in self.measured.items():
            if crowd.cores == cores and explorers in (None, crowd.explorers):
                said = by(self.costs, crowd)
                found.append((said.explorers / rates.explorers - 1, said.learner / rates.learner - 1))
        return found


@dataclass(frozen=True)
class Scaling:
    explained: str
    left_out: str
    summary: str
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
    medians = [_median(each.errors(predict, cores, TWICE)) for each in fitted]
    trusted = [each for each, error in zip(fitted, medians, strict=True) if error <= TRUSTED]
    simulated = [_median(each.errors(simulate, cores, TWICE)) for each in fitted]
    summary = (
        f"With {TWICE} explorers on {cores} cores, the median error over {len(fitted)} buffers is "
        f"{_rounded(statistics.median(medians))} by mean-value analysis and "
        f"{_rounded(statistics.median(simulated))} by simulation. Larger machines are predicted only for the "
        f"{len(trusted)} buffers whose own error by mean-value analysis is at most {_rounded(TRUSTED)}."
    )
    drawings = [*_against(context, fitted, cores), *_curves(context, trusted)]
    pictures = [plots.draw(title, make) for title, make in drawings]
    body = Scaling(
        explained=EXPLAINED,
        left_out=LEFT_OUT,
        summary=summary,
        error_columns=[*(f"N={each}" for each in more), "one core, any N", f"N={TWICE}, simulated"],
        rows=[
            (each.peer, [*_costs(each.costs), *_errors(each, more, cores), _rounded(error)])
            for each, error in zip(fitted, simulated, strict=True)
        ],
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


def _median(errors: Sequence[tuple[float, float]]) -> float:
    return statistics.median(abs(error) for pair in errors for error in pair)


def _rounded(error: float) -> str:
    return percent(error).removeprefix("+")


def _costs(costs: Costs) -> list[str]:
    calls = (costs.add, costs.add_alone, costs.learn, costs.learn_alone)
    return [*(number(1e6 * each, 2) if each > 1e-8 else "0" for each in calls), number(1e9 * costs.row, 2)]


def _errors(each: Fitted, more: Sequence[int], cores: int) -> list[str]:
    found = [*(each.errors(predict, cores, explorers) for explorers in more), each.errors(predict, 1)]
    return [_rounded(_median(errors)) if errors else NOTHING for errors in found]


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
    return f"{knee}, {number(most / 1e6, 2)} M/s"


def _against(context: Context, fitted: Sequence[Fitted], cores: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield pictures of measured and predicted rates on this machine."""
    look = plots.looks([peer.name for peer in context.run.peers], [each.peer for each in fitted])
    for name, unit in (("explorers", "transitions/s"), ("learner", "steps/s")):
        for step in (0.0, *STEPS):
            lines: dict[str, dict[int, Figure]] = {}
            said: dict[str, dict[int, float]] = {}
            for each in fitted:
                for crowd, rates in each.measured.items():
                    if (crowd.cores, crowd.step) == (cores, step):
                        found = getattr(rates, name)
                        lines.setdefault(each.peer, {})[crowd.explorers] = Figure(found, found, found, 1)
                        said.setdefault(each.peer, {})[crowd.explorers] = getattr(predict(each.costs, crowd), name)
            title = f"{name}, environment {1e6 * step:g} µs, and the model"
            if lines:
                yield (
                    f"Ape-X: {title}",
                    partial(plots.scaling, title, lines, unit, ALONG, look, context.signs, log=True, predicted=said),
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
