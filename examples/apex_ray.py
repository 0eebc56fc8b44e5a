"""The Ape-X of apex.py, with Ray: explorers are tasks, and the shared buffers are passed to them as arguments.

Install ray as well, and run it like apex.py. Explorers and learner must run on the machine that holds the buffers'
memory: a task that Ray places on a different machine gets an error that says so.
"""

from __future__ import annotations

import sys

import ray
from apex import EXPLORERS, explore, learn, make_buffers
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


def main(seconds: float) -> None:
    ray.init(num_cpus=EXPLORERS, include_dashboard=False)
    shared, weights = make_buffers()
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    start = ray.remote(explore).options(scheduling_strategy=here)
    explorers = [start.remote(shared, weights, number) for number in range(EXPLORERS)]
    steps = learn(shared, weights, seconds)
    print(f"{steps} learner steps alongside {EXPLORERS} explorers; {shared.get_stored_size()} transitions are stored")
    for explorer in explorers:
        ray.cancel(explorer, force=True)
    ray.shutdown()
    shared.close()
    weights.close()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 120)
