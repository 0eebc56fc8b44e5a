"""cpprb_impl: this project's own buffer, a drop-in for cpprb, used exactly as cpprb is.

Single-process classes for the throughput suite; where processes share a buffer its MP classes under each lock
discipline, made by the learner and handed to forked explorers as an argument.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from adapters.base import Features, Spec
from adapters.peers.cpprb.adapter import DISK, FEATURES, SEEN, CpprbAPI, options
from adapters.promises import Promises

#: Its documentation, and docs/differences.md where it is not as cpprb.
PROMISES = Promises(
    shape="scalars as (1,)", prioritized_replacement="stratified", source="docs/differences.md, and seen"
)
NO_DISK = f"no {SEEN}"


class CpprbImpl(CpprbAPI):
    name = "cpprb_impl"
    promises = PROMISES
    distribution = "cpprb-impl"
    usage = "as cpprb: env_dict with each key's shape and dtype, all keys as keywords (this project's docs)"
    features = Features(
        processes="no (see its MP classes)",
        n_step=f"yes, option Nstep {SEEN}",
        disk=DISK,
        last_release="in this project",
        compression="yes, options next_of and stack_compress; found in the data",
        **FEATURES,
    )

    def __init__(self, spec: Spec) -> None:
        from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

        super().__init__(spec)
        if spec.prioritized:
            self.buffer = PrioritizedReplayBuffer(
                spec.capacity, alpha=spec.alpha, eps=self.eps, seed=spec.seed, **options(spec)
            )
        else:
            self.buffer = ReplayBuffer(spec.capacity, seed=spec.seed, **options(spec))


class CpprbImplBufferLock(CpprbAPI):
    name = "cpprb_impl[lock=buffer]"
    promises = replace(PROMISES, stale_update="ignored")
    distribution = "cpprb-impl"
    usage = 'its MP class with lock="buffer" made by the learner, passed to forked explorers'
    features = Features(
        processes="any; one shared segment, one lock around every call",
        n_step=f"yes, a window in each process {SEEN}",
        disk=NO_DISK,
        last_release="in this project",
        **FEATURES,
    )
    lock: ClassVar[str] = "buffer"

    def __init__(self, spec: Spec) -> None:
        from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer

        super().__init__(spec)
        shared = {"lock": self.lock, "seed": spec.seed, **options(spec)}
        if spec.prioritized:
            self.buffer = MPPrioritizedReplayBuffer(spec.capacity, alpha=spec.alpha, eps=self.eps, **shared)
        else:
            self.buffer = MPReplayBuffer(spec.capacity, **shared)

    def close(self) -> None:
        self.buffer.close()


class CpprbImplCriticalLock(CpprbImplBufferLock):
    name = "cpprb_impl[lock=critical]"
    usage = 'its MP class with lock="critical" made by the learner, passed to forked explorers'
    features = Features(
        processes="any; one shared segment, locks around the index only",
        n_step=f"yes, a window in each process {SEEN}",
        disk=NO_DISK,
        last_release="in this project",
        **FEATURES,
    )
    lock = "critical"


class CpprbImplNoLock(CpprbImplBufferLock):
    name = "cpprb_impl[lock=none]"
    usage = 'its MP class with lock="none" made by the learner, passed to forked explorers'
    features = Features(
        processes="any; one shared segment, nobody waits for anybody",
        n_step=f"yes, a window in each process {SEEN}",
        disk=NO_DISK,
        last_release="in this project",
        **FEATURES,
    )
    lock = "none"
