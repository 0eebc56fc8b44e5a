"""Stable-Baselines3's DictReplayBuffer, and classes with the same constructor; an observation has one entry."""

import numpy as np
from gymnasium import spaces

OPTIONAL = ("device", "infos")
ANNOTATED = {"observation_space": "Dict"}


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, **options):
    return Buffer(
        buffer_size=capacity,
        observation_space=spaces.Dict({"x": spaces.Box(0, 255, obs_shape, obs_dtype)}),
        action_space=spaces.Box(-1, 1, act_shape, act_dtype) if act_shape else spaces.Discrete(5),
        device="cpu",
        **options,
    )


def add(buffer, obs, act, rew, next_obs, done, truncated):
    buffer.add(
        obs={"x": obs[None]},
        next_obs={"x": next_obs[None]},
        action=np.array([act]),
        reward=np.array([rew]),
        done=np.array([done]),
        infos=[{"TimeLimit.truncated": truncated}],
    )


def sample(buffer, n):
    b = buffer.sample(batch_size=n)
    return {
        "obs": b.observations["x"],
        "act": b.actions,
        "rew": b.rewards,
        "next_obs": b.next_observations["x"],
        "done": b.dones,
    }


def size(buffer):
    return buffer.size()
