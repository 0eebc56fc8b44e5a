"""The two ways to share cpprb between explorers and a learner.

`CpprbMP`: MPReplayBuffer or MPPrioritizedReplayBuffer, created by the learner and passed to the explorers as an
argument, as in cpprb's documentation on multiprocessing.

`CpprbBehindOneLock`: what a first implementation of Ape-X would typically do. A buffer of the plain classes lives in a
manager process (`SyncManager.register`, as in cpprb's documentation). All processes call it through a proxy, under one
lock.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.managers import SyncManager
from typing import Any

from adapters.base import Spec
from adapters.behaviours import Empty, ReturnedBatch, Seed, StaleUpdate
from adapters.child_process import exit_with_parent
from adapters.contract import Processes, Stated, no
from adapters.peers.cpprb.adapter import CONTRACT, SEEN, CpprbAPI, options


class CpprbMP(CpprbAPI):
    """Allows one learner. A gate, which is not atomic, keeps it and the explorers apart.

    If an explorer is killed or raises inside `add`, the learner waits forever, so it needs a time limit.
    """

    name = "cpprb[MP]"
    distribution = "cpprb"
    last_python = (3, 12)
    usage = "its MP class, created by the learner and passed to forked explorers (cpprb docs, Multiprocess)"
    contract = replace(
        CONTRACT,
        n_step=no("takes the option and ignores it", SEEN),
        processes=Stated(Processes.ONE_LEARNER, "shared memory"),
        disk=no(evidence=SEEN),
        compression=no(),
        stale_update=StaleUpdate.IGNORED,
        empty=Empty.WAITS,
    )

    def __init__(self, spec: Spec) -> None:
        from cpprb import MPPrioritizedReplayBuffer, MPReplayBuffer

        super().__init__(spec)
        # Without an explicit context, cpprb sets the start method of the whole process.
        shared = {"ctx": multiprocessing.get_context("fork"), **options(spec)}
        if spec.prioritized:
            self.buffer = MPPrioritizedReplayBuffer(spec.capacity, alpha=spec.alpha, eps=self.contract.eps, **shared)
        else:
            self.buffer = MPReplayBuffer(spec.capacity, **shared)

    def close(self) -> None:
        # The default backend is anonymous shared memory: it is released with the last reference.
        del self.buffer


class _Manager(SyncManager):
    """A separate class, so that registering a method affects no other manager."""


def _make_buffer(kind: str, capacity: int, **options: Any) -> Any:
    import cpprb

    return getattr(cpprb, kind)(capacity, **options)


_Manager.register("buffer", _make_buffer, exposed=("add", "sample", "update_priorities", "get_stored_size"))


class _Locked:
    """Calls each method of a proxy under one lock."""

    def __init__(self, proxy: Any, lock: Any) -> None:
        self._proxy, self._lock = proxy, lock

    def __getattr__(self, name: str) -> Callable:
        method, lock = getattr(self._proxy, name), self._lock

        def call(*args: Any, **kwargs: Any) -> Any:
            with lock:
                return method(*args, **kwargs)

        return call


class CpprbBehindOneLock(CpprbAPI):
    name = "cpprb[PER behind one lock]"
    distribution = "cpprb"
    last_python = (3, 12)
    usage = "a buffer of a plain class in a manager process (SyncManager.register), every call under one lock"
    contract = replace(
        CONTRACT,
        processes=Stated(Processes.ANY, "through a manager process; rows are pickled"),
        compression=no(),
        returned_batch=ReturnedBatch.COPIES,  # rows are sent through a pipe
        seed=Seed.ALWAYS_THE_SAME,  # each manager is forked with the same state of NumPy's generator
    )

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        context = multiprocessing.get_context("fork")
        # An abstract socket: a killed manager leaves no file behind.
        address = f"\0replaybench-{os.getpid()}-{secrets.token_hex(8)}"
        self.manager = _Manager(address=address, ctx=context)
        self.manager.start(exit_with_parent, (os.getpid(),))
        if spec.prioritized:
            kind, priorities = "PrioritizedReplayBuffer", {"alpha": spec.alpha, "eps": self.contract.eps}
        else:
            kind, priorities = "ReplayBuffer", {}
        proxy = self.manager.buffer(kind, spec.capacity, **priorities, **options(spec))
        self.buffer = _Locked(proxy, context.Lock())

    def close(self) -> None:
        del self.buffer
        self.manager.shutdown()
