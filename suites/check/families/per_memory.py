"""The Memory of many PER tutorials, such as rlcode/per: whole steps with an error each, updated one by one."""

import numpy as np

ALPHA, EPS = 0.6, 0.01


def make(capacity):
    return Buffer(capacity=capacity)


def add(buffer, obs, act, rew, next_obs, done, priority=1.0):
    buffer.add(error=priority, sample=(obs, act, rew, next_obs, done))


def sample(buffer, n):
    rows, indexes, weights = buffer.sample(n=n)
    columns = zip(("obs", "act", "rew", "next_obs", "done"), map(np.array, zip(*rows)))
    return {**dict(columns), "indexes": indexes, "weights": weights}


def update(buffer, indexes, priorities):
    for index, priority in zip(indexes, priorities, strict=True):
        buffer.update(idx=index, error=priority)


def size(buffer):
    return buffer.tree.n_entries
