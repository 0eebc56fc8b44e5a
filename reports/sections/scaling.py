"""How far Ape-X scales: a queueing model, fitted to one and two explorers, against what more of them reached."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from reports.sections.apex import REAL, Setting, cost_of, environment_of, explorers_of
from reports.sections.section import Context, Part, Section

FITTED = 2  # explorers; the model sees no more
TWICE = 2 * FITTED
CORES = (16, 64, 256)
DRAWN = 64  # cores
NEAR = 0.9  # of the most: the knee of a curve
STEPS = (0.0, 20e-6, 200e-6)  # seconds of the environments for which larger machines are predicted
EXPLAINED = (
    "The model has five costs per buffer, in CPU time: what a call of add and a step of the learner take, how much of "
    "each excludes all other processes (a lock, a gate, a server), and what each new row costs the learner. They are "
    "fitted to the rates with 1 and 2 explorers in all environments of known cost. Mean-value analysis and a "
    "discrete-event simulation then predict more explorers. The errors compare these predictions with what was "
    "measured; the model has not seen those figures."
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

    def errors(self, explorers: int, by: Callable[[Costs, Crowd], Rates]) -> list[tuple[float, float]]:
        """The relative errors of both rates in each environment with this many explorers."""
        found = []
        for crowd, rates in self.measured.items():
            if crowd.explorers == explorers:
                said = by(self.costs, crowd)
                found.append((said.explorers / rates.explorers - 1, said.learner / rates.learner - 1))
        return found


@dataclass(frozen=True)
class CostRow:
    peer: str
    cells: Sequence[str]


@dataclass(frozen=True)
class KneeRow:
    peer: str
    cells: Sequence[str]


@dataclass(frozen=True)
class Scaling:
    explained: str
    left_out: str
    summary: str
    error_columns: Sequence[str]
    rows: Sequence[CostRow]
    knee_columns: Sequence[str]
    knees: Sequence[KneeRow]
    pictures: Sequence[Picture]


def parts(context: Context) -> list[Part]:
    fitted = list(_fitted(context))
    if not fitted:
        return []
    cores = int(context.run.machine["cores"])
    more = sorted({crowd.explorers for each in fitted for crowd in each.measured if crowd.explorers > FITTED})
    medians = [_median(each.errors(TWICE, predict)) for each in fitted]
    simulated = [_median(each.errors(TWICE, simulate)) for each in fitted]
    summary = (
        f"With {TWICE} explorers on {cores} cores, the median error over {len(fitted)} buffers is "
        f"{_rounded(statistics.median(medians))} by mean-value analysis and "
        f"{_rounded(statistics.median(simulated))} by simulation."
    )
    pictures = [plots.draw(title, make) for title, make in _curves(context, fitted)]
    body = Scaling(
        explained=EXPLAINED,
        left_out=LEFT_OUT,
        summary=summary,
        error_columns=[*(f"N={each}" for each in more), f"N={TWICE}, simulated"],
        rows=[CostRow(each.peer, [*_costs(each.costs), *_errors(each, more)]) for each in fitted],
        knee_columns=[f"{number(1e6 * step)} µs, {each} cores" for step in STEPS for each in CORES],
        knees=[KneeRow(each.peer, [_knee(each, step, size) for step in STEPS for size in CORES]) for each in fitted],
        pictures=pictures,
    )
    return [Part("scaling", "scaling", "How far it scales", body, pictures)]


def _fitted(context: Context) -> Iterator[Fitted]:
    """Yield a model for each peer with enough figures: 1 and 2 explorers in two environments of known cost, and more
    explorers to compare with."""
    jobs = [job for job in context.jobs_of(apex.SUITE) if job.benchmark in apex.RATES and environment_of(job) != REAL]
    settings = [Setting.of(job) for job in jobs]
    if not settings:
        return
    main = max(set(settings), key=lambda each: (settings.count(each), each.capacity))
    cores = int(context.run.machine["cores"])
    for peer in context.run.peers:
        sides: dict[Crowd, dict[str, float]] = {}
        for job in jobs:
            if Setting.of(job) == main and peer.name in job.shown:
                crowd = Crowd(explorers_of(job), main.rows, cost_of(environment_of(job)) * 1e-6, cores)
                sides.setdefault(crowd, {})[job.benchmark] = figure_of(job.shown[peer.name]).value
        measured = {
            crowd: Rates(found["explorers"], found["learner"]) for crowd, found in sides.items() if all(_both(found))
        }
        seen = {crowd: rates for crowd, rates in measured.items() if crowd.explorers <= FITTED}
        if len(seen) >= 2 * FITTED and any(crowd.explorers == TWICE for crowd in measured):
            yield Fitted(peer.name, fit(seen), measured)


def _both(found: Mapping[str, float]) -> tuple[float, float]:
    return found.get("explorers", 0.0), found.get("learner", 0.0)


def _median(errors: Sequence[tuple[float, float]]) -> float:
    return statistics.median(abs(error) for pair in errors for error in pair)


def _rounded(error: float) -> str:
    return percent(error).removeprefix("+")


def _costs(costs: Costs) -> list[str]:
    calls = [number(1e6 * each, 2) if each > 1e-8 else "0" for each in (costs.add, costs.add_alone, costs.learn)]
    alone = number(1e6 * costs.learn_alone, 2) if costs.learn_alone > 1e-8 else "0"
    return [*calls, alone, number(1e9 * costs.row, 2)]


def _errors(each: Fitted, more: Sequence[int]) -> Iterator[str]:
    for explorers in more:
        found = each.errors(explorers, predict)
        yield _rounded(_median(found)) if found else NOTHING
    yield _rounded(_median(each.errors(TWICE, simulate)))


def _curve(each: Fitted, step: float, cores: int) -> dict[int, float]:
    """Predicted transitions per second by number of explorers, up to one per core beside the learner."""
    crowd = next(iter(each.measured))
    counts = sorted({min(2**power, cores - 1) for power in range(12)})
    return {
        count: predict(each.costs, Crowd(count, crowd.rows, step, cores)).explorers for count in counts if count < cores
    }


def _knee(each: Fitted, step: float, cores: int) -> str:
    curve = _curve(each, step, cores)
    most = max(curve.values())
    knee = min(count for count, rate in curve.items() if rate >= NEAR * most)
    return f"{knee}, {number(most / 1e6, 2)} M/s"


def _curves(context: Context, fitted: Sequence[Fitted]) -> Iterator[tuple[str, Callable[[], Any]]]:
    look = plots.looks([peer.name for peer in context.run.peers], [each.peer for each in fitted])
    for step in STEPS:
        title = f"predicted on {DRAWN} cores, environment {number(1e6 * step)} us"
        lines = {
            each.peer: {count: Figure(rate, rate, rate, 1) for count, rate in _curve(each, step, DRAWN).items()}
            for each in fitted
        }
        yield f"Ape-X: {title}", _drawn(title, lines, look, context.signs)


def _drawn(
    title: str, lines: Mapping[str, Mapping[int, Figure]], look: Mapping[str, plots.Look], signs: Mapping[str, str]
) -> Callable[[], Any]:
    return lambda: plots.scaling(title, lines, "transitions/s", "number of explorers", look, signs, log=True)


SECTION = Section(parts)
