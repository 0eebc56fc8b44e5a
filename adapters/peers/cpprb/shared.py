"""Five ways to share cpprb between explorers and a learner.

`CpprbMP`: MPReplayBuffer or MPPrioritizedReplayBuffer, created by the learner and passed to the explorers as an
argument, as in cpprb's documentation on multiprocessing.

`CpprbMPBehindOneLock`: the same, but each call is under one lock. It differs from `CpprbMP` only in the scope of the
lock. cpprb's author made the same comparison.

`CpprbBehindOneLock`: as in a typical first implementation of Ape-X. A buffer of a plain class lives in a manager
process (`SyncManager.register`, as in cpprb's documentation). All processes call it through a proxy, under one lock.

`CpprbTf2rl`: the same, except that the lock also lives in the manager, as in tf2rl 1.1.5 (`tf2rl/algos/apex.py`).
Locking and unlocking therefore take two more messages.

`CpprbQueue`: the learner's own buffer. Explorers send their rows to the learner through a multiprocessing.Queue.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.managers import SyncManager
from typing import Any

import numpy as np

from adapters.base import Columns, Spec, Step
from adapters.behaviours import Empty, ReturnedBatch, Seed, StaleUpdate
from adapters.child_process import exit_with_parent
from adapters.contract import Processes, Stated, no
from adapters.peers.cpprb.adapter import CONTRACT, SEEN, Cpprb, CpprbAPI, options


class CpprbMP(CpprbAPI):
    """Allows one learner. A gate is meant to exclude the learner while explorers add, and vice versa, but it is not
    atomic.

    If an explorer is killed or raises inside `add`, the learner waits forever, so it needs a time limit.
    """

    name = "cpprb[MP]"
    distribution = "cpprb"
    last_python = (3, 12)
    usage = "its MP class, created by the learner and passed to forked explorers (cpprb docs, Multiprocess)"
    contract = replace(
        CONTRACT,
        n_step=no("accepts the option and ignores it", SEEN),
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
        # The default backend is anonymous shared memory, which is released with the last reference to it.
        del self.buffer


class _Locked:
    """Calls each method of a buffer under one lock."""

    def __init__(self, buffer: Any, lock: Any) -> None:
        self._buffer, self._lock = buffer, lock

    def __getattr__(self, name: str) -> Callable:
        method, lock = getattr(self._buffer, name), self._lock

        def call(*args: Any, **kwargs: Any) -> Any:
            with lock:
                return method(*args, **kwargs)

        return call


class CpprbMPBehindOneLock(CpprbMP):
    name = "cpprb[MP behind one lock]"
    usage = "its MP class as in cpprb[MP], but every call under one lock: only the scope of the lock differs"

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.buffer = _Locked(self.buffer, multiprocessing.get_context("fork").Lock())


class _Manager(SyncManager):
    """A separate class, so that registering a method affects no other manager."""


def _make_buffer(kind: str, capacity: int, **options: Any) -> Any:
    import cpprb

    return getattr(cpprb, kind)(capacity, **options)


_Manager.register("buffer", _make_buffer, exposed=("add", "sample", "update_priorities", "get_stored_size"))


class CpprbBehindOneLock(CpprbAPI):
    name = "cpprb[PER behind one lock]"
    distribution = "cpprb"
    last_python = (3, 12)
    usage = (
        "a buffer of a plain class in a manager process (SyncManager.register), every call under one lock; priorities "
        "with check_for_update=True"
    )
    contract = replace(
        CONTRACT,
        processes=Stated(Processes.ANY, "through a manager process; rows are pickled"),
        compression=no(),
        returned_batch=ReturnedBatch.COPIES,  # rows are sent through a pipe
        seed=Seed.ALWAYS_THE_SAME,  # each manager is forked with the same state of NumPy's generator
        stale_update=StaleUpdate.IGNORED,
    )

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        context = multiprocessing.get_context("fork")
        # An abstract socket: a killed manager leaves no file behind.
        address = f"\0replaybench-{os.getpid()}-{secrets.token_hex(8)}"
        self.manager = _Manager(address=address, ctx=context)
        self.manager.start(exit_with_parent, (os.getpid(),))
        if spec.prioritized:
            kind = "PrioritizedReplayBuffer"
            priorities = {"alpha": spec.alpha, "eps": self.contract.eps, "check_for_update": True}
        else:
            kind, priorities = "ReplayBuffer", {}
        proxy = self.manager.buffer(kind, spec.capacity, **priorities, **options(spec))
        self.buffer = _Locked(proxy, self.lock(context))

    def lock(self, context: Any) -> Any:
        return context.Lock()

    def close(self) -> None:
        del self.buffer
        self.manager.shutdown()


class CpprbTf2rl(CpprbBehindOneLock):
    name = "cpprb[tf2rl]"
    usage = "as in cpprb[PER behind one lock], but with tf2rl 1.1.5's lock, which lives in the manager"

    def lock(self, context: Any) -> Any:
        return self.manager.Lock()


class CpprbQueue(Cpprb):
    """Before each sample, the learner stores the batches that have arrived. Explorers wait while the queue is full, and
    can only end while the learner reads from it."""

    name = "cpprb[queue]"
    usage = "a buffer of a plain class in the learner; explorers send their rows through a multiprocessing.Queue"
    contract = replace(
        CONTRACT, processes=Stated(Processes.ONE_LEARNER, "the learner's process; rows are pickled"), compression=no()
    )
    BATCHES = 64  # the capacity of the queue

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.learner, self.arriving = os.getpid(), multiprocessing.get_context("fork").Queue(self.BATCHES)

    def _is_learner(self) -> bool:
        return os.getpid() == self.learner

    def add(self, steps: Sequence[Step]) -> None:
        if self._is_learner():
            super().add(steps)
        else:
            for step in steps:
                self._send(dict(zip(Step._fields, step, strict=True)))

    def add_dicts(self, steps: Sequence[dict]) -> None:
        if self._is_learner():
            super().add_dicts(steps)
        else:
            for step in steps:
                self._send(step)

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        if self._is_learner():
            super().add_with_priorities(steps, priorities)
        else:
            for step, priority in zip(steps, priorities, strict=True):
                self._send({**dict(zip(Step._fields, step, strict=True)), "priorities": priority})

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        if self._is_learner():
            super().add_batch(columns, priorities)
        else:
            self._send(columns if priorities is None else {**columns, "priorities": priorities})

    def _send(self, rows: dict[str, Any]) -> None:
        # Copies, because a thread pickles them later, when the caller may already be reusing its arrays.
        self.arriving.put({name: np.array(column) for name, column in rows.items()})

    def serve(self) -> None:
        # Take at most as many batches as are queued now, since more may keep arriving. Some of these may not have
        # arrived yet, since a thread of the explorer sends them.
        with suppress(queue.Empty):
            for _ in range(self.arriving.qsize()):
                self.buffer.add(**self.arriving.get_nowait())

    @property
    def sample(self) -> Callable[[int], Columns]:
        sample = super().sample

        def receive_and_sample(batch_size: int) -> Columns:
            self.serve()
            return sample(batch_size)

        return receive_and_sample

    def __len__(self) -> int:
        self.serve()
        return super().__len__()

    def close(self) -> None:
        self.arriving.close()
