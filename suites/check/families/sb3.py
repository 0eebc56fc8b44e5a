"""Stable-Baselines3's ReplayBuffer, and classes with the same constructor, such as CleanRL's."""

import numpy as np
from gymnasium import spaces

OPTIONAL = ("device", "infos")
WAYS = {"optimize_memory_usage": {"optimize_memory_usage": True, "handle_timeout_termination": False}}


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, **options):
    return Buffer(
        buffer_size=capacity,
        observation_space=spaces.Box(0, 255, obs_shape, obs_dtype),
        action_space=spaces.Box(-1, 1, act_shape, act_dtype) if act_shape else spaces.Discrete(5),
        device="cpu",
        **options,
    )


def add(buffer, obs, act, rew, next_obs, done, truncated):
    buffer.add(
        obs=obs[None],
        next_obs=next_obs[None],
        action=np.array([act]),
        reward=np.array([rew]),
        done=np.array([done]),
        infos=[{"TimeLimit.truncated": truncated}],
    )


def sample(buffer, n):
    b = buffer.sample(batch_size=n)
    return {
        "obs": b.observations,
        "act": b.actions,
        "rew": b.rewards,
        "next_obs": b.next_observations,
        "done": b.dones,
    }


def size(buffer):
    return buffer.size()
