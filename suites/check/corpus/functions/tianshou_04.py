"""Tianshou 0.4: PrioritizedReplayBuffer."""

import numpy as np
from stubs import hollow, mock

hollow("tianshou")
mock("numba", "h5py", "gym", "tensorboard")
from tianshou.data import Batch, PrioritizedReplayBuffer  # noqa: E402

EPS = np.finfo(np.float32).eps


def make(capacity, alpha, beta):
    return PrioritizedReplayBuffer(capacity, alpha=alpha, beta=beta)


def add(buffer, obs, act, rew, next_obs, done):
    buffer.add(Batch(obs=obs, act=act, rew=rew, done=done, obs_next=next_obs, info={}))


def sample(buffer, size):
    batch, indexes = buffer.sample(size)
    names = {"obs": batch.obs, "act": batch.act, "rew": batch.rew, "next_obs": batch.obs_next, "done": batch.done}
    return names | {"weights": batch.weight, "indexes": indexes}


def update(buffer, indexes, priorities):
    buffer.update_weight(indexes, priorities)


def size(buffer):
    return len(buffer)
