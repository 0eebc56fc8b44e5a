"""What the start-up suite measures: the steps from the import to the first batch. One launch measures one peer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters import registry
from results.record import Record, Run
from suites.suite import Launch, Quantity, Suite, SuiteSettings

WORKLOAD = "CartPole-v1"
STEPS = ("import", "construct", "first_add", "fill", "first_sample", "first_cycle")
INSTALLED = "installed"
BENCHMARKS = {**dict.fromkeys(STEPS, Quantity("s", "lower")), INSTALLED: Quantity("B", "lower")}


@dataclass(frozen=True, kw_only=True)
class StartupSettings(SuiteSettings):
    capacity: int
    fill_seconds: float  # a buffer that takes longer to fill gets no figure for it
    installed: bool = False  # whether the size of the installed files is also measured


PROFILES = {
    "tiny": StartupSettings(capacity=2_000, fill_seconds=10),
    "quick": StartupSettings(capacity=100_000, fill_seconds=4),
    "survey": StartupSettings(blocks=3, capacity=20_000, fill_seconds=5),
    "gate": StartupSettings(capacity=2_000, fill_seconds=10, installed=True),
    "full": StartupSettings(blocks=5, capacity=100_000, fill_seconds=120),
}


class Startup(Suite[StartupSettings]):
    name = "startup"
    benchmarks = BENCHMARKS
    profiles = PROFILES
    repeated = False
    compared = ("import", INSTALLED)

    def workloads(self, settings: StartupSettings) -> list[str]:
        return [WORKLOAD]

    def peers(self) -> list[str]:
        return registry.alone()

    def launches(
        self, run: Run, settings: StartupSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        def options(records: Sequence[Record]) -> dict[str, object]:
            wanted = [record.benchmark for record in records]
            return {"benchmark": wanted, "capacity": settings.capacity, "fill-seconds": settings.fill_seconds}

        params = {"capacity": settings.capacity}
        benchmarks = [*STEPS, *([INSTALLED] if settings.installed else [])]
        return [
            self.launch(f"start-up of {peer}", self.declare(run, peer, WORKLOAD, params, benchmarks), options)
            for peer in peers
        ]


SUITE = Startup()
