"""OpenAI Baselines: PrioritizedReplayBuffer."""

from stubs import hollow

hollow("baselines", "baselines.common", "baselines.deepq")
from baselines.deepq.replay_buffer import PrioritizedReplayBuffer  # noqa: E402


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
