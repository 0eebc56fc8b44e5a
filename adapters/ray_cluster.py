"""Connecting to a Ray cluster that spans several hosts."""

from __future__ import annotations

import logging
from typing import Any

from adapters.hosts import RAY_PORT, Place

NAMESPACE = "replaybench"


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
