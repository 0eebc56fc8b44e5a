"""TorchRL's `RayReplayBuffer`: its prioritized buffer in a Ray actor, on a different host from its callers.

Used as its docstring shows, with the storage and the sampler of `adapter.py` as constructors, and with Ray, the default
transport. Explorers get a pickled `client()`. A row's priority is set in a second call.

The other transport, "distributed", fixes one size for all batches and one layout for all priority updates, so an
explorer cannot set the priorities of 100 rows if a learner's batch has 32.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Self

from adapters.base import Spec
from adapters.behaviours import Seed
from adapters.contract import Processes, Stated
from adapters.hosts import HostsAdapter, Place
from adapters.peers.torchrl.adapter import CONTRACT, TorchRL
from adapters.ray_cluster import connect, on_host


class TorchRLOnRay(TorchRL, HostsAdapter):
    name = "torchrl[Ray]"
    usage = (
        "RayReplayBuffer(LazyTensorStorage, PrioritizedSampler) on the first data host; explorers get its client() "
        "(TorchRL reference, RayReplayBuffer)"
    )
    contract = replace(CONTRACT, processes=Stated(Processes.ANY, "through a Ray actor"), seed=Seed.GLOBAL)
    on_ray = True
    victim = "ray::ReplayBuffer"

    def __init__(self, spec: Spec, place: Place) -> None:  # type: ignore[override]
        connect(place)
        from torchrl.data import LazyTensorStorage, RayReplayBuffer
        from torchrl.data.replay_buffers.samplers import PrioritizedSampler

        self._use(
            spec,
            RayReplayBuffer(
                storage=partial(LazyTensorStorage, spec.capacity),
                sampler=partial(PrioritizedSampler, spec.capacity, spec.alpha, spec.beta),
                remote_config={"num_cpus": 0, "scheduling_strategy": on_host(place.data[0])},
            ),
        )
        len(self)  # returns once the actor answers calls

    def _use(self, spec: Spec, buffer: Any) -> None:
        self._prepare(spec)
        self.buffer, self.extend, self.draw = buffer, buffer.extend, partial(buffer.sample, return_info=True)

    def handle(self) -> bytes:
        from ray import cloudpickle

        return cloudpickle.dumps(self.buffer.client())

    @classmethod
    def joined(cls, spec: Spec, place: Place, handle: bytes) -> Self:
        ray = connect(place)
        adapter = cls.__new__(cls)
        adapter._use(spec, ray.cloudpickle.loads(handle))
        return adapter

    def close(self) -> None:
        import ray

        ray.shutdown()
