"""What the solve_time suite plans, and how it reads a learning curve. Trainings are tested in tests/apex_dqn."""

from __future__ import annotations

from pathlib import Path

import pytest

from results.record import Run
from suites import suite_named
from suites.apex_dqn.progress import Evaluation, score_at

EVALUATIONS = [Evaluation(4.0, 10.0, 100), Evaluation(12.0, 200.0, 300), Evaluation(25.0, 480.0, 700)]


@pytest.mark.parametrize(("second", "score"), [(1, 10.0), (4, 10.0), (11, 10.0), (12, 200.0), (300, 480.0)])
def test_the_score_is_that_of_the_last_finished_evaluation(second, score):
    assert score_at(EVALUATIONS, second) == score


def launches(*peers: str):
    suite = suite_named("solve_time")
    run = Run("bench", "solve_time", "unknown", "", {})
    for peer in peers:
        run.add_peer(peer, "1", "invented")
    return suite.launches(run, suite.profiles["solve_time"], peers, ["CartPole-v1", "LunarLander-v3"])


def test_each_block_trains_with_a_different_seed():
    (launch,) = [each for each in launches("cpprb[MP]") if "CartPole" in each.name]
    for block in range(3):
        assert f"--seed={block}" in launch.command(launch.open_records, Path("cells"), block)


def test_the_second_task_is_measured_with_two_buffers():
    names = [each.name for each in launches(*suite_named("solve_time").peers())]
    assert sum("CartPole" in name for name in names) == 5 and sum("LunarLander" in name for name in names) == 2
