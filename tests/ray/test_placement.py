"""The nodes on which the parts of the buffer run, in a Ray cluster whose nodes are all on this machine."""

from __future__ import annotations

import pytest

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402 (only if Ray is installed)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402 (the same)

from cpprb_impl.ray import PrioritizedReplayBuffer  # noqa: E402 (the same)


@pytest.fixture
def cluster():
    made = Cluster(initialize_head=True, connect=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


@ray.remote(num_cpus=0)
def make() -> tuple[str, str]:
    """Make a buffer; return the node of this task and the node of the buffer's directory."""
    buffer = PrioritizedReplayBuffer(10, {"obs": {}})
    there = ray.get(buffer._directory.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id()))
    buffer.close()
    return ray.get_runtime_context().get_node_id(), there


@pytest.mark.slow
def test_the_directory_runs_on_the_node_that_created_the_buffer(cluster):
    """Ray itself would place several directories in a row on one random node, so each node here creates one."""
    nodes = [node["NodeID"] for node in ray.nodes()]
    tasks = [make.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)) for node in nodes]
    assert ray.get([task.remote() for task in tasks]) == [(node, node) for node in nodes]
