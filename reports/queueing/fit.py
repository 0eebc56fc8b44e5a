"""Costs from measured rates: those with which the model comes closest to what one and two explorers reached."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import least_squares

from reports.queueing.model import Costs, Crowd, Rates
from reports.queueing.mva import predict

FEWEST, MOST = 1e-9, 1.0  # seconds: bounds of each cost
STARTS = (1e-6, 1e-4)


def fit(measured: Mapping[Crowd, Rates]) -> Costs:
    """Return the costs that minimise the squared log errors of both rates over all of these crowds."""

    def errors(logs: np.ndarray) -> np.ndarray:
        costs = Costs(*np.exp(logs))
        found = [(predict(costs, crowd), rates) for crowd, rates in measured.items()]
        return np.array(
            [np.log(p / m) for each, rates in found for p, m in zip(astuple(each), astuple(rates), strict=True)]
        )

    bounds = np.log(FEWEST), np.log(MOST)
    fitted = [
        least_squares(errors, np.log([start, start / 4, start, start / 4, 1e-8]), bounds=bounds, max_nfev=40)
        for start in STARTS
    ]
    return Costs(*np.exp(min(fitted, key=lambda each: each.cost).x))


def astuple(rates: Rates) -> tuple[float, float]:
    return rates.explorers, rates.learner
