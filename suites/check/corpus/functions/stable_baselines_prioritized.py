"""Stable-Baselines: PrioritizedReplayBuffer."""

from stubs import hollow, mock

hollow("stable_baselines", "stable_baselines.common")
mock("gym", "tensorflow", "stable_baselines.common.vec_env")
from stable_baselines.common.buffers import PrioritizedReplayBuffer  # noqa: E402


def make(capacity, alpha):
    return PrioritizedReplayBuffer(capacity, alpha)


def add(buffer, obs, act, rew, next_obs, done):
    buffer.add(obs, act, rew, next_obs, done)


def sample(buffer, size, beta=0.4):
    names = ("obs", "act", "rew", "next_obs", "done", "weights", "indexes")
    return dict(zip(names, buffer.sample(size, beta=beta)))


def update(buffer, indexes, priorities):
    buffer.update_priorities(indexes, priorities)


def size(buffer):
    return len(buffer)
