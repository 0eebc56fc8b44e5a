"""What the apex suite measures: explorers and a learner on one buffer, each explorer with an environment of its own.

One launch measures one peer with one number of explorers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters import registry
from results.record import Run
from suites.suite import Launch, Quantity, Settings, Suite

WORKLOAD = "CartPole-v1"
BENCHMARKS = {
    "explorers": Quantity("transitions/s", "higher"),
    "learner": Quantity("steps/s", "higher"),
    "whole": Quantity("rows checked", "higher"),
}


@dataclass(frozen=True, kw_only=True)
class ApexSettings(Settings):
    explorers: Sequence[int]
    seconds: float  # of each launch's timed window
    capacity: int  # small enough that the ring wraps while its rows are checked


PROFILES = {
    "tiny": ApexSettings(blocks=2, explorers=(1, 2), seconds=0.3, capacity=2_000),
    "quick": ApexSettings(blocks=3, explorers=(4,), seconds=0.8, capacity=10_000),
    "survey": ApexSettings(explorers=(4,), seconds=0.8, capacity=10_000),
    "full": ApexSettings(blocks=10, explorers=(1, 2, 4), seconds=5.0, capacity=100_000),
}


class Apex(Suite[ApexSettings]):
    name = "apex"
    benchmarks = BENCHMARKS
    profiles = PROFILES

    def workloads(self, settings: ApexSettings) -> list[str]:
        return [WORKLOAD]

    def peers(self) -> list[str]:
        return registry.together()

    def launches(
        self, run: Run, settings: ApexSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        def launch(peer: str, explorers: int) -> Launch:
            params = {"explorers": explorers, "capacity": settings.capacity}
            options = {"explorers": explorers, "seconds": settings.seconds, "capacity": settings.capacity}
            name = f"apex of {peer}, {explorers} explorer{'s' if explorers > 1 else ''}"
            return self.launch(name, self.declare(run, peer, WORKLOAD, params), options)

        return [launch(peer, explorers) for explorers in settings.explorers for peer in peers]


SUITE = Apex()
