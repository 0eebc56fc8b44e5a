"""The two ways to share cpprb between explorers and a learner.

`CpprbMP`: its MPPrioritizedReplayBuffer, made by the learner and handed to the explorers as an
argument, as its documentation on multiprocessing does.

`CpprbBehindOneLock`: what a first Ape-X does. A PrioritizedReplayBuffer lives in a manager process
(`SyncManager.register`, as in cpprb's documentation); everybody calls it through a proxy, and one
lock makes each call whole.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
from collections.abc import Sequence
from multiprocessing.managers import SyncManager
from typing import Any

import numpy as np

from adapters.base import Columns, Features, Spec, Step
from adapters.cpprb import FEATURES, CpprbAPI, env_dict
from adapters.lifeline import exit_with_parent


class CpprbMP(CpprbAPI):
    """Its explorers and learner are kept apart by a gate that is not atomic, and one learner is all it allows.

    If an explorer is killed or raises inside `add`, the learner waits for ever: give it a time limit.
    """

    name = "cpprb[MP]"
    distribution = "cpprb"
    last_python = (3, 12)
    usage = "MPPrioritizedReplayBuffer made by the learner, passed to forked explorers (cpprb docs, Multiprocess)"
    features = Features(n_step="no", processes="many explorers, one learner; shared memory", **FEATURES)

    def __init__(self, spec: Spec) -> None:
        from cpprb import MPPrioritizedReplayBuffer

        self.beta = spec.beta
        self.prioritized = True
        # Without a context of its own, cpprb fixes the start method of the whole process.
        context = multiprocessing.get_context("fork")
        self.buffer = MPPrioritizedReplayBuffer(
            spec.capacity, env_dict(spec.fields), alpha=spec.alpha, eps=self.eps, ctx=context
        )

    def close(self) -> None:
        # The default backend is anonymous shared memory: it is given back with the last reference.
        del self.buffer


class _Manager(SyncManager):
    """A manager of its own class, so that registering here changes no other manager."""


def _make_buffer(capacity: int, fields: dict[str, dict[str, Any]], alpha: float, eps: float) -> Any:
    from cpprb import PrioritizedReplayBuffer

    return PrioritizedReplayBuffer(capacity, fields, alpha=alpha, eps=eps)


_Manager.register(
    "PrioritizedReplayBuffer", _make_buffer, exposed=("add", "sample", "update_priorities", "get_stored_size")
)


class CpprbBehindOneLock(CpprbAPI):
    name = "cpprb[PER behind one lock]"
    distribution = "cpprb"
    last_python = (3, 12)
    usage = "PrioritizedReplayBuffer in a manager process (SyncManager.register), every call under one lock"
    features = Features(n_step="yes", processes="any, through a manager process; rows are pickled", **FEATURES)

    def __init__(self, spec: Spec) -> None:
        context = multiprocessing.get_context("fork")
        self.beta = spec.beta
        self.prioritized = True
        self.lock = context.Lock()
        # An abstract socket: a killed manager leaves no file behind.
        address = f"\0replaybench-{os.getpid()}-{secrets.token_hex(8)}"
        self.manager = _Manager(address=address, ctx=context)
        self.manager.start(exit_with_parent, (os.getpid(),))
        self.buffer = self.manager.PrioritizedReplayBuffer(spec.capacity, env_dict(spec.fields), spec.alpha, self.eps)

    def add(self, steps: Sequence[Step]) -> None:
        add, lock = self.buffer.add, self.lock
        for obs, act, rew, next_obs, done in steps:
            with lock:
                add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=done)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        with self.lock:
            super().add_batch(columns, priorities)

    def sample(self, batch_size: int) -> Columns:
        with self.lock:
            return super().sample(batch_size)

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        with self.lock:
            super().update_priorities(indexes, priorities)

    def __len__(self) -> int:
        with self.lock:
            return super().__len__()

    def close(self) -> None:
        del self.buffer
        self.manager.shutdown()
