"""A Ray cluster over the hosts of a `Lan`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from adapters.hosts import RAY_PORT
from suites.lan import Lan

START_SECONDS = 60.0
CPUS = 4
OBJECT_STORE_BYTES = 100_000_000  # of each node
#: Ray notices a lost node after 3 s instead of a minute. Only the hosts can reach each other, so no token is needed.
ENVIRONMENT: Mapping[str, str] = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "500",
    "RAY_health_check_failure_threshold": "3",
}


def start(lan: Lan, env: Mapping[str, str] = ENVIRONMENT, cpus: int = CPUS) -> None:
    """Start a node on each host; host 1 has the head. Each offers Ray `cpus` processors. Raises RuntimeError."""
    start_node(lan, 1, env, cpus)
    with ThreadPoolExecutor() as pool:
        for started in [pool.submit(start_node, lan, host, env, cpus) for host in range(2, lan.count + 1)]:
            started.result()


def start_node(lan: Lan, host: int, env: Mapping[str, str] = ENVIRONMENT, cpus: int = CPUS) -> None:
    """Start the node of one host, which joins the cluster unless it is the head. Raises RuntimeError."""
    head = ["--head", "--port", RAY_PORT, "--include-dashboard", "false"]
    where = head if host == 1 else ["--address", f"{lan.address(1)}:{RAY_PORT}"]
    command = [
        Path(sys.executable).with_name("ray"), "start", *where, "--node-ip-address", lan.address(host),
        "--num-cpus", cpus, "--object-store-memory", OBJECT_STORE_BYTES,
    ]  # fmt: skip
    process = lan.start(
        host,
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said, _ = process.communicate(timeout=START_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        said = f"it did not start within {START_SECONDS:.0f} s"
    if process.returncode:
        raise RuntimeError(f"Ray's node on host {host} did not start: {said.strip()[-500:]}")
