"""RLlib's prioritized buffer in a Ray actor, which other processes call through the actor's handle.

Any object can be shared like this in Ray (Ray docs, Actors), and RLlib's own Ape-X shared its buffers this way.
Explorers are separate drivers that connect to the same local cluster and find the actor by name. Rows with priorities
are added one per call, as in `adapter.py`; all calls of a batch are submitted before waiting for the first.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from multiprocessing import util
from typing import Any

import numpy as np

from adapters.base import Columns, Spec
from adapters.peers.rllib.adapter import RLlib
from adapters.ray_cluster import NAMESPACE

ACTOR = "replaybench"
OBJECT_STORE_BYTES = 80_000_000  # close to Ray's minimum: batches this small do not use the store
QUIET = {"log_to_driver": False, "logging_level": "ERROR"}


class RLlibActor(RLlib):
    name = "rllib[Ray actor]"
    usage = "ray.remote(PrioritizedReplayBuffer), a named actor on a local cluster; each explorer is a separate driver"
    start_method = "spawn"  # a process forked after the import sometimes fails to find its cluster

    def __init__(self, spec: Spec) -> None:
        # These must be set before Ray is imported; explorers inherit them. With them, only these processes can access
        # the cluster, and Ray does not import TensorFlow, which is installed for Reverb and which RLlib's buffers do
        # not use. Ray reads the token once per process, so a second cluster of this process must use the same token.
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        os.environ["RLLIB_TEST_NO_TF_IMPORT"] = "1"
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        import ray
        from ray.rllib.utils.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer

        self.folder = tempfile.mkdtemp(prefix="ray-")  # short: the paths of its sockets are limited to 107 bytes
        try:
            cluster = ray.init(
                num_cpus=1,
                include_dashboard=False,
                namespace=NAMESPACE,
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=self.folder,
                **QUIET,
            )
            kind, options = (PrioritizedReplayBuffer, {"alpha": spec.alpha}) if spec.prioritized else (ReplayBuffer, {})
            actor = ray.remote(kind).options(name=ACTOR).remote(spec.capacity, "timesteps", **options)
            self._use(spec, cluster.address_info["gcs_address"], actor)
            len(self)  # returns once the actor answers calls
        except BaseException:
            self.close()
            raise

    def _use(self, spec: Spec, address: str, actor: Any) -> None:
        from ray.rllib.policy.sample_batch import SampleBatch

        self.SampleBatch, self.spec, self.address, self.buffer = SampleBatch, spec, address, _Proxy(actor)
        self._name_fields(spec)

    def __reduce__(self) -> tuple:
        return _connect, (type(self), self.spec, self.address)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        if priorities is None:
            super().add_batch(columns)  # one call
            return
        named = {self.keys[name]: column for name, column in columns.items()}
        rows = [
            self.SampleBatch({key: column[i : i + 1] for key, column in named.items()}) for i in range(len(priorities))
        ]
        self.buffer.add_all(rows, priorities.tolist())

    def __len__(self) -> int:
        return self.buffer.apply(len)

    def close(self) -> None:
        import ray

        ray.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


def _connect(kind: type[RLlibActor], spec: Spec, address: str) -> RLlibActor:
    import ray

    ray.init(address=address, namespace=NAMESPACE, **QUIET)
    util.Finalize(None, ray.shutdown, exitpriority=0)  # otherwise a driver takes seconds to exit
    adapter = kind.__new__(kind)
    adapter._use(spec, address, ray.get_actor(ACTOR))
    return adapter


class _Proxy:
    """Calls the actor's methods and waits for their results."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        import ray

        method = getattr(self._actor, name).remote
        return lambda *args, **kwargs: ray.get(method(*args, **kwargs))

    def add_all(self, batches: list, weights: list[float]) -> None:
        import ray

        ray.get([self._actor.add.remote(batch, weight=each) for batch, each in zip(batches, weights, strict=True)])
