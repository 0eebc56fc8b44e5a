"""The functions through which a `PlainBuffer` is checked."""

from tests.check.plain import PlainBuffer as Buffer


def make(capacity, obs_shape, obs_dtype, act_shape, act_dtype, seed, prioritized, alpha, beta):
    return Buffer(capacity, obs_shape, obs_dtype, act_shape, act_dtype, seed, prioritized, alpha, beta)


def add(buffer, obs, act, rew, next_obs, done, priority=None):
    buffer.add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=done, priority=priority)


def add_batch(buffer, obs, act, rew, next_obs, done):
    buffer.add_batch(obs=obs, act=act, rew=rew, next_obs=next_obs, done=done)


def sample(buffer, size, beta=None):
    return buffer.sample(size, beta)


def update(buffer, indexes, priorities):
    buffer.update(indexes, priorities)


def size(buffer):
    return getattr(buffer, "counted", len(buffer))


def save(buffer, path):
    buffer.save(path)


def load(buffer, path):
    buffer.load(path)
