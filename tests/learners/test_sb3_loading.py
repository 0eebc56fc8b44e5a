"""A saved buffer of another number of environments is refused when it is loaded, not later, in `learn`."""

from __future__ import annotations

import copy
import pickle

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, SAC, HerReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv

from cpprb_impl import sb3


class Ends(gymnasium.Env):
    """Episodes of 3 steps, with actions of either kind and, on request, goals."""

    def __init__(self, goals, discrete):
        seen = spaces.Box(-1, 1, (2,), np.float32)
        parts = dict.fromkeys(("observation", "achieved_goal", "desired_goal"), seen)
        self.goals, self.observation_space = goals, spaces.Dict(parts) if goals else seen
        self.action_space = spaces.Discrete(2) if discrete else spaces.Box(-1, 1, (1,), np.float32)
        self.step_number = 0

    def seen(self):
        zeros = np.zeros(2, np.float32)
        return dict.fromkeys(self.observation_space.spaces, zeros) if self.goals else zeros

    def reset(self, *, seed=None, options=None):
        self.step_number = 0
        return self.seen(), {}

    def step(self, action):
        self.step_number += 1
        return self.seen(), 0.0, self.step_number == 3, False, {}

    def compute_reward(self, achieved, desired, info):
        return np.zeros(len(achieved))


KINDS = {
    "ReplayBuffer": (SAC, False),
    "DictReplayBuffer": (SAC, True),
    "NStepReplayBuffer": (SAC, False),
    "HerReplayBuffer": (SAC, True),
    "PrioritizedReplayBuffer": (DQN, False),
}


def model_of(kind, n_envs):
    algorithm, goals = KINDS[kind]
    buffer = getattr(sb3, kind)
    envs = DummyVecEnv([lambda: Ends(goals, algorithm is DQN)] * n_envs)
    options = {"learning_starts": 20, "buffer_size": 64, "device": "cpu", "replay_buffer_class": buffer}
    return algorithm("MultiInputPolicy" if goals else "MlpPolicy", envs, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("saved", "loaded"), [(1, 4), (4, 1), (2, 2)])
def test_another_number_of_environments_is_refused(kind, saved, loaded, tmp_path):
    model = model_of(kind, saved)
    model.learn(16)
    model.save_replay_buffer(tmp_path / "steps.pkl")
    other = model_of(kind, loaded)
    if saved == loaded:
        other.load_replay_buffer(tmp_path / "steps.pkl")
        other.learn(16)
        return
    with pytest.raises(
        ValueError, match=f"n_envs of the loaded buffer must be that of the model, {loaded}, got {saved}"
    ):
        other.load_replay_buffer(tmp_path / "steps.pkl")


def test_the_table_has_every_class():
    assert KINDS.keys() == {name for name in sb3.__all__ if name.endswith("Buffer")}
    assert issubclass(sb3.HerReplayBuffer, HerReplayBuffer)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_the_device_is_kept_and_can_be_set(copied):
    buffer = copied(model_of("ReplayBuffer", 2).replay_buffer)
    assert buffer.device == torch.device("cpu")
    buffer.device = torch.device("meta")
    assert buffer.device.type == "meta"
