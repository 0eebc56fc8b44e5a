"""Stable-Baselines3's ReplayBuffer, and classes with the same constructor, such as CleanRL's."""

import numpy as np
from gymnasium import spaces

WAYS = {"optimize_memory_usage=True": {"optimize_memory_usage": True, "handle_timeout_termination": False}}


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, **options):
    obs = spaces.Box(-np.inf, np.inf, obs_shape, obs_dtype)
    act = spaces.Box(-np.inf, np.inf, act_shape, act_dtype) if act_shape else spaces.Discrete(5)
    return Buffer(capacity, obs, act, device="cpu", **options)


def add(buffer, obs, act, rew, next_obs, done, truncated):
    infos = [{"TimeLimit.truncated": True} if truncated else {}]
    buffer.add(obs[None], next_obs[None], np.array([act]), np.array([rew]), np.array([done]), infos)


def sample(buffer, size):
    batch = buffer.sample(size)
    names = {"obs": batch.observations, "act": batch.actions, "rew": batch.rewards}
    return names | {"next_obs": batch.next_observations, "done": batch.dones}


def size(buffer):
    return buffer.size()
