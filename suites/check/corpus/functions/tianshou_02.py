"""Tianshou 0.2: PrioritizedReplayBuffer, which derives next_obs from the following row.

next_obs is left out of the batch, since a row whose episode goes on elsewhere has another one.
"""

import numpy as np
from stubs import hollow, mock

hollow("tianshou", "tianshou.data")
mock("tensorboard", "gym")
import tianshou.data  # noqa: E402
import tianshou.data.batch  # noqa: E402

tianshou.data.Batch = tianshou.data.batch.Batch
tianshou.data.to_numpy, tianshou.data.SegmentTree = np.asarray, None  # named by the module, not used by this buffer
from tianshou.data.buffer import PrioritizedReplayBuffer  # noqa: E402


def make(capacity, alpha, beta):
    return PrioritizedReplayBuffer(capacity, alpha=alpha, beta=beta, ignore_obs_next=True)


def add(buffer, obs, act, rew, next_obs, done, info=0):
    buffer.add(obs, act, rew, done, next_obs, {"number": info})


def sample(buffer, size):
    batch, indexes = buffer.sample(size)
    names = {"obs": batch.obs, "act": batch.act, "rew": batch.rew, "done": batch.done, "info": batch.info.number}
    return names | {"weights": batch.impt_weight, "indexes": indexes}


def at(buffer, indexes):
    batch = buffer[indexes]
    return {"obs": batch.obs, "act": batch.act, "rew": batch.rew, "done": batch.done, "info": batch.info.number}


def update(buffer, indexes, priorities):
    buffer.update_weight(indexes, priorities)


def size(buffer):
    return len(buffer)
