"""A launch of the solve_time suite runs one training and reports its figures."""

from __future__ import annotations

from suites.solve_time.measure import measure
from suites.solve_time.spec import SolveTarget


def figures_of(task: SolveTarget) -> dict:
    results = measure("cpprb_impl[lock=none]", task, seed=0)
    return {(result.benchmark, result.params.get("second")): result for result in results}


def test_a_training_that_solves_its_task_yields_every_figure():
    found = figures_of(SolveTarget("CartPole-v1", 20.0, seconds=120, every=40))
    assert all(result.outcome == "ok" for result in found.values())
    assert found["solved", None].value == 1 and 0 < found["seconds", None].value < 120
    assert found["transitions", None].value >= 1_000 and found["steps", None].value > 0
    assert found["score", 120].value >= 20 and [second for _, second in found if second] == [40, 80, 120]


def test_a_training_that_does_not_solve_its_task_reports_its_time():
    found = figures_of(SolveTarget("CartPole-v1", 1_000.0, seconds=15, every=15))  # no episode reaches this score
    assert found["solved", None].value == 0 and found["seconds", None].value >= 15
    assert found["score", 15].value > 0


def test_an_environment_that_dqn_cannot_play_is_not_a_failure_of_the_buffer():
    found = figures_of(SolveTarget("Pendulum-v1", 0.0, seconds=5, every=5))
    assert all(result.outcome == "broken" and "Discrete actions" in result.reason for result in found.values())
