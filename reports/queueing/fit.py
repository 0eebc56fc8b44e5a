"""Fits costs to measurements: with these costs, the model comes closest to the rates of one and two explorers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import least_squares

from reports.queueing.model import CycleCosts, ModelledFleet, Rates
from reports.queueing.mva import predict_all

FEWEST, MOST = 1e-9, 1.0  # seconds: bounds of each cost
STARTS = (1e-6, 1e-4)


def fit(measured: Mapping[ModelledFleet, Rates]) -> CycleCosts:
    """Return the costs that minimise the squared errors over all of these fleets. Errors are computed on the logarithms
    of both rates and on the shares of time in which processes sleep. Without these shares, a lock could not be
    distinguished from a slow call."""

    def errors(logs: np.ndarray, served: bool) -> np.ndarray:
        costs = CycleCosts(*np.exp(logs), served=served)
        said = predict_all(costs, list(measured))
        return np.concatenate([_errors(mine, rates) for mine, rates in zip(said, measured.values(), strict=True)])

    bounds = np.log(FEWEST), np.log(MOST)
    fitted = [
        (least_squares(errors, _start(start), bounds=bounds, max_nfev=40, args=(served,)), served)
        for start in STARTS
        for served in (False, True)
    ]
    best, served = min(fitted, key=lambda each: each[0].cost)
    return CycleCosts(*np.exp(best.x), served=served)


def _start(seconds: float) -> np.ndarray:
    return np.log([seconds, seconds / 4, seconds, seconds / 4, 1e-8])


def _errors(said: Rates, measured: Rates) -> np.ndarray:
    return np.array(
        [
            np.log(said.explorers / measured.explorers),
            np.log(said.learner / measured.learner),
            said.explorers_blocked - measured.explorers_blocked,
            said.learner_blocked - measured.learner_blocked,
        ]
    )
