"""What the conformance suite checks: whether a peer does what it promises, and what every buffer must do.

One launch measures one peer. A figure says how much was checked; a record's reason says what was wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters import registry
from adapters.sequences import SequenceContract
from results.record import Run
from suites.check.probes import numbered
from suites.suite import Launch, Quantity, Suite, SuiteSettings

LAUNCH_SECONDS = 900.0  # a peer that needs a server starts about thirty of them
BENCHMARKS = {
    name: Quantity(unit, "higher")
    for name, unit in {
        "round_trip": "rows",
        "dtype": "batches",
        "shape": "batches",
        "ring_order": "draws",
        "returned_batch": "columns",
        "references": "rows",
        "uniform": "draws",
        "prioritized": "draws",
        "new_row_priority": "draws",
        "given_priority": "draws",
        "weights": "weights",
        "replacement": "batches",
        "prioritized_replacement": "batches",
        "seed": "batches",
        "stale_update": "draws",
        "batch_over_stored": "calls",
        "empty": "calls",
        "nan_priority": "draws",
        "negative_priority": "draws",
        "infinite_priority": "draws",
    }.items()
}
SEQUENCE = "sequence_"  # a prefix of the checks of `adapters.sequences.SequenceContract`
SEQUENCE_BENCHMARKS = {f"{SEQUENCE}{name}": Quantity("sequences", "higher") for name in SequenceContract.CHECKS}


@dataclass(frozen=True, kw_only=True)
class ConformanceSettings(SuiteSettings):
    draws: int = 4_000  # per test of a distribution
    patience: float = 5.0  # seconds after which a call counts as blocked forever
    seed: int = 0

    @property
    def params(self) -> dict[str, int]:
        return {"draws": self.draws, "seed": self.seed}


PROFILES = {
    **dict.fromkeys(("tiny", "quick", "survey"), ConformanceSettings()),
    "full": ConformanceSettings(draws=100_000, patience=10.0),
}


class Conformance(Suite[ConformanceSettings]):
    name = "conformance"
    benchmarks = {**BENCHMARKS, **SEQUENCE_BENCHMARKS}  # noqa: RUF012 (a class attribute, by contract)
    profiles = PROFILES
    repeated = False
    generated = {numbered.WORKLOAD: numbered.workload}  # noqa: RUF012 (a class attribute, by contract)

    def workloads(self, settings: ConformanceSettings) -> list[str]:
        return [numbered.WORKLOAD]

    def peers(self) -> list[str]:
        """Return single-process and shared peers, except those that need a cluster per buffer, which would take too
        long, and those that draw sequences."""
        return [*registry.alone(), *registry.SHARED, *registry.sequences()]

    def launches(
        self, run: Run, settings: ConformanceSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        draws_sequences = set(registry.sequences())
        return [
            self.launch(
                f"conformance of {peer}",
                self.declare(
                    run,
                    peer,
                    numbered.WORKLOAD,
                    settings.params,
                    SEQUENCE_BENCHMARKS if peer in draws_sequences else BENCHMARKS,
                ),
                settings.options(),
                least_limit=LAUNCH_SECONDS,
            )
            for peer in peers
        ]


SUITE = Conformance()
