"""What the latency suite measures: percentiles of single calls. One launch measures one peer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters import registry
from results.record import Run
from suites.suite import Launch, Quantity, Suite, SuiteSettings

WORKLOAD = "CartPole-v1"
BATCH = 32
CALLS = ("add", "sample", "update")
PERCENTILES = {"p50": 50.0, "p99": 99.0, "p999": 99.9}
BENCHMARKS = {f"{call}_{name}": Quantity("s/call", "lower") for call in CALLS for name in PERCENTILES}


@dataclass(frozen=True, kw_only=True)
class LatencySettings(SuiteSettings):
    capacity: int
    seconds: float  # of each launch's timed window
    fill_seconds: float  # a buffer that takes longer to fill gets no figure


PROFILES = {
    "tiny": LatencySettings(capacity=2_000, seconds=0.3, fill_seconds=10),
    "quick": LatencySettings(capacity=10_000, seconds=1.0, fill_seconds=8),
    "survey": LatencySettings(capacity=10_000, seconds=1.0, fill_seconds=5),
    "full": LatencySettings(blocks=10, capacity=100_000, seconds=10.0, fill_seconds=120),
}


class Latency(Suite[LatencySettings]):
    name = "latency"
    benchmarks = BENCHMARKS
    profiles = PROFILES

    def workloads(self, settings: LatencySettings) -> list[str]:
        return [WORKLOAD]

    def peers(self) -> list[str]:
        return registry.alone()

    def launches(
        self, run: Run, settings: LatencySettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        params = {"batch": BATCH, "capacity": settings.capacity}
        options = {
            "capacity": settings.capacity,
            "seconds": settings.seconds,
            "fill-seconds": settings.fill_seconds,
        }
        return [self.launch(f"latency of {peer}", self.declare(run, peer, WORKLOAD, params), options) for peer in peers]


SUITE = Latency()
