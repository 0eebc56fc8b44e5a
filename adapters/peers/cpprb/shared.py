"""The two ways to share cpprb between explorers and a learner.

`CpprbMP`: its MPReplayBuffer or MPPrioritizedReplayBuffer, made by the learner and handed to the explorers as
an argument, as its documentation on multiprocessing does.

`CpprbBehindOneLock`: what a first Ape-X does. A buffer of the plain classes lives in a manager process
(`SyncManager.register`, as in cpprb's documentation); everybody calls it through a proxy, and one
lock makes each call whole.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.managers import SyncManager
from typing import Any

from adapters.base import Features, Spec
from adapters.child_process import exit_with_parent
from adapters.peers.cpprb.adapter import DISK, FEATURES, LAST_RELEASE, PROMISES, SEEN, CpprbAPI, options


class CpprbMP(CpprbAPI):
    """Its explorers and learner are kept apart by a gate that is not atomic, and one learner is all it allows.

    If an explorer is killed or raises inside `add`, the learner waits for ever: give it a time limit.
    """

    name = "cpprb[MP]"
    promises = replace(PROMISES, stale_update="ignored", empty="waits")
    distribution = "cpprb"
    last_python = (3, 12)
    usage = "its MP class made by the learner, passed to forked explorers (cpprb docs, Multiprocess)"
    features = Features(
        n_step=f"no: takes the option and ignores it {SEEN}",
        processes="many explorers, one learner; shared memory",
        disk=f"no {SEEN}",
        last_release=LAST_RELEASE,
        **FEATURES,
    )

    def __init__(self, spec: Spec) -> None:
        from cpprb import MPPrioritizedReplayBuffer, MPReplayBuffer

        super().__init__(spec)
        # Without a context of its own, cpprb fixes the start method of the whole process.
        shared = {"ctx": multiprocessing.get_context("fork"), **options(spec)}
        if spec.prioritized:
            self.buffer = MPPrioritizedReplayBuffer(spec.capacity, alpha=spec.alpha, eps=self.eps, **shared)
        else:
            self.buffer = MPReplayBuffer(spec.capacity, **shared)

    def close(self) -> None:
        # The default backend is anonymous shared memory: it is given back with the last reference.
        del self.buffer


class _Manager(SyncManager):
    """A manager of its own class, so that registering here changes no other manager."""


def _make_buffer(kind: str, capacity: int, **options: Any) -> Any:
    import cpprb

    return getattr(cpprb, kind)(capacity, **options)


_Manager.register("buffer", _make_buffer, exposed=("add", "sample", "update_priorities", "get_stored_size"))


class _Locked:
    """A proxy, with each call under one lock."""

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
    # Rows come through a pipe. Each manager is forked with the state of NumPy's generator that its maker has.
    promises = replace(PROMISES, returned_batch="copies", seed="always the same")
    distribution = "cpprb"
    last_python = (3, 12)
    usage = "a buffer of a plain class in a manager process (SyncManager.register), every call under one lock"
    features = Features(
        n_step=f"yes, option Nstep {SEEN}",
        processes="any, through a manager process; rows are pickled",
        disk=DISK,
        last_release=LAST_RELEASE,
        **FEATURES,
    )

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        context = multiprocessing.get_context("fork")
        # An abstract socket: a killed manager leaves no file behind.
        address = f"\0replaybench-{os.getpid()}-{secrets.token_hex(8)}"
        self.manager = _Manager(address=address, ctx=context)
        self.manager.start(exit_with_parent, (os.getpid(),))
        if spec.prioritized:
            kind, priorities = "PrioritizedReplayBuffer", {"alpha": spec.alpha, "eps": self.eps}
        else:
            kind, priorities = "ReplayBuffer", {}
        proxy = self.manager.buffer(kind, spec.capacity, **priorities, **options(spec))
        self.buffer = _Locked(proxy, context.Lock())

    def close(self) -> None:
        del self.buffer
        self.manager.shutdown()
