"""Tianshou's ReplayBuffer, PrioritizedReplayBuffer and their vector versions: Batches."""

import numpy as np
from tianshou.data import Batch

OPTIONAL = ("alpha", "beta", "buffer_num", "stack_num", "random_seed")
EPS = 2.0**-23  # of float32
WAYS = {
    "stack_num": {"stack": 4},
    "ignore_obs_next": {"ignore_obs_next": True},
    "stack_num and ignore_obs_next": {"stack": 4, "ignore_obs_next": True},
    "stack_num and save_only_last_obs": {"stack": 4, "save_only_last_obs": True, "kind": "OfStacks"},
}


class OfStacks(Buffer):
    """A buffer that is passed single frames, and given stacks, of which it keeps the last frame."""

    def add(self, batch, buffer_ids):
        batch.obs, batch.obs_next = batch.obs[:, None], batch.obs_next[:, None]
        return super().add(batch, buffer_ids)


def make(capacity, alpha, beta, envs, stack, seed, kind="Buffer", **options):
    return globals()[kind](
        size=capacity, buffer_num=envs, alpha=alpha, beta=beta, stack_num=stack, random_seed=seed, **options
    )


def add(buffer, obs, act, rew, next_obs, terminated, truncated, env):
    row = {"obs": [obs], "act": [act], "rew": [rew], "terminated": [terminated], "truncated": [truncated]}
    buffer.add(batch=Batch(obs_next=[next_obs], **row), buffer_ids=[env])


def add__prioritized(buffer, obs, act, rew, next_obs, terminated, truncated, env, priority=None):
    row = {"obs": [obs], "act": [act], "rew": [rew], "terminated": [terminated], "truncated": [truncated]}
    index = buffer.add(batch=Batch(obs_next=[next_obs], **row), buffer_ids=[env])[0]
    if priority is not None:
        buffer.update_weight(index=index, new_weight=np.array([priority]))


def sample(buffer, n):
    b, _ = buffer.sample(batch_size=n)
    obs, next_obs = (np.moveaxis(x, 1, -1) if buffer.stack_num > 1 else x for x in (b.obs, b.obs_next))
    return {"obs": obs, "act": b.act, "rew": b.rew, "next_obs": next_obs, "done": b.terminated}


def sample__prioritized(buffer, n):
    b, indexes = buffer.sample(batch_size=n)
    obs, next_obs = (np.moveaxis(x, 1, -1) if buffer.stack_num > 1 else x for x in (b.obs, b.obs_next))
    columns = {"obs": obs, "act": b.act, "rew": b.rew, "next_obs": next_obs, "done": b.terminated}
    return {**columns, "weights": b.weight, "indexes": indexes}


def update(buffer, indexes, priorities):
    buffer.update_weight(index=indexes, new_weight=priorities)


def size(buffer):
    return len(buffer)


def save(buffer, path):
    buffer.save_hdf5(path)


def load(buffer, path):
    buffer.__setstate__(type(buffer).load_hdf5(path).__getstate__())
