"""The functions through which a `TogetherBuffer` is checked."""

from tests.check.together import TogetherBuffer as Buffer

SHARED = True


def make(capacity, seed):
    return Buffer(capacity, seed)


def add(buffer, obs, act, rew, next_obs, done):
    buffer.add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=done)


def sample(buffer, size):
    return buffer.sample(size)


def size(buffer):
    return len(buffer)
