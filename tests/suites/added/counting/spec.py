"""The smallest suite: how many of the added rows a buffer contains. CONTRIBUTING.md shows it as an example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters import registry
from results.record import Run
from suites.suite import Launch, Quantity, Suite, SuiteSettings

WORKLOAD = "CartPole-v1"
BENCHMARKS = {"stored": Quantity("rows", "higher")}


@dataclass(frozen=True, kw_only=True)
class CountingSettings(SuiteSettings):
    rows: int


class Counting(Suite[CountingSettings]):
    name = "counting"
    benchmarks = BENCHMARKS
    profiles = {"tiny": CountingSettings(rows=100), "full": CountingSettings(rows=10_000, blocks=3)}  # noqa: RUF012

    def workloads(self, settings: CountingSettings) -> list[str]:
        return [WORKLOAD]

    def peers(self) -> list[str]:
        return registry.alone()

    def launches(
        self, run: Run, settings: CountingSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        params = {"rows": settings.rows}
        return [self.launch(f"counting of {peer}", self.declare(run, peer, WORKLOAD, params), params) for peer in peers]


SUITE = Counting()
