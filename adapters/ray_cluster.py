"""Connecting to a Ray cluster that spans several hosts."""

from __future__ import annotations

import logging
from typing import Any

from adapters.hosts import RAY_PORT, Place

NAMESPACE = "replaybench"


def on_host(address: str) -> Any:
    """Return the scheduling strategy of an actor on this host. The process must be connected."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    node = next(each["NodeID"] for each in nodes if each["NodeManagerAddress"] == address)
    return NodeAffinitySchedulingStrategy(node, soft=False)


def connect(place: Place) -> Any:
    """Connect this process to the cluster; return the module `ray`."""
    import ray

    ray.init(
        address=f"{place.head}:{RAY_PORT}",
        _node_ip_address=place.here,
        namespace=NAMESPACE,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    return ray
