"""Stable-Baselines3: ReplayBuffer. Since 1.1, `add` takes the infos, which name time limits."""

import inspect

import numpy as np
from stubs import box, mock

mock("gymnasium.wrappers.monitoring", "gymnasium.wrappers.monitoring.video_recorder")
from stable_baselines3.common.buffers import ReplayBuffer, spaces  # noqa: E402

WAYS = {"optimize_memory_usage=True": {"optimize_memory_usage": True}}
TAKES_INFOS = "infos" in inspect.signature(ReplayBuffer.add).parameters


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, **options):
    act = box(spaces, act_shape, act_dtype) if act_shape else spaces.Discrete(5)
    try:
        return ReplayBuffer(capacity, box(spaces, obs_shape, obs_dtype), act, device="cpu", **options)
    except ValueError as refused:  # since 1.6, with optimize_memory_usage
        raise NotImplementedError(str(refused)) from refused


def add(buffer, obs, act, rew, next_obs, done, truncated):
    infos = [[{"TimeLimit.truncated": True} if truncated else {}]] if TAKES_INFOS else []
    buffer.add(obs[None], next_obs[None], np.array([act]), np.array([rew]), np.array([done]), *infos)


def sample(buffer, size):
    batch = buffer.sample(size)
    names = {"obs": batch.observations, "act": batch.actions, "rew": batch.rewards}
    return names | {"next_obs": batch.next_observations, "done": batch.dones}


def size(buffer):
    return buffer.size()
