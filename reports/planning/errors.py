"""How much the simulation deviates from measurements with hosts that share one machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from reports.planning.costs import NEEDED, Fit, fit, seen
from reports.planning.measured import Cell, cells_of
from reports.planning.simulation import HostCounts, Load, Reached, simulate
from results import Run

BESIDE = ("learner_beside", "explorer_beside")
LONGEST = 1e-3  # seconds: upper bound of the delay
CLOSE = 5e-6  # seconds: precision of the delay
CPU = ("learner_cpu", "data_cpu")
ALONE = ("learner", "step_p50", "step_p99", "explorer")
FIGURES = (*CPU, *ALONE, *BESIDE)


@dataclass(frozen=True)
class Model:
    """Costs, and the seconds that each message takes in addition to the time on processors and links."""

    fit: Fit
    delay: float
    cores: int  # of the machine that was measured


@dataclass(frozen=True)
class Compared:
    """The ratios of predicted to measured figures, by benchmark."""

    cell: Cell
    ratios: dict[str, float]

    @property
    def was_seen(self) -> bool:
        """Whether the model was fitted to this cell's figures without competition."""
        return self.cell.data == 1 and math.isinf(self.cell.link)


def model_of(run: Run) -> Model:
    """Fit the costs, and then the delay, to the cells with one data host. Raises `Unmeasured`."""
    cores = int(run.machine["cores"])
    fitted = fit(run)
    cells = seen(cells_of(run, NEEDED))
    small = [cell for cell in cells if cell.row_bytes == fitted.row_bytes[0]]  # large rows hardly depend on the delay

    def error(delay: float) -> float:
        """Return the squared errors of the learners' rates, as logarithms."""
        said = [_alone(Model(fitted, delay, cores), cell).batches / cell.figure("learner") for cell in small]
        return round(math.fsum(math.log(ratio) ** 2 for ratio in said), 12)  # as in the simulation

    found = minimize_scalar(error, bounds=(0.0, LONGEST), method="bounded", options={"xatol": CLOSE})
    return Model(fitted, round(float(found.x), 6), cores)


def compare(run: Run, model: Model) -> list[Compared]:
    """Return the model's errors in each cell of the record."""
    return [Compared(cell, _ratios(model, cell)) for cell in cells_of(run, (*NEEDED, *BESIDE))]


def _ratios(model: Model, cell: Cell) -> dict[str, float]:
    learner, explorer = _alone(model, cell), _simulated(model, cell, 0, math.inf)
    both = _simulated(model, cell, math.inf, math.inf)
    size = cell.batch, cell.row_bytes, min(cell.batch, cell.data)
    said = [
        *(cost.of(*size) for cost in (model.fit.costs.learn, model.fit.costs.draw)),
        *(learner.batches, learner.p50, learner.p99, explorer.rows, both.batches, both.rows),
    ]
    return {name: value / cell.figure(name) for name, value in zip(FIGURES, said, strict=True)}


def _alone(model: Model, cell: Cell) -> Reached:
    return _simulated(model, cell, math.inf, 0)


def _simulated(model: Model, cell: Cell, batches: float, transitions: float) -> Reached:
    hosts = HostCounts(cell.data, cores=model.cores, link=cell.link, one_machine=True)
    return simulate(model.fit.costs, hosts, Load(cell.row_bytes, cell.batch, batches, transitions), model.delay)


def typical(ratios: Sequence[float]) -> float:
    """Return the median of the errors of these ratios, as a factor of at least 1."""
    return math.exp(float(np.median(np.abs(np.log(ratios)))))
