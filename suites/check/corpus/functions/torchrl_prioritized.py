"""TorchRL: ReplayBuffer with a PrioritizedSampler."""

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers.samplers import PrioritizedSampler

EPS = 1e-8


def make(capacity, alpha, beta):
    sampler = PrioritizedSampler(capacity, alpha=alpha, beta=beta, eps=EPS)
    return ReplayBuffer(storage=LazyTensorStorage(capacity), sampler=sampler, batch_size=16)


def add(buffer, obs, act, rew, next_obs, done):
    row = {"obs": obs, "act": act, "rew": rew, "next_obs": next_obs, "done": done}
    buffer.add(TensorDict({name: torch.as_tensor(value) for name, value in row.items()}, []))


def sample(buffer, size):
    batch, info = buffer.sample(size, return_info=True)
    names = {name: batch[name] for name in ("obs", "act", "rew", "next_obs", "done")}
    return names | {"weights": info["priority_weight"], "indexes": info["index"]}


def update(buffer, indexes, priorities):
    buffer.update_priority(indexes, torch.as_tensor(priorities, dtype=torch.float32))


def size(buffer):
    return len(buffer)
