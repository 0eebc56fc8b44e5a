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
    other.learn(16)
    own, count = other.replay_buffer, other.replay_buffer.size()
    with pytest.raises(
        ValueError, match=f"n_envs of the loaded buffer must be that of the model, {loaded}, got {saved}"
    ):
        other.load_replay_buffer(tmp_path / "steps.pkl")
    assert other.replay_buffer is own
    other.learn(16, reset_num_timesteps=False)
    assert own.size() == count + 16 // loaded


def prioritized(**options):
    env = DummyVecEnv([lambda: Ends(False, True)])
    return sb3.PrioritizedDQN("MlpPolicy", env, learning_starts=20, buffer_size=64, device="cpu", **options)


@pytest.mark.parametrize("content", ["none", "uniform"])
def test_a_prioritized_model_keeps_its_buffer_whatever_a_file_contains(content, tmp_path):
    saved = model_of("ReplayBuffer", 1).replay_buffer if content == "uniform" else content
    (tmp_path / "steps.pkl").write_bytes(pickle.dumps(saved))
    model = prioritized(gamma=0.9)
    own = model.replay_buffer
    with pytest.raises((TypeError, AssertionError)):
        model.load_replay_buffer(tmp_path / "steps.pkl")
    assert model.replay_buffer is own
    model.learn(16)


def test_a_buffer_with_another_discount_than_the_model_is_refused(tmp_path):
    saved, other = (prioritized(gamma=gamma, n_steps=3) for gamma in (0.9, 0.8))
    saved.save_replay_buffer(tmp_path / "steps.pkl")
    own = other.replay_buffer
    with pytest.raises(ValueError, match=r"gamma of the loaded buffer must be that of the model, 0\.8, got 0\.9"):
        other.load_replay_buffer(tmp_path / "steps.pkl")
    assert other.replay_buffer is own
    saved.load_replay_buffer(tmp_path / "steps.pkl")


def test_the_table_has_every_class():
    assert KINDS.keys() == {name for name in sb3.__all__ if name.endswith("Buffer")}
    assert issubclass(sb3.HerReplayBuffer, HerReplayBuffer)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_the_device_is_kept_and_can_be_set(copied):
    buffer = copied(model_of("ReplayBuffer", 2).replay_buffer)
    assert buffer.device == torch.device("cpu")
    buffer.device = torch.device("meta")
    assert buffer.device.type == "meta"
