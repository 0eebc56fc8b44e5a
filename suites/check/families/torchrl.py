"""TorchRL's ReplayBuffer, PrioritizedReplayBuffer and their TensorDict versions, which need a storage."""

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, PrioritizedSampler

OPTIONAL = ("generator",)
EPS = 1e-8


def make(capacity, alpha, beta, seed):
    generator = torch.Generator().manual_seed(seed)
    return Buffer(storage=LazyTensorStorage(capacity), alpha=alpha, beta=beta, generator=generator)


def make__with_sampler(capacity, prioritized, alpha, beta, seed):
    return Buffer(
        storage=LazyTensorStorage(capacity),
        sampler=PrioritizedSampler(capacity, alpha, beta) if prioritized else None,
        generator=torch.Generator().manual_seed(seed),
    )


def add(buffer, obs, act, rew, next_obs, terminated, truncated, priority=None):
    row = {"obs": obs, "act": act, "rew": rew, "next_obs": next_obs, "done": terminated, "truncated": truncated}
    index = buffer.add(data=TensorDict(row))
    if priority is not None:
        buffer.update_priority(index=index, priority=priority)


def add_batch(buffer, obs, act, rew, next_obs, terminated, truncated):
    rows = {"obs": obs, "act": act, "rew": rew, "next_obs": next_obs, "done": terminated, "truncated": truncated}
    buffer.extend(TensorDict({name: torch.as_tensor(value) for name, value in rows.items()}, batch_size=[len(obs)]))


def columns(batch, info):
    drawn = {"weights": info["priority_weight"].view(-1), "indexes": info["index"]} if "priority_weight" in info else {}
    return {name: batch[name].numpy() for name in ("obs", "act", "rew", "next_obs", "done")} | drawn


def sample(buffer, n):
    return columns(*buffer.sample(batch_size=n, return_info=True))


def update(buffer, indexes, priorities):
    buffer.update_priority(index=indexes, priority=torch.as_tensor(priorities, dtype=torch.float32))


def size(buffer):
    return len(buffer)


def save(buffer, path):
    buffer.dumps(path)


def load(buffer, path):
    buffer.loads(path)
