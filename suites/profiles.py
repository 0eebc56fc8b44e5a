"""How much a run measures, as data: `quick` for an answer over a coffee, `full` for a figure to
publish, `tiny` to see that everything works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    blocks: int  # of throughput: each launches every peer once
    seconds: float  # on each throughput cell
    capacities: Mapping[str, int]  # of the throughput buffers, by workload
    apex_blocks: int
    apex_seconds: float  # of each apex launch's timed window
    apex_capacity: int  # small enough that the ring wraps while its rows are checked
    explorers: tuple[int, ...]
    limit_seconds: float  # after which a launch is killed


PROFILES = {
    "tiny": Profile(
        blocks=2,
        seconds=0.02,
        capacities={"CartPole-v1": 2_000, "Pendulum-v1": 2_000, "ALE/Seaquest-v5": 256},
        apex_blocks=2,
        apex_seconds=0.3,
        apex_capacity=2_000,
        explorers=(1, 2),
        limit_seconds=60,
    ),
    "quick": Profile(
        blocks=5,
        seconds=0.2,
        capacities={"CartPole-v1": 20_000, "Pendulum-v1": 20_000, "ALE/Seaquest-v5": 2_048},
        apex_blocks=3,
        apex_seconds=1.5,
        apex_capacity=10_000,
        explorers=(1, 2, 4),
        limit_seconds=90,
    ),
    "full": Profile(
        blocks=12,
        seconds=1.0,
        capacities={"CartPole-v1": 100_000, "Pendulum-v1": 100_000, "ALE/Seaquest-v5": 8_192},
        apex_blocks=10,
        apex_seconds=5.0,
        apex_capacity=100_000,
        explorers=(1, 2, 4),
        limit_seconds=600,
    ),
}
