"""PrioritizedReplayBuffer of OpenAI Baselines, and that of Stable-Baselines."""

import importlib.util

from stubs import hollow, mock

if importlib.util.find_spec("baselines"):
    hollow("baselines", "baselines.common", "baselines.deepq")
    from baselines.deepq.replay_buffer import PrioritizedReplayBuffer
else:
    hollow("stable_baselines", "stable_baselines.common")
    mock("gym", "tensorflow", "stable_baselines.common.vec_env")
    from stable_baselines.common.buffers import PrioritizedReplayBuffer


def make(capacity, alpha):
    return PrioritizedReplayBuffer(capacity, alpha)


def add(buffer, obs, act, rew, next_obs, done):
    buffer.add(obs, act, rew, next_obs, done)


def sample(buffer, size, beta=0.4):
    names = ("obs", "act", "rew", "next_obs", "done", "weights", "indexes")
    return dict(zip(names, buffer.sample(size, beta)))


def update(buffer, indexes, priorities):
    buffer.update_priorities(indexes, priorities)


def size(buffer):
    return len(buffer)
