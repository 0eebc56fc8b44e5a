"""The Ape-X of apex.py over the hosts of a Ray cluster: each data host keeps a part of the rows.

    python apex_cluster.py [--address auto] [--explorers 16] [--seconds 600]

All hosts need cpprb-impl[ray], gymnasium and torch; this file and apex.py only where you start it.
docs/clusters.md shows how to make a cluster. Nodes with the resource "data" are data hosts; if none has it, all are.
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress

import apex
import gymnasium
import numpy as np
import ray
import torch
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from torch import nn

from cpprb_impl.ray import PrioritizedReplayBuffer

EPISODES, PAUSE = 10, 5.0  # of an evaluation; seconds until the next one
END_SECONDS = 30.0  # for explorers and the evaluation to end
# Actors rather than tasks: when a host lost its power, Ray started its actors again, but not its tasks within 35 s.
RESTARTED = {"max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": "SPREAD"}


class TrainingEnded(Exception):  # noqa: N818 (says what happened)
    """Training has ended, so there are no more weights."""


@ray.remote(num_cpus=0)
class Newest:
    """Holds a reference to the newest weights in Ray's object store; an empty list once training has ended."""

    def __init__(self, reference: list[ray.ObjectRef]) -> None:
        self.reference = reference

    def set(self, reference: list[ray.ObjectRef]) -> None:
        self.reference = reference

    def get(self) -> list[ray.ObjectRef]:
        return self.reference


class Weights:
    """Replaces apex.py's shared buffer of weights. Each version is sent once to each host, for all explorers there."""

    def __init__(self) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        # In a list a reference is passed as it is; Ray would replace a bare one by the array.
        first = [ray.put(apex.flat(apex.make_network()))]
        self.newest = Newest.options(scheduling_strategy=here).remote(first)

    def add(self, flat: np.ndarray) -> None:
        self.newest.set.remote([ray.put(flat)])

    def sample(self, _: int) -> dict[str, list[np.ndarray]]:
        references = ray.get(self.newest.get.remote())
        if not references:
            raise TrainingEnded
        return {"flat": [ray.get(references[0]).copy()]}  # objects of the store are read-only

    def end(self) -> None:
        """Let `sample` raise `TrainingEnded`."""
        ray.get(self.newest.set.remote([]))


@ray.remote(num_cpus=1, **RESTARTED)
class Explorer:
    @ray.method(retry_exceptions=[ConnectionError])  # no shard answered for a while
    def run(self, shared: PrioritizedReplayBuffer, weights: Weights, number: int, explorers: int) -> None:
        with suppress(TrainingEnded):
            apex.explore(shared, weights, number, explorers, report=False)


@ray.remote(num_cpus=0, **RESTARTED)
class Evaluator:
    def run(self, weights: Weights) -> None:
        with suppress(TrainingEnded):
            self.evaluate(weights)

    def evaluate(self, weights: Weights) -> None:
        """Repeatedly play without exploration, and print the mean return."""
        torch.set_num_threads(1)
        env, network = gymnasium.make(apex.ENV), apex.make_network()
        while True:
            newest = torch.from_numpy(weights.sample(1)["flat"][0])
            nn.utils.vector_to_parameters(newest, network.parameters())
            returns = [self.play(env, network) for _ in range(EPISODES)]
            print(f"mean return {np.mean(returns):.0f} of {EPISODES} greedy episodes", flush=True)
            time.sleep(PAUSE)

    def play(self, env: gymnasium.Env, network: nn.Module) -> float:
        (obs, _), total, over = env.reset(), 0.0, False
        while not over:
            with torch.no_grad():
                act = int(network(torch.from_numpy(obs)).argmax())
            obs, rew, terminated, truncated, _ = env.step(act)
            total, over = total + float(rew), terminated or truncated
        return total


def data_hosts() -> list[str] | None:
    """Return the addresses of the nodes that keep rows, or None if all nodes do."""
    nodes = [node for node in ray.nodes() if node["Alive"] and "data" in node["Resources"]]
    return [node["NodeManagerAddress"] for node in nodes] or None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--address", default="local", help="of the cluster, such as auto; default: a new one here")
    parser.add_argument("--explorers", type=int, default=apex.EXPLORERS)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--unencrypted", action="store_true", help="send rows from host to host in clear text")
    args = parser.parse_args()
    cpus = {"num_cpus": args.explorers} if args.address == "local" else {}
    ray.init(args.address, runtime_env={"py_modules": [apex]}, **cpus)  # copies apex.py to all hosts
    shared = PrioritizedReplayBuffer(100_000, apex.FIELDS, hosts=data_hosts(), encrypt=not args.unencrypted)
    weights = Weights()
    evaluator = Evaluator.remote()
    ray.get(evaluator.__ray_ready__.remote())  # if a package is missing there, the error is raised here
    explorers = [Explorer.remote() for _ in range(args.explorers)]
    runs = [explorer.run.remote(shared, weights, number, args.explorers) for number, explorer in enumerate(explorers)]
    runs.append(evaluator.run.remote(weights))
    steps = apex.learn(shared, weights, args.seconds)
    print(f"{steps} learner steps alongside {args.explorers} explorers; {shared.get_stored_size()} rows are stored")
    weights.end()
    ray.wait(runs, num_returns=len(runs), timeout=END_SECONDS)
    for actor in [evaluator, *explorers]:  # also those that are being started again
        ray.kill(actor)
    shared.close()
    ray.shutdown()


if __name__ == "__main__":
    main()
