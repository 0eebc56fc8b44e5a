"""Classes whose batch size is an argument of the constructor, such as Udacity's ReplayBuffer: a tuple of columns."""

import numpy as np

OPTIONAL = (
    "obs_dim",
    "action_size",
    "seed",
    "device",
    "n_step",
    "gamma",
    "alpha",
    "beta",
    "beta_start",
    "beta_frames",
    "parallel_env",
)
RETURNS = {"sample": "columns", "sample__dict": "dict", "sample__rows": "rows"}
COLUMNS = ("obs", "act", "rew", "next_obs", "done", "weights", "indexes")
KEYS = {"obs": "obs", "act": "act", "rew": "rew", "next_obs": "next_obs", "done": "done"}


def make(capacity, seed, alpha, beta, n_step, gamma):
    return Buffer(
        obs_dim=4,
        action_size=5,
        buffer_size=capacity,
        batch_size=8,
        seed=seed,
        device="cpu",
        n_step=n_step,
        gamma=gamma,
        alpha=alpha,
        beta=beta,
        beta_start=beta,
        beta_frames=10**12,  # not annealed
        parallel_env=1,
    )


def add(buffer, obs, act, rew, next_obs, done):
    buffer.add(state=obs, action=act, reward=rew, next_state=next_obs, done=done)


def add__terminated(buffer, obs, act, rew, next_obs, done):
    buffer.add(state=obs, action=act, reward=rew, next_state=next_obs, terminated=done)


def whole(act):
    return act.astype(int) if (act % 1 == 0).all() else act  # stored as floats


def sample(buffer, n):
    buffer.batch_size = n
    return dict(zip(COLUMNS, buffer.sample()))


def sample__dict(buffer, n, beta=0.4):
    buffer.batch_size = n
    batch = buffer.sample(beta=beta)
    return {name: batch[key] for name, key in KEYS.items()} | {"act": whole(np.asarray(batch[KEYS["act"]]))}


def sample__rows(buffer, n):
    buffer.batch_size = n
    return dict(zip(COLUMNS, zip(*buffer.sample())))


def update(buffer, indexes, priorities):
    buffer.update_priorities(indexes=indexes, priorities=priorities)


def size(buffer):
    return len(buffer)
