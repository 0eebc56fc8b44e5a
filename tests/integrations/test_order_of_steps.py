"""Buffers inside other libraries warn once of steps in a wrong order, as those of the core do."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from tensordict import TensorDict

from cpprb_impl import cleanrl, sb3, torchrl
from tests.integrations.tasks import Rooms

BOX, DISCRETE = spaces.Box(-1e6, 1e6, (2,), np.float32), spaces.Discrete(2)
DICT = spaces.Dict({"goal": BOX, "at": BOX})
# For each class: how it is made, and the space of its observations.
KINDS = {
    "sb3.ReplayBuffer": (sb3.ReplayBuffer, BOX, {}),
    "sb3.DictReplayBuffer": (sb3.DictReplayBuffer, DICT, {}),
    "sb3.NStepReplayBuffer": (sb3.NStepReplayBuffer, BOX, {}),
    "sb3.PrioritizedReplayBuffer": (sb3.PrioritizedReplayBuffer, BOX, {}),
    "sb3.ReplayBuffer, stored once": (
        sb3.ReplayBuffer,
        BOX,
        {"optimize_memory_usage": True, "handle_timeout_termination": False},
    ),
    "cleanrl.ReplayBuffer": (cleanrl.ReplayBuffer, BOX, {}),
    "cleanrl.ReplayBuffer, stored once": (cleanrl.ReplayBuffer, BOX, {"optimize_memory_usage": True}),
}
STORED_ONCE = [name for name in KINDS if "stored once" in name]


def messages(buffer, steps) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for step in steps:
            buffer.add(*step)
    return [str(each.message) for each in seen]


def made(name: str, n_envs: int):
    kind, space, options = KINDS[name]
    return kind(1000, space, DISCRETE, "cpu", n_envs=n_envs, **options)


def steps(name: str, n_envs: int, mode: str):
    """Return steps of environments with episodes of 5 steps, in a mode of Gymnasium's vector environments."""
    at, episode = np.zeros(n_envs), np.arange(float(n_envs))

    def observation(at, episode):
        values = np.stack([episode, at], 1).astype(np.float32)
        return {"goal": values * 0, "at": values} if KINDS[name][1] is DICT else values

    for _ in range(40):
        over = at == 5
        obs = observation(at, episode)
        if mode == "SAME_STEP" and over.all():
            at, episode = at * 0, episode + n_envs
            obs = observation(at, episode)
            over = over & False
        new_at, new_episode = np.where(over, 0, at + 1), np.where(over, episode + n_envs, episode)
        ends = (new_at == 5).astype(np.float32)
        yield obs, observation(new_at, new_episode), np.zeros((n_envs, 1), int), np.ones(n_envs), ends, [{}] * n_envs
        at, episode = new_at, new_episode


@pytest.mark.parametrize("n_envs", [1, 2])
@pytest.mark.parametrize("name", KINDS)
def test_rows_that_only_reset_an_environment_cause_one_warning(name, n_envs):
    (message,) = messages(made(name, n_envs), steps(name, n_envs, "NEXT_STEP"))
    assert "each row after the end of an episode begins with the next_*" in message
    assert messages(made(name, n_envs), steps(name, n_envs, "SAME_STEP")) == []


@pytest.mark.parametrize("name", KINDS)
def test_warnings_name_the_line_of_the_user(name):
    """Python shows each warning once per line.

    A warning that named a line of this package would therefore hide the warnings of later buffers.
    """
    buffer = made(name, 1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for step in steps(name, 1, "NEXT_STEP"):
            obs, next_obs, _, *others = step
            buffer.add(obs, next_obs, np.full((1, 1), 0.5), *others)
    assert len(seen) == 2
    assert {each.filename for each in seen} == {__file__}


def test_warnings_of_a_training_name_the_line_that_starts_it():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            model = DQN("MlpPolicy", make_vec_env(Rooms, 1, seed=0), replay_buffer_class=Halves, device="cpu")
            model.learn(3)
    found = [each for each in seen if "its dtype is" in str(each.message)]
    assert len(found) == 2
    assert {each.filename for each in found} == {__file__}


class Halves(sb3.ReplayBuffer):
    def add(self, obs, next_obs, action, *others):
        super().add(obs, next_obs, np.full((1, 1), 0.5), *others)


@pytest.mark.parametrize("name", STORED_ONCE)
@pytest.mark.parametrize("stride", [1, 2])
def test_steps_of_several_environments_cause_one_warning(name, stride):
    def row(step: float) -> np.ndarray:
        return np.full((1, 2), step, np.float32)

    rows = [(row(i), row(i + stride), np.zeros((1, 1), int), np.ones(1), np.zeros(1), [{}]) for i in range(100)]
    found = messages(made(name, 1), rows)
    assert ["none of 32 steps begins where the one before ended" in message for message in found] == [True] * (
        stride - 1
    )


@pytest.mark.parametrize("prioritized", [True, False])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("once", [True, False])
def test_the_buffer_for_torchrl_warns_only_if_values_are_to_be_stored_once(prioritized, stride, once):
    kind = torchrl.TensorDictPrioritizedReplayBuffer if prioritized else torchrl.TensorDictReplayBuffer
    options = {"alpha": 0.6, "beta": 0.4} if prioritized else {}
    buffer = kind(1000, batch_size=2, optimize_memory_usage=once, **options)
    rows = torch.arange(400.0).reshape(100, 4)
    data = TensorDict({"o": rows, "next": {"o": rows + 4 * stride}}, batch_size=[100])
    with warnings.catch_warnings(record=True) as seen:
        buffer.extend(data)
    assert ["none of 32 steps begins" in str(each.message) for each in seen] == [True] * (once and stride == 2)
