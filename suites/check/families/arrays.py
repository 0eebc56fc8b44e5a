"""Spinning Up's ReplayBuffer, TD3's, and the many classes that allocate arrays of given dimensions or shapes.

Observations have one axis where the class takes a number of dimensions. Actions have one.
"""

import numpy as np

OPTIONAL = ("seed", "device", "beta", "alpha", "batch_size", "n_step", "gamma", "env_info_sizes", "env_info")
RETURNS = {
    "sample": "columns",
    "sample__not_done": "not_done",
    "sample__dict": "dict",
    "sample__object": "object",
    "sample__rows": "rows",
}
COLUMNS = ("obs", "act", "next_obs", "rew", "done", "weights", "indexes")
KEYS = {"obs": "obs", "next_obs": "obs2", "act": "act", "rew": "rew", "done": "done"}


def make(capacity, alpha, seed, n_step, gamma):
    return Buffer(
        obs_dim=4,
        act_dim=1,
        size=capacity,
        alpha=alpha,
        seed=seed,
        device="cpu",
        batch_size=8,
        n_step=n_step,
        gamma=gamma,
        env_info_sizes={},
    )


def make__shapes(capacity, obs_shape, alpha, seed, n_step, gamma):
    return Buffer(
        obs_shape=obs_shape,
        action_shape=(1,),
        capacity=capacity,
        alpha=alpha,
        seed=seed,
        device="cpu",
        batch_size=8,
        n_step=n_step,
        gamma=gamma,
    )


def make__shape_and_number(capacity, obs_shape, alpha, seed, n_step, gamma):
    return Buffer(
        obs_shape=obs_shape,
        act_dim=1,
        capacity=capacity,
        alpha=alpha,
        seed=seed,
        device="cpu",
        batch_size=8,
        n_step=n_step,
        gamma=gamma,
    )


def add(buffer, obs, act, rew, next_obs, done):
    buffer.store(obs=obs, act=np.array([act]), rew=rew, next_obs=next_obs, done=done, env_info={})


def add__terminated(buffer, obs, act, rew, next_obs, done):
    buffer.store(obs=obs, act=np.array([act]), rew=rew, next_obs=next_obs, terminated=done)


def add__both(buffer, obs, act, rew, next_obs, terminated, truncated):
    act = np.array([act])
    buffer.store(obs=obs, act=act, rew=rew, next_obs=next_obs, terminated=terminated, truncated=truncated)


def add__no_max(buffer, obs, act, rew, next_obs, done, terminated):
    act = np.array([act])
    buffer.add(obs=obs, action=act, reward=rew, next_obs=next_obs, done=done, done_no_max=terminated)


def whole(act):
    return act.astype(int) if (act % 1 == 0).all() else act  # stored as floats


def sample(buffer, n, beta=0.4):
    batch = dict(zip(COLUMNS, buffer.sample_batch(batch_size=n, beta=beta)))
    return batch | {"act": whole(np.asarray(batch["act"]))}


def sample__not_done(buffer, n, beta=0.4):
    batch = dict(zip(COLUMNS, buffer.sample_batch(batch_size=n, beta=beta)))
    return batch | {"act": whole(np.asarray(batch["act"])), "done": 1 - batch["not_done"]}


def sample__dict(buffer, n, beta=0.4):
    batch = buffer.sample_batch(batch_size=n, beta=beta)
    return {name: batch[key] for name, key in KEYS.items()} | {"act": whole(np.asarray(batch[KEYS["act"]]))}


def sample__object(buffer, n, beta=0.4):
    batch = buffer.sample_batch(batch_size=n, beta=beta)
    columns = {name: getattr(batch, key) for name, key in KEYS.items()}
    return columns | {"act": whole(np.asarray(columns["act"]))}


def sample__rows(buffer, n, beta=0.4):
    batch = dict(zip(COLUMNS, zip(*buffer.sample_batch(batch_size=n, beta=beta))))
    return batch | {"act": whole(np.asarray(batch["act"]))}


def update(buffer, indexes, priorities):
    buffer.update_priorities(idxes=indexes, priorities=priorities)


def size(buffer):
    return len(buffer)
