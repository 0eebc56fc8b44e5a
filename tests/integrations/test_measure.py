"""A launch of the paired_training suite runs one training and reports its figures."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from stable_baselines3.common.buffers import ReplayBuffer

from adapters import registry
from adapters.base import WrongAnswer
from suites.paired_training import measure, playing
from suites.paired_training.spec import REFERENCE, figures
from suites.paired_training.tasks import CARTPOLE, EXACT, FRAMES_ONCE, HALF_CHEETAH, OURS, PENDULUM, PONG, TASKS

SHORT = replace(
    CARTPOLE,
    steps=900,
    every=450,
    stored=2_048,
    target=8.0,
    options={**CARTPOLE.options, "learning_starts": 100, "train_freq": 4, "gradient_steps": 1},
)


def launch(peer, task=SHORT, seed=0):
    results = list(measure.measure(peer, task, seed))
    found = {(result.benchmark, result.params.get("step")): result for result in results}
    assert len(found) == len(results)
    assert set(found) == set(figures(task, registry.learner_class(peer)))
    return found


def values(found):
    return {name: result.value for name, result in found.items()}


@pytest.fixture(scope="module")
def reference():
    found = launch(REFERENCE)
    assert all(result.outcome == "ok" for result in found.values()), found
    return values(found)


def test_a_training_yields_every_figure(reference):
    assert reference["steps", None] > 0 and 0 < reference["in_buffer", None] < 100
    assert reference["memory", None] > 0
    assert reference["solved", None] == 1 and 100 < reference["needed", None] <= SHORT.steps
    assert reference["score", 900] >= 8


def test_a_training_leaves_no_folder_of_logs(logs):
    tuple(measure.train(replace(SHORT, target=None), registry.learner_class(EXACT), seed=0))
    assert not logs.exists()


def test_the_same_rows_give_the_same_results_and_other_rows_do_not(reference):
    exact = values(launch(EXACT))
    for name in (("weights", None), ("score", 450), ("score", 900), ("needed", None)):
        assert exact[name] == reference[name]
    other = values(launch(EXACT, seed=1))
    assert other["weights", None] != reference["weights", None]


@pytest.mark.parametrize("peer", registry.training_arms())
@pytest.mark.parametrize("task", [CARTPOLE, PENDULUM, PONG], ids=lambda task: task.name)
def test_each_buffer_returns_the_added_rows(peer, task):
    arm = registry.learner_class(peer)
    if arm.refusal(task.learner) is None:
        playing.check_answers(task, arm, seed=1)


@pytest.mark.parametrize("peer", registry.training_arms())
def test_each_buffer_trains_on_images(peer):
    task = replace(PONG, steps=130, every=130, stored=320, options={**PONG.options, "learning_starts": 100})
    found = launch(peer, task)
    assert found["score", 130].outcome == "skipped" and "no episode ended" in found["score", 130].reason
    assert all(result.outcome == "ok" for name, result in found.items() if name != ("score", 130)), found


@pytest.mark.parametrize(("peer", "stored"), [(REFERENCE, 2 * 4 * 84 * 84), (FRAMES_ONCE, 84 * 84)])
def test_the_measured_memory_is_that_of_the_rows(peer, stored):
    """Memory is measured in a separate process, since this process could reuse memory of other tests."""
    code = (
        "import sys; from adapters import registry; from suites.paired_training.measure import bytes_per_row; "
        "from suites.paired_training.tasks import PONG; from dataclasses import replace; "
        "print(bytes_per_row(replace(PONG, stored=640), registry.learner_class(sys.argv[1]), 0))"
    )
    done = subprocess.run([sys.executable, "-c", code, peer], capture_output=True, text=True, check=True)
    assert stored < float(done.stdout.split()[-1]) < 1.1 * stored


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_the_fields_of_a_task_are_those_of_its_environment(task):
    env = playing.make_env(task, seed=0)
    buffer = playing.make_model(task, registry.learner_class(REFERENCE), env, 0, 8).replay_buffer
    arrays = (buffer.observations, buffer.actions)
    assert [array.shape[2:] for array in arrays] == [task.shapes.obs, task.shapes.act]
    assert [array.dtype for array in arrays] == [task.shapes.obs_dtype, task.shapes.act_dtype]
    env.close()


def test_mujoco_leaves_no_log_file_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    playing.make_env(HALF_CHEETAH, seed=0).close()
    assert not list(tmp_path.iterdir())


class Faulty(ReplayBuffer):
    def add(self, obs, next_obs, action, reward, done, infos):
        super().add(obs, next_obs, action, reward, done, infos)
        self.spoil((self.pos - 1) % self.buffer_size)


class Rewards(Faulty):
    def spoil(self, at):
        self.rewards[at] += at == 7


class Ends(Faulty):
    def spoil(self, at):
        self.timeouts[at] = 1


class NextObs(Faulty):
    def spoil(self, at):
        self.next_observations[at] = self.observations[at]


class NeverLast(ReplayBuffer):
    def sample(self, batch_size, env=None):
        return self._get_samples(np.random.randint(0, self.pos - 1, size=batch_size), env)


def arm_of(buffer):
    class Arm(registry.learner_class(REFERENCE)):
        arguments = {"replay_buffer_class": buffer}  # noqa: RUF012

    return Arm


@pytest.mark.parametrize("buffer", [Rewards, Ends, NextObs])
def test_a_buffer_that_changes_rows_is_reported_as_wrong(buffer):
    with pytest.raises(WrongAnswer, match="had never been added"):
        playing.check_answers(CARTPOLE, arm_of(buffer), seed=0)


def test_a_buffer_that_never_draws_a_row_is_reported_as_wrong():
    with pytest.raises(WrongAnswer, match="1 of 300 distinct added rows were never drawn in"):
        playing.check_answers(CARTPOLE, arm_of(NeverLast), seed=0)


def test_no_time_is_reported_for_a_wrong_answer(monkeypatch):
    arm = arm_of(Rewards)
    monkeypatch.setattr(measure.registry, "learner_class", lambda _name: arm)
    results = list(measure.measure(OURS, SHORT, 0))
    assert {result.outcome for result in results} == {"wrong"} and not any(result.value for result in results)


def test_time_limits_are_checked():
    class Forgetful(ReplayBuffer):
        def __init__(self, *args, **options):
            super().__init__(*args, **{**options, "handle_timeout_termination": False})

    with pytest.raises(WrongAnswer, match="had never been added"):
        playing.check_answers(PENDULUM, arm_of(Forgetful), seed=0)


def test_a_score_is_the_mean_of_the_last_episodes_and_the_target_needs_all_of_them():
    progress = measure.TrainingProgress(replace(SHORT, target=5.0))
    progress.returns = [(10 * n, float(n)) for n in range(1, 31)]
    assert progress.score(5) is None and progress.score(30) == 2.0
    assert progress.score(300) == np.mean(range(11, 31))
    assert progress.solved_at() == 200
    progress.returns = progress.returns[:19]
    assert progress.solved_at() is None
