"""Sequences of steps for algorithms written in the style of Stable-Baselines3."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from cpprb_impl import sb3

ACTIONS = spaces.Discrete(4)
BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
STACK = spaces.Box(0, 255, (4, 5, 5), np.uint8)
PARTS = spaces.Dict({"box": BOX, "stack": STACK})
N_ENVS = 3


def seen(space: spaces.Space[Any], number: np.ndarray) -> Any:
    """Return the observations at these steps (n,), whose values or frames are their numbers."""
    if isinstance(space, spaces.Dict):
        return {name: seen(part, number) for name, part in space.spaces.items()}
    if space is STACK:
        number = (number[:, None] + np.arange(4)) % 256
    return np.broadcast_to(
        number.reshape(*number.shape, *[1] * (1 + len(space.shape) - number.ndim)),
        (
            len(number),
            *space.shape,
        ),
    ).astype(space.dtype)


class Steps:
    """Adds steps, numbered in each environment, whose episodes have random lengths."""

    def __init__(self, space: spaces.Space[Any] = BOX, n_envs: int = N_ENVS, ends: float = 0.2, seed: int = 0) -> None:
        self.space, self.random, self.ends = space, np.random.default_rng(seed), ends
        self.number = 1000 * np.arange(n_envs)
        self.last: list[np.ndarray] = []  # of each step: whether it ended an episode

    def add(self, buffers: list[Any], steps: int) -> None:
        n_envs = len(self.number)
        for _ in range(steps):
            done = self.random.random(n_envs) < self.ends
            infos = [{"TimeLimit.truncated": bool(each and self.random.random() < 0.5)} for each in done]
            obs, next_obs = seen(self.space, self.number), seen(self.space, self.number + 1)
            for buffer in buffers:
                buffer.add(obs, next_obs, self.number.reshape(-1, 1) % 4, self.number / 2, done, infos)
            self.last.append(done)
            self.number = self.number + np.where(done, 2, 1)  # the first observation differs from the last


def made(space: spaces.Space[Any] = BOX, n_envs: int = N_ENVS, **options: Any) -> Any:
    options.setdefault("sequences", {"size": 5})
    return sb3.SequenceReplayBuffer(600, space, ACTIONS, "cpu", n_envs=n_envs, **options)


def numbers(batch: Any) -> torch.Tensor:
    return (batch.rewards[..., 0] * 2).long()


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("space", [BOX, STACK, PARTS], ids=["box", "stack", "dict"])
def test_sequences_are_consecutive_steps_that_were_added(space, once):
    buffer, steps = made(space, optimize_memory_usage=once), Steps(space)
    steps.add([buffer], 60)
    batch = buffer.sample(500)
    number = numbers(batch)
    assert number.shape == (500, 5) and (number == number[:, :1] + torch.arange(5)).all()
    assert set((number // 1000).unique().tolist()) == {0, 1, 2}
    for name, ahead in {"observations": 0, "next_observations": 1}.items():
        expected, given = seen(space, number.numpy().ravel() + ahead), getattr(batch, name)
        for part in space.spaces if space is PARTS else [None]:
            value, want = (given, expected) if part is None else (given[part], expected[part])
            assert value.dtype == torch.from_numpy(want).dtype
            np.testing.assert_array_equal(value, want.reshape(value.shape))
    assert (batch.actions[..., 0] == number % 4).all()
    assert batch.dones.shape == batch.rewards.shape == batch.is_first.shape == batch.mask.shape == (500, 5, 1)
    assert batch.mask.all() and (batch.lengths == 5).all()
    assert not batch.dones[:, :-1].any() and batch.dones.any() and not batch.is_first[:, 1:].any()


def test_an_episode_that_was_truncated_ends_but_is_not_done():
    buffer, steps = made(n_envs=1, sequences={"size": 4, "ends": "cross"}), Steps(n_envs=1)
    steps.add([buffer], 100)
    batch = buffer.sample(1000)
    begins, done = batch.is_first[:, 1:], batch.dones[:, :-1] != 0
    assert (begins >= done).all() and begins[~done].any()
    follows = numbers(batch)[:, 1:] - numbers(batch)[:, :-1]
    assert ((follows == 2) == begins[..., 0]).all()


def test_an_episode_ends_where_infos_say_so_although_it_is_not_done():
    buffer = made(n_envs=1, sequences={"size": 2, "ends": "cross"})
    for step in range(10):
        row = [seen(BOX, np.array([step + ahead])) for ahead in (0, 1)]
        buffer.add(*row, np.zeros((1, 1)), np.array([step / 2]), np.zeros(1), [{"TimeLimit.truncated": step == 4}])
    batch = buffer.sample(200)
    assert set(numbers(batch)[batch.is_first[..., 0]].tolist()) == {0, 5}


def test_padded_steps_are_masked_and_zero():
    buffer, steps = made(sequences={"size": 6, "burn_in": 2, "ends": "pad"}), Steps()
    steps.add([buffer], 60)
    batch = buffer.sample(300)
    assert batch.mask.shape == (300, 8, 1) and batch.mask.dtype == batch.is_first.dtype == torch.bool
    assert not batch.mask.all() and (batch.lengths == batch.mask.sum(dim=(1, 2))).all()
    assert batch.lengths.dtype == torch.int64
    for values in (batch.observations, batch.actions, batch.next_observations, batch.rewards, batch.dones):
        assert not values[~batch.mask[..., 0]].any()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_a_copy_draws_the_same_sequences_and_continues_the_streams(copied):
    buffer, steps = made(), Steps()
    steps.add([buffer], 40)
    other = copied(buffer)
    assert (numbers(other.sample(50)) == numbers(buffer.sample(50))).all()
    steps.add([buffer, other], 10)
    assert (numbers(other.sample(50)) == numbers(buffer.sample(50))).all()


class Counted(gym.Env[Any, Any]):
    """Observations are the number of the step over all episodes, times 2; each reset skips a number."""

    observation_space = BOX
    action_space = spaces.Discrete(2)
    number = 0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        super().reset(**options)
        self.number, self.steps = self.number + 1, 0
        return self._seen(), {}

    def _seen(self) -> np.ndarray:
        return np.full(3, self.number, np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = self.number / 2
        self.number, self.steps = self.number + 1, self.steps + 1
        return self._seen(), reward, self.steps == 9, False, {}


class FromSequences(DQN):
    """An algorithm that learns from sequences; its loss is not the point."""

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, vec_normalize=self._vec_normalize_env)
            values = self.q_net(batch.observations.reshape(-1, 3)).reshape(*batch.rewards.shape[:2], 2)
            loss = (((values.mean(dim=-1, keepdim=True) - batch.rewards) ** 2) * batch.mask).mean()
            self.policy.optimizer.zero_grad()
            loss.backward()
            self.policy.optimizer.step()
        self._n_updates += gradient_steps


def model(kind: Any, env: Any, **options: Any) -> Any:
    return kind(
        "MlpPolicy",
        env,
        learning_starts=20,
        batch_size=16,
        buffer_size=400,
        replay_buffer_class=sb3.SequenceReplayBuffer,
        replay_buffer_kwargs={"sequences": {"size": 4, "ends": "cross"}},
        device="cpu",
        seed=0,
        **options,
    )


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("n_envs", [1, 2])
@pytest.mark.filterwarnings("ignore:The last trajectory in the replay buffer will be truncated")
def test_no_sequence_crosses_the_reset_of_a_second_call_of_learn(n_envs, optimize):
    learner = model(FromSequences, DummyVecEnv([Counted] * n_envs), optimize_memory_usage=optimize)
    learner.learn(32 * n_envs)  # within an episode, whose last observation is 36
    learner.learn(36 * n_envs)
    assert learner._n_updates > 0
    batch = learner.replay_buffer.sample(2000)
    steps = numbers(batch)
    begins = steps[:, 1:] != steps[:, :-1] + 1
    assert (begins == batch.is_first[:, 1:, 0]).all()
    assert set(steps[batch.is_first[..., 0]].tolist()) == {1, 11, 21, 31, 37, 47, 57, 67}


def test_a_reset_is_recognized_by_any_part_of_the_observations():
    buffer = made(PARTS, n_envs=1, sequences={"size": 3})
    stack = seen(STACK, np.zeros(1, int))
    for step in [0, 1, 2, 3, 10, 11, 12, 13]:
        obs, next_obs = ({"box": seen(BOX, np.array([at])), "stack": stack} for at in (step, step + 1))
        buffer.add(obs, next_obs, np.zeros((1, 1)), np.array([step / 2]), np.zeros(1), [{}])
    assert {*map(tuple, numbers(buffer.sample(100)).tolist())} == {(0, 1, 2), (1, 2, 3), (10, 11, 12), (11, 12, 13)}


@pytest.mark.parametrize("algorithm", [DQN, SAC])
def test_an_algorithm_that_learns_from_single_steps_is_refused(algorithm):
    env = Counted()
    if algorithm is SAC:
        env.action_space = spaces.Box(-1, 1, (1,), np.float32)
    with pytest.raises(TypeError, match="sample must be called without env: the algorithms of Stable-Baselines3"):
        model(algorithm, env).learn(60)


def test_observations_and_rewards_are_normalized():
    env = VecNormalize(DummyVecEnv([Counted] * 2))
    learner = model(FromSequences, env)
    learner.learn(60)
    buffer = learner.replay_buffer
    buffer.reseed(1)
    plain = buffer.sample(50)
    buffer.reseed(1)
    batch = buffer.sample(50, vec_normalize=env)
    np.testing.assert_array_equal(batch.observations, env.normalize_obs(plain.observations.numpy()))
    np.testing.assert_array_equal(batch.rewards, env.normalize_reward(plain.rewards.numpy()))


def test_steps_that_never_continue_each_other_are_warned_of_and_still_form_sequences():
    buffer, random = made(n_envs=1, sequences={"size": 3}), np.random.default_rng(0)

    def add(steps: int) -> None:
        for step in range(steps):
            row = random.normal(size=(2, 1, 3))
            buffer.add(*row, np.zeros((1, 1)), np.array([step / 2]), np.zeros(1), [{}])

    with pytest.warns(UserWarning, match="sequences: none of 32 steps begins where the one before ended"):
        add(40)
    assert numbers(buffer.sample(10)).shape == (10, 3)


class Doubled(sb3.SequenceReplayBuffer):
    def to_torch(self, array: np.ndarray, copy: bool = True) -> torch.Tensor:
        return super().to_torch(array, copy) * 2


def test_an_overridden_method_is_called():
    buffer, steps = Doubled(600, BOX, ACTIONS, "cpu", n_envs=N_ENVS, sequences={"size": 5}), Steps()
    steps.add([buffer], 30)
    batch = buffer.sample(40)
    assert (batch.observations[..., 0] == batch.rewards[..., 0] * 2).all()
    assert (batch.lengths == 5).all()


class Sampling(sb3.SequenceReplayBuffer):
    def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> Any:
        return super()._get_samples(batch_inds, env)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: made(exact=True), TypeError, "SequenceReplayBuffer has no option exact"),
        (lambda: made(sequences={"size": 5, "state": "h"}), TypeError, "sequences must not have 'state': add takes no"),
        (
            lambda: made(sequences={"size": 5, "done": "done"}),
            TypeError,
            "sequences must not have 'done': the arguments",
        ),
        (lambda: made(sequences={"size": 201}), ValueError, "must be at most 200, the steps that are stored of each"),
        (lambda: made(sequences={"steps": 2}), TypeError, "sequences must have no options but .*, got 'steps'"),
        (lambda: made(sequences=5), TypeError, "sequences must be a dict with 'size', got 5"),
        (lambda: Sampling(60, BOX, ACTIONS, sequences={"size": 5}), TypeError, "_get_samples must not be overridden"),
        (lambda: sb3.SequenceReplayBuffer(60, BOX, ACTIONS), TypeError, "sequences"),
    ],
)
def test_wrong_options_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("name", "value"),
    [("pos", 3), ("full", True), ("dones", np.zeros((200, 3))), ("timeouts", np.zeros((200, 3))), ("sequences", {})],
)
def test_attributes_that_would_tear_sequences_cannot_be_assigned(name, value):
    buffer, steps = made(), Steps()
    steps.add([buffer], 20)
    with pytest.raises(AttributeError, match=f"{name} cannot be"):
        setattr(buffer, name, value)
    buffer.reset()
    assert buffer.size() == 0
    with pytest.raises(ValueError, match="5 consecutive steps must be stored, got 0"):
        buffer.sample(3)
