"""cpprb_impl: this project's own buffer, a drop-in replacement for cpprb, used in exactly the same way.

One process uses the plain classes. Processes that share a buffer use the MP classes under one of three lock
disciplines; the learner creates the buffer and passes it to forked explorers as an argument.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from adapters.base import Spec
from adapters.behaviours import Replacement, Shape, StaleUpdate
from adapters.contract import Contract, Processes, Returns, RowFields, Stated, no, yes
from adapters.peers.cpprb.adapter import CpprbAPI, options

SEEN = "seen: tests/adapters/test_features.py"
CONTRACT = Contract(
    batch_add=yes(),
    fields=Stated(RowFields.ANY, "a shape and dtype for each key", "seen: tests/adapters/test_any_fields.py"),
    priorities=yes(),
    returns=Stated(Returns.COLUMNS),
    n_step=yes("option Nstep", SEEN),
    processes=Stated(Processes.ONE, "see its MP classes"),
    disk=yes("save_transitions, load_transitions; option mmap_prefix", SEEN),
    compression=yes("options next_of and stack_compress; the ends of episodes are detected in the data"),
    framework="NumPy",
    licence="MIT",
    eps=1e-4,
    shape=Shape.SCALARS_HAVE_AN_AXIS,
    prioritized_replacement=Replacement.STRATIFIED,
    source="docs/differences.md, and observed",
)
SHARED_CONTRACT = replace(
    CONTRACT,
    n_step=yes("each process has its own window", SEEN),
    disk=yes("save_transitions, load_transitions, while no process adds; option mmap_prefix", SEEN),
    compression=no(),
    stale_update=StaleUpdate.IGNORED,
)


class CpprbImpl(CpprbAPI):
    name = "cpprb_impl"
    distribution = "cpprb-impl"
    usage = "as cpprb: env_dict with each key's shape and dtype, all keys as keywords (this project's docs)"
    contract = CONTRACT

    def __init__(self, spec: Spec) -> None:
        from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

        super().__init__(spec)
        if spec.prioritized:
            self.buffer = PrioritizedReplayBuffer(
                spec.capacity, alpha=spec.alpha, eps=self.contract.eps, seed=spec.seed, **options(spec)
            )
        else:
            self.buffer = ReplayBuffer(spec.capacity, seed=spec.seed, **options(spec))


class CpprbImplBufferLock(CpprbAPI):
    name = "cpprb_impl[lock=buffer]"
    distribution = "cpprb-impl"
    usage = 'its MP class with lock="buffer", created by the learner and passed to forked explorers'
    contract = replace(
        SHARED_CONTRACT, processes=Stated(Processes.ANY, "one shared segment, one lock around every call")
    )
    lock: ClassVar[str] = "buffer"

    def __init__(self, spec: Spec) -> None:
        from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer

        super().__init__(spec)
        shared = {"lock": self.lock, "seed": spec.seed, **options(spec)}
        if spec.prioritized:
            self.buffer = MPPrioritizedReplayBuffer(spec.capacity, alpha=spec.alpha, eps=self.contract.eps, **shared)
        else:
            self.buffer = MPReplayBuffer(spec.capacity, **shared)

    def close(self) -> None:
        self.buffer.close()


class CpprbImplCriticalLock(CpprbImplBufferLock):
    name = "cpprb_impl[lock=critical]"
    usage = 'its MP class with lock="critical", created by the learner and passed to forked explorers'
    contract = replace(
        SHARED_CONTRACT, processes=Stated(Processes.ANY, "one shared segment, locks around the index only")
    )
    lock = "critical"


class CpprbImplNoLock(CpprbImplBufferLock):
    name = "cpprb_impl[lock=none]"
    usage = 'its MP class with lock="none", created by the learner and passed to forked explorers'
    contract = replace(
        SHARED_CONTRACT, processes=Stated(Processes.ANY, "one shared segment, no process waits for another")
    )
    lock = "none"
