"""cpprb_impl over the hosts of a Ray cluster: `cpprb_impl.ray.PrioritizedReplayBuffer`.

Each data host has a shard. The learner makes the buffer and passes it to explorers, pickled as an argument of a Ray
task would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from adapters.base import Spec
from adapters.contract import Processes, Stated, yes
from adapters.hosts import HostsAdapter, Place
from adapters.peers.cpprb.adapter import CpprbAPI, env_dict
from adapters.peers.cpprb_impl import SHARED_CONTRACT
from adapters.ray_cluster import connect


class CpprbImplOnRay(CpprbAPI, HostsAdapter):
    name = "cpprb_impl[Ray]"
    distribution = "cpprb-impl"
    usage = (
        "cpprb_impl.ray.PrioritizedReplayBuffer over all data hosts, passed to explorers (this project's docs); "
        "encrypted, as by default (CurveZMQ)"
    )
    contract = replace(
        SHARED_CONTRACT,
        processes=Stated(Processes.ANY, "on any host; rows over ZeroMQ"),
        disk=yes("save_transitions, load_transitions: a folder, also for another number of hosts"),
        batches_ahead=2,
    )
    on_ray = True
    victim = "cpprb_impl.hosts.server"  # their supervisor restarts them, with their rows
    encrypt: ClassVar[bool] = True
    compress: ClassVar[bool] = True

    def __init__(self, spec: Spec, place: Place) -> None:
        connect(place)
        self._make(spec, place.data)

    def _make(self, spec: Spec, hosts: Sequence[str]) -> None:
        from cpprb_impl.ray import PrioritizedReplayBuffer

        CpprbAPI.__init__(self, spec)
        self.buffer = PrioritizedReplayBuffer(
            spec.capacity,
            env_dict(spec.fields),
            alpha=spec.alpha,
            eps=self.contract.eps,
            hosts=hosts,
            encrypt=self.encrypt,
            compress=self.compress,
        )

    @classmethod
    def over(cls, spec: Spec, hosts: Sequence[str]) -> Self:
        """Return a buffer over these hosts of the cluster that this process is connected to."""
        adapter = cls.__new__(cls)
        adapter._make(spec, hosts)
        return adapter

    def handle(self) -> bytes:
        from ray import cloudpickle

        return cloudpickle.dumps(self.buffer)

    @classmethod
    def joined(cls, spec: Spec, place: Place, handle: bytes) -> Self:
        ray = connect(place)
        adapter = cls.__new__(cls)
        CpprbAPI.__init__(adapter, spec)
        buffer: Any = ray.cloudpickle.loads(handle)
        adapter.buffer = buffer
        return adapter

    def flush(self) -> None:
        self.buffer.flush()

    def close(self) -> None:
        import ray

        self.buffer.close()
        ray.shutdown()


class CpprbImplOnRayUnencrypted(CpprbImplOnRay):
    name = "cpprb_impl[Ray, unencrypted]"
    usage = "the same with encrypt=False, which shows what encryption costs"
    encrypt = False


class CpprbImplOnRayUncompressed(CpprbImplOnRay):
    name = "cpprb_impl[Ray, uncompressed]"
    usage = "the same with compress=False, which shows the effect of compression, and the cost of incompressible rows"
    compress = False
