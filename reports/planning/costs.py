"""Service times, fitted to the figures with one data host and unlimited links."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from reports.planning.measured import COMMAND, Cell, Unmeasured, cells_of
from results import Run

NEAR = 4 * 2**20
SENT_ROWS = 100  # rows that an explorer sends together
NEEDED = (
    "learner",
    "step_p50",
    "step_p99",
    "learner_cpu",
    "data_cpu",
    "wire",
    "explorer",
    "explorer_cpu",
    "storing_cpu",
)
FITTED = (*NEEDED, "adding_cpu")  # in the cells that the fit uses
PER_BATCH = {"learn": "learner_cpu", "draw": "data_cpu"}
PER_ROW = {"send": "explorer_cpu", "store": "storing_cpu", "add": "adding_cpu"}
RESAMPLES = 200
SEED = 20_261_123
DIGITS = 6  # significant digits of costs, so that a different machine's rounding does not change the simulation


@dataclass(frozen=True)
class Cost:
    """CPU seconds, or bytes on the wire, per message, per row and per byte, and an extra cost per byte beyond the first
    `NEAR`, since those bytes are in no cache and their memory is new."""

    message: float = 0.0
    row: float = 0.0
    byte: float = 0.0
    far: float = 0.0

    def of(self, rows: float, row_bytes: float, messages: float = 1.0) -> float:
        """Return the cost of this many rows in this many equal messages."""
        return float(np.dot(_terms(rows, row_bytes, messages), [self.message, self.row, self.byte, self.far]))


def _terms(rows: float, row_bytes: float, messages: float = 1.0) -> list[float]:
    return [messages, rows, rows * row_bytes, max(0.0, rows * row_bytes - messages * NEAR)]


@dataclass(frozen=True)
class RequestCosts:
    """`learn` and `draw`: CPU time of a request for rows, with their new priorities, at the learner and at a data host
    respectively. `send` and `store`: CPU time of explorers' rows, at the explorer and at a data host respectively.
    `add`: CPU time of rows that explorers add on a data host. `wire`: bytes of a reply."""

    learn: Cost
    draw: Cost
    send: Cost
    store: Cost
    add: Cost
    wire: Cost


@dataclass(frozen=True)
class Fit:
    """`costs` from the medians over launches, and `resampled` from launches drawn with replacement.

    `misfit` is the largest relative error of each cost in the cells to which it was fitted. `batches` and `row_bytes`
    are the smallest and the largest values that were measured.
    """

    costs: RequestCosts
    resampled: Sequence[RequestCosts]
    misfit: dict[str, float]
    batches: tuple[int, int]
    row_bytes: tuple[int, int]
    launches: int  # fewest

    def interval(self, of: Callable[[RequestCosts], float]) -> tuple[float, float]:
        """Return the 95% interval of a function of the costs."""
        low, high = np.percentile([of(costs) for costs in self.resampled], [2.5, 97.5])
        return float(low), float(high)


def fit(run: Run) -> Fit:
    """Fit all costs. Raises `Unmeasured` if the record lacks the cells."""
    cells = seen(cells_of(run, FITTED))
    chance = random.Random(SEED)
    costs = _costs(cells, Cell.figure)
    resampled = [_costs(cells, lambda cell, name: _resampled(cell, name, chance)) for _ in range(RESAMPLES)]
    misfit = {name: max(abs(said / found - 1) for said, found in _compared(costs, cells, name)) for name in vars(costs)}
    launches = min(len(cell.figures["learner_cpu"]) for cell in cells)
    batches, sizes = [cell.batch for cell in cells], [cell.row_bytes for cell in cells]
    return Fit(costs, resampled, misfit, (min(batches), max(batches)), (min(sizes), max(sizes)), launches)


def seen(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells that the fit uses. Raises `Unmeasured` unless batches and rows of two sizes are among them."""
    chosen = [cell for cell in cells if cell.data == 1 and cell.link == float("inf")]
    kinds = {(cell.row_bytes, cell.batch) for cell in chosen}
    if min(len({row for row, _ in kinds}), len({batch for _, batch in kinds})) < 2 or len(kinds) < 3:
        raise Unmeasured(
            "the record needs figures with one data host and unlimited links, for two sizes of rows and of batches; "
            f"it has {len(kinds)}; measure them: {COMMAND}"
        )
    return chosen


def _resampled(cell: Cell, name: str, chance: random.Random) -> float:
    values = cell.figures[name]
    return float(np.median(chance.choices(values, k=len(values))))


def _costs(cells: Sequence[Cell], figure: Callable[[Cell, str], float]) -> RequestCosts:
    def whole(benchmark: str, scale: Callable[[Cell], float] = lambda cell: 1.0) -> Cost:
        rows = [_terms(cell.batch, cell.row_bytes) for cell in cells]
        return Cost(*_solve(rows, [figure(cell, benchmark) * scale(cell) for cell in cells]))

    def per_row(benchmark: str) -> Cost:
        rows = [(1.0, float(cell.row_bytes)) for cell in cells]
        return Cost(0.0, *_solve(rows, [figure(cell, benchmark) for cell in cells]))

    return RequestCosts(
        **{name: whole(benchmark) for name, benchmark in PER_BATCH.items()},
        **{name: per_row(benchmark) for name, benchmark in PER_ROW.items()},
        wire=whole("wire", lambda cell: cell.batch),
    )


def _solve(rows: Sequence[Sequence[float]], found: Sequence[float]) -> list[float]:
    """Return the coefficients of at least 0 that minimise the squared relative errors."""
    matrix, values = np.array(rows), np.array(found)
    solved, _ = nnls(matrix / values[:, None], np.ones(len(values)))
    return [float(f"{each:.{DIGITS}g}") for each in solved]


def _compared(costs: RequestCosts, cells: Sequence[Cell], name: str) -> list[tuple[float, float]]:
    """Return the fitted and the measured cost of each cell, as pairs."""
    cost: Cost = getattr(costs, name)
    if name in PER_ROW:
        return [(cost.of(1, cell.row_bytes), cell.figure(PER_ROW[name])) for cell in cells]
    if name == "wire":
        return [(cost.of(cell.batch, cell.row_bytes), cell.batch * cell.figure("wire")) for cell in cells]
    return [(cost.of(cell.batch, cell.row_bytes), cell.figure(PER_BATCH[name])) for cell in cells]
