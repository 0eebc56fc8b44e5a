"""What the paired_training suite plans. Trainings themselves are tested in tests/integrations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from adapters import registry
from results.record import Run
from suites import suite_named
from suites.paired_training.spec import (
    REFERENCE,
    RELATIVE_SPEED,
    SCORE,
    TO_TARGET,
    WEIGHTS,
    PairedTrainingSettings,
    figures,
)
from suites.paired_training.tasks import (
    CARTPOLE,
    EXACT,
    EXTRA_BUFFERS,
    LUNAR_LANDER,
    OURS,
    PENDULUM,
    PONG,
    PRIORITIZED,
    TASKS,
)

SUITE = suite_named("paired_training")


def launches(profile: str, *peers: str):
    return launches_of(SUITE.profiles[profile], *peers)


def launches_of(settings: PairedTrainingSettings, *peers: str):
    run = Run("bench", "invented", "unknown", "", {})
    for peer in peers:
        run.add_peer(peer, "1", "invented")
    return SUITE.launches(run, settings, peers, SUITE.workloads(settings))


def test_all_trainings_of_a_block_use_its_number_as_seed():
    for launch in launches("paired_training", REFERENCE, OURS):
        for block in (0, 3):
            assert f"--seed={block}" in launch.command(launch.open_records, Path("cells"), block)


def test_each_task_is_measured_with_the_reference_and_with_ours():
    names = [
        launch.name
        for profile in ("paired_training", "paired_prioritized", "paired_sparse")
        for launch in launches(profile, *SUITE.peers())
    ]
    assert len(names) == len(set(names))
    for task in TASKS.values():
        assert f"{task.name} with {REFERENCE}" in names
        assert any(f"{task.name} with {peer}" in names for peer in (OURS, PRIORITIZED))


def test_the_tiny_profile_trains_once_with_each_of_three_buffers():
    found = launches("tiny", *SUITE.peers())
    assert [launch.peer for launch in found] == [OURS, EXACT, REFERENCE]
    assert all(launch.records[0].workload == "CartPole-v1" for launch in found)


def test_trainings_in_turns_are_shorter_and_only_their_relative_speed_is_measured():
    found = launches("paired_speed", *SUITE.peers())
    trained = launches("paired_training", *SUITE.peers())
    assert {launch.peer for launch in found} == {launch.peer for launch in trained}
    for launch in found:
        (record,) = launch.records
        assert record.benchmark == RELATIVE_SPEED and record.params["steps"] < TASKS[record.params["task"]].steps
        assert "--kind=turns" in launch.command(launch.open_records, Path("cells"), 0)


def test_a_task_that_a_buffer_cannot_do_is_skipped_with_the_reason():
    tasks = [replace(task, peers=[EXTRA_BUFFERS]) for task in (PONG, CARTPOLE)]
    on_pong, on_cartpole = launches_of(PairedTrainingSettings(blocks=1, tasks=tasks), EXTRA_BUFFERS)
    assert len(on_pong.open_records) == len(on_pong.records)
    assert not on_cartpole.open_records
    assert {(each.status, "compresses images" in each.reason) for each in on_cartpole.records} == {("skipped", True)}


def test_prioritized_replay_is_trained_with_dqn():
    arm = registry.learner_class(PRIORITIZED)
    assert arm.refusal(LUNAR_LANDER.learner) is None
    assert arm.refusal(PENDULUM.learner) == f"{PRIORITIZED} is a DQN, and the task needs SAC"


def test_only_buffers_that_draw_the_same_rows_have_a_checksum_of_the_weights():
    with_weights = [
        peer for peer in SUITE.peers() if (WEIGHTS, None) in figures(CARTPOLE, registry.learner_class(peer))
    ]
    assert with_weights == [EXACT, REFERENCE]


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_a_task_has_a_final_score_and_has_steps_to_a_target_only_if_it_has_a_target(task):
    found = figures(task, registry.learner_class(OURS))
    assert (SCORE, task.steps) in found and task.timed_from < task.steps
    assert ({(name, None) for name in TO_TARGET} <= set(found)) == (task.target is not None)


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_the_fields_of_a_task_match_what_its_buffer_stores(task):
    fields = task.workload().fields
    assert list(fields) == ["obs", "action", "next_obs", "reward", "done", "timeout"]
    assert fields["obs"] == fields["next_obs"] and fields["obs"].shape == task.shapes.obs
