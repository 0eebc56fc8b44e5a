"""Stable-Baselines3: RolloutBuffer, an on-policy buffer.

It is emptied when it is full, and drawn from through a copy that is cut to its length, without replacement as far as
the rows suffice. Actions are left out, which are floats in all releases.
"""

import copy

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stubs import box


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype):
    act = box(spaces, act_shape, act_dtype) if act_shape else spaces.Discrete(5)
    return RolloutBuffer(capacity, box(spaces, obs_shape, obs_dtype), act, device="cpu")


def add(buffer, obs, act, rew, first=False):
    if buffer.full:
        buffer.reset()
    buffer.add(obs[None], np.array([act]), np.array([rew]), np.array([first]), torch.zeros(1), torch.zeros(1))


def sample(buffer, size):
    cut = copy.copy(buffer)
    for name in ("observations", "actions", "values", "log_probs", "advantages", "returns", "rewards"):
        setattr(cut, name, getattr(buffer, name)[: buffer.pos].copy())
    cut.returns[:] = cut.rewards
    cut.full, cut.buffer_size, cut.generator_ready = True, buffer.pos, False
    batches = [next(cut.get(size)) for _ in range(-(-size // buffer.pos))]
    names = {"obs": "observations", "rew": "returns"}
    return {name: torch.cat([getattr(each, theirs) for each in batches])[:size] for name, theirs in names.items()}


def size(buffer):
    return buffer.pos
