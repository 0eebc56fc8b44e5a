"""Trainings of Stable-Baselines3 reach bit-identical weights with our buffers and with the original ones."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import DQN, SAC, TD3, HerReplayBuffer
from stable_baselines3.common import buffers as theirs
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from cpprb_impl import sb3
from tests.integrations.tasks import Goals, Pictures, Rooms

FIRST = 100  # steps before the first update


@dataclass(frozen=True)
class Training:
    algorithm: type[BaseAlgorithm]
    policy: str
    env: Any
    n_envs: int = 1
    buffer: str = "ReplayBuffer"
    size: int = 150  # fewer than the steps of a training, so that rows are overwritten
    normalize: bool = False
    policy_options: dict[str, Any] = field(default_factory=lambda: {"net_arch": [32]})
    buffer_options: dict[str, Any] = field(default_factory=dict)

    def run(self, buffer: type, updates: int, **options: Any) -> list[np.ndarray]:
        """Train for about as many steps as updates, and return the weights."""
        torch.manual_seed(0)
        env = make_vec_env(self.env, n_envs=self.n_envs, seed=0)
        model = self.algorithm(
            self.policy,
            VecNormalize(env) if self.normalize else env,
            seed=0,
            device="cpu",
            batch_size=16,
            train_freq=1,
            gradient_steps=-1,  # one per step of the environment
            learning_starts=FIRST,
            buffer_size=self.size,
            policy_kwargs=copy.deepcopy(self.policy_options),  # a copy, since Stable-Baselines3 changes it
            replay_buffer_class=buffer,
            **options,
        )
        model.learn(FIRST + updates)
        assert model._n_updates >= updates
        assert isinstance(model.replay_buffer, buffer) and model.replay_buffer.full
        return [value.numpy().copy() for value in model.policy.state_dict().values()]


CNN = {"features_extractor_kwargs": {"features_dim": 32}}
TRAININGS = {
    "DQN": Training(DQN, "MlpPolicy", "CartPole-v1"),
    "DQN, 8 environments": Training(DQN, "MlpPolicy", "CartPole-v1", n_envs=8),
    "DQN, pictures": Training(DQN, "CnnPolicy", Pictures, n_envs=2, size=120, policy_options=CNN),
    "DQN, numbers": Training(DQN, "MlpPolicy", Rooms, n_envs=3),
    "SAC": Training(SAC, "MlpPolicy", "Pendulum-v1"),
    "SAC, dict": Training(SAC, "MultiInputPolicy", Goals, n_envs=2, buffer="DictReplayBuffer"),
    "SAC, HER": Training(SAC, "MultiInputPolicy", Goals, n_envs=2, buffer="HerReplayBuffer"),
    "TD3, normalized": Training(TD3, "MlpPolicy", "Pendulum-v1", n_envs=2, normalize=True),
    "DQN, n-step": Training(
        DQN, "MlpPolicy", "CartPole-v1", n_envs=2, buffer="NStepReplayBuffer", buffer_options={"n_steps": 3}
    ),
}
ALWAYS_EXACT = ("HerReplayBuffer", "NStepReplayBuffer")


@functools.cache
def expected(name: str, updates: int) -> list[np.ndarray]:
    training = TRAININGS[name]
    buffer = HerReplayBuffer if training.buffer == "HerReplayBuffer" else getattr(theirs, training.buffer)
    return training.run(buffer, updates, replay_buffer_kwargs=training.buffer_options)


@pytest.mark.parametrize("updates", [100, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TRAININGS)
@pytest.mark.parametrize("frames_once", [False, True])
def test_the_weights_are_bit_identical(name, frames_once, updates):
    training = TRAININGS[name]
    options = training.buffer_options | ({} if training.buffer in ALWAYS_EXACT else {"exact": True})
    found = training.run(
        getattr(sb3, training.buffer), updates, replay_buffer_kwargs=options, optimize_memory_usage=frames_once
    )
    for ours, other in zip(found, expected(name, updates), strict=True):
        np.testing.assert_array_equal(ours, other)


@pytest.mark.parametrize("updates", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_weights_are_bit_identical_with_compressed_frames(updates):
    options = {"exact": True, "compress": "lz4"}
    found = TRAININGS["DQN, pictures"].run(
        sb3.ReplayBuffer, updates, replay_buffer_kwargs=options, optimize_memory_usage=True
    )
    for ours, other in zip(found, expected("DQN, pictures", updates), strict=True):
        np.testing.assert_array_equal(ours, other)


def test_different_draws_yield_different_weights():
    """A control for the test above."""
    found = TRAININGS["DQN"].run(sb3.ReplayBuffer, 100)
    assert any((ours != other).any() for ours, other in zip(found, expected("DQN", 100), strict=True))
