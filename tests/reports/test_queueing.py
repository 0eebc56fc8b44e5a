"""The queueing model agrees with known exact results, and its two solutions agree with each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.queueing.fit import fit
from reports.queueing.model import CycleCosts, ModelledFleet, Rates
from reports.queueing.mva import predict
from reports.queueing.simulation import simulate

NOTHING = 1e-9
FREE = CycleCosts(add=2e-5, add_alone=NOTHING, learn=5e-5, learn_alone=NOTHING, row=NOTHING)
LOCKED = CycleCosts(add=1e-5, add_alone=1e-5, learn=1e-5, learn_alone=2e-5, row=NOTHING)
MANAGED = CycleCosts(add=1e-4, add_alone=3e-4, learn=1e-4, learn_alone=4e-4, row=1e-7, served=True)
BOTH = pytest.mark.parametrize("solve", [predict, simulate])


def alike(said: Rates, found: Rates, tolerance: float) -> None:
    assert said.explorers == pytest.approx(found.explorers, rel=tolerance)
    assert said.learner == pytest.approx(found.learner, rel=tolerance)
    assert said.explorers_blocked == pytest.approx(found.explorers_blocked, abs=tolerance)
    assert said.learner_blocked == pytest.approx(found.learner_blocked, abs=tolerance)


@BOTH
@pytest.mark.parametrize("explorers", [1, 3, 7])
def test_no_process_waits_without_exclusion_and_with_a_core_per_process(solve, explorers):
    rates = solve(FREE, ModelledFleet(explorers, 100, 1e-5, cores=8))
    assert rates.explorers == pytest.approx(explorers * 100 / (2e-5 + 100 * 1e-5), rel=0.1)
    assert rates.learner == pytest.approx(1 / 5e-5, rel=0.05)
    assert rates.explorers_blocked < 0.01 and rates.learner_blocked < 0.01


@BOTH
def test_callers_of_a_server_sleep_while_it_works(solve):
    rates = solve(replace(MANAGED, learn=10.0), ModelledFleet(1, 100, 0.0, cores=4))
    assert rates.explorers_blocked == pytest.approx(3e-4 / 4e-4, abs=0.05)


@BOTH
def test_processes_share_the_cores_equally(solve):
    rates = solve(FREE, ModelledFleet(15, 100, 1e-5, cores=2))
    assert rates.explorers == pytest.approx(2 * 15 / 16 * 100 / 1.02e-3, rel=0.1)
    assert rates.learner == pytest.approx(2 / 16 / 5e-5, rel=0.1)


@BOTH
def test_the_exclusive_part_bounds_all_explorers_together(solve):
    """This holds for any number of cores. The learner's share is small compared with that of 60 explorers."""
    rates = solve(replace(LOCKED, learn=1.0), ModelledFleet(60, 10, 0.0, cores=64))
    assert rates.explorers == pytest.approx(10 / 1e-5, rel=0.1)


@BOTH
def test_new_rows_cost_the_learner_time(solve):
    costs = replace(FREE, row=1e-8)  # 5 million rows per second take a twentieth of its time
    rates = solve(costs, ModelledFleet(1, 100, 0.0, cores=2))
    assert rates.learner == pytest.approx(0.95 / 5e-5, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("costs", [FREE, LOCKED, MANAGED])
@pytest.mark.parametrize("step", [0.0, 2e-5, 2e-4])
@pytest.mark.parametrize("explorers", [1, 2, 4])
def test_analysis_and_simulation_agree(costs, step, explorers):
    fleet = ModelledFleet(explorers, 100, step, cores=2)
    alike(predict(costs, fleet), simulate(costs, fleet), 0.25)


@pytest.mark.slow
@pytest.mark.parametrize("costs", [FREE, LOCKED, MANAGED])
def test_costs_fitted_to_one_and_two_explorers_predict_four(costs):
    fleets = [ModelledFleet(explorers, 100, step, cores=2) for explorers in (1, 2) for step in (0.0, 2e-5, 2e-4)]
    fitted = fit({fleet: simulate(costs, fleet) for fleet in fleets})
    for step in (0.0, 2e-5, 2e-4):
        fleet = ModelledFleet(4, 100, step, cores=2)
        alike(predict(fitted, fleet), simulate(costs, fleet), 0.3)


def test_a_wrong_cost_is_detected():
    fleet = ModelledFleet(4, 100, 2e-5, cores=2)
    wrong = predict(replace(MANAGED, add_alone=3e-3), fleet)
    assert wrong.explorers < 0.7 * simulate(MANAGED, fleet).explorers
