"""Processes of a training run on the hosts of a Ray cluster, wherever Ray finds a free processor."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from adapters import registry
from adapters.base import Adapter
from suites.apex_dqn.cluster.progress import Board, ClusterProgress
from suites.apex_dqn.cluster.weights import ClusterWeights
from suites.apex_dqn.explorer import explore
from suites.apex_dqn.processes import ProcessStarter, TrainingProcess
from suites.apex_dqn.settings import TrainingSettings
from suites.apex_dqn.supervisor import buffer_and_weights

CHECKOUT = Path(__file__).resolve().parents[3]
REACH_SECONDS = 5.0
DATA = "data"  # the resource of hosts that store transitions


@ray.remote(max_restarts=0)
class Actor:
    """Runs one process's work. It is an actor and not a task, because an actor's loss is known as soon as Ray declares
    the host dead."""

    def run(self, packed: tuple[Callable[..., None], ClusterProgress, tuple[Any, ...]]) -> None:
        work, progress, args = packed
        try:
            work(*args)
        finally:
            progress.close()


class RayProcess:
    """An actor with the interface of a process."""

    def __init__(self, actor: Any, packed: Any) -> None:
        self._actor, self._end = actor, actor.run.remote(packed)

    @property
    def exitcode(self) -> int | None:
        if self.is_alive():
            return None
        try:
            ray.get(self._end)
        except RayError:  # Ray prints what went wrong
            return 1
        return 0

    def is_alive(self) -> bool:
        return not ray.wait([self._end], timeout=0)[0]

    def join(self, timeout: float | None = None) -> None:
        ray.wait([self._end], timeout=timeout)

    def kill(self) -> None:
        ray.kill(self._actor)


class Spread:
    """Processes that are Ray actors. Each explorer needs a free processor; without one, Ray would wait forever."""

    def __init__(self, explorers: int) -> None:
        processors = int(ray.cluster_resources().get("CPU", 0))
        if processors < explorers:
            raise ValueError(f"{explorers} explorers need as many processors, but the cluster has {processors}")
        board = Board.options(scheduling_strategy=_here()).remote()  # type: ignore[attr-defined]
        self.progress = ClusterProgress(board, explorers)
        self.progress.began.value = self.progress.now()
        self.weights = ClusterWeights(self.progress)
        self._processes: list[RayProcess] = []  # all that were started

    def start(self, work: Callable[..., None], *args: Any, beside: bool = False) -> TrainingProcess:
        where = {"num_cpus": int(work is explore), "scheduling_strategy": _here() if beside else "SPREAD"}
        actor = Actor.options(**where).remote()  # type: ignore[attr-defined]
        # As one object: the arguments share this process's copy of the board.
        self._processes.append(RayProcess(actor, ray.put((work, self.progress, args))))
        return self._processes[-1]

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        self.progress.close()


def _here() -> NodeAffinitySchedulingStrategy:
    """Return the scheduling strategy of actors that run only on this host: if it is lost, the training run ends
    anyway."""
    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


@contextmanager
def on_cluster(settings: TrainingSettings, address: str) -> Iterator[tuple[Adapter, ProcessStarter]]:
    """Connect to the Ray cluster at this address, and make the buffer and the starter of processes; disconnect at the
    end.

    Hosts with the resource "data" store the transitions; if there are none, all hosts but this one do. Raises
    ValueError if DQN cannot act in the environment, and ConnectionError if there is no cluster.
    """
    spec, _ = buffer_and_weights(settings)
    if ":" in address:
        _look_for(address)
    # The other hosts have the libraries, but possibly not this checkout.
    code = [str(CHECKOUT / name) for name in ("adapters", "suites")]
    ray.init(
        address=address,
        _node_ip_address=_own_address(address),
        runtime_env={"py_modules": code},
        logging_level="warning",
    )
    try:
        adapter = registry.hosts_class(settings.peer).over(spec, _data_hosts())
        with closing(adapter.buffer), closing(Spread(settings.explorers)) as starter:
            yield adapter, starter
    finally:
        ray.shutdown()


def _look_for(address: str) -> None:
    """Raise ConnectionError at once if nothing answers at this address: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), REACH_SECONDS).close()
    except (OSError, ValueError) as error:
        raise ConnectionError(f"no Ray cluster at {address}: {error}") from None


def _own_address(address: str) -> str | None:
    """Return the address of the cluster's head if that is this host, else None. Ray might choose another of the host's
    addresses."""
    head = address.partition(":")[0]
    own = [each.address for found in psutil.net_if_addrs().values() for each in found]
    return head if head in own else None


def _data_hosts() -> list[str]:
    alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    here = ray.get_runtime_context().get_node_id()
    marked = [node for node in alive if DATA in node["Resources"]]
    others = [node for node in alive if node["NodeID"] != here]
    return [node["NodeManagerAddress"] for node in marked or others or alive]
