"""RLlib's prioritized buffer in an actor of a Ray cluster, on a different host from its callers."""

from __future__ import annotations

import os
from typing import Self

from adapters.base import Spec
from adapters.hosts import HostsAdapter, Place
from adapters.peers.rllib.actor import ACTOR, RLlibActor
from adapters.ray_cluster import connect, on_host


class RLlibOnRay(RLlibActor, HostsAdapter):
    name = "rllib[Ray actor, hosts]"
    usage = "ray.remote(PrioritizedReplayBuffer), a named actor on the first data host; explorers are drivers"
    on_ray = True
    victim = "ray::PrioritizedReplayBuffer"

    def __init__(self, spec: Spec, place: Place) -> None:  # type: ignore[override]
        os.environ["RLLIB_TEST_NO_TF_IMPORT"] = "1"
        ray = connect(place)
        from ray.rllib.utils.replay_buffers import PrioritizedReplayBuffer

        options = {"name": ACTOR, "num_cpus": 0, "scheduling_strategy": on_host(place.data[0])}
        actor = ray.remote(PrioritizedReplayBuffer).options(**options).remote(
            spec.capacity, "timesteps", alpha=spec.alpha
        )  # fmt: skip
        self._use(spec, "", actor)
        len(self)  # returns once the actor answers calls

    @classmethod
    def joined(cls, spec: Spec, place: Place, handle: bytes) -> Self:
        os.environ["RLLIB_TEST_NO_TF_IMPORT"] = "1"
        ray = connect(place)
        adapter = cls.__new__(cls)
        adapter._use(spec, "", ray.get_actor(ACTOR))
        return adapter

    def close(self) -> None:
        import ray

        ray.shutdown()
