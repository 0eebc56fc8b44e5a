"""What the integrity suite measures: whether a buffer that processes share returns what was stored.

One launch measures one peer. A figure says how much was checked; a record's reason says what was wrong.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from adapters import registry
from adapters.base import Spec
from results.record import Run
from suites.integrity import certified
from suites.suite import Launch, Quantity, Suite, SuiteSettings

BENCHMARKS = {
    "torn": Quantity("rows read", "higher"),
    "unwritten": Quantity("rows read", "higher"),
    "stale": Quantity("rows read", "higher"),
    "starvation": Quantity("of a fair share", "higher"),
    "lost": Quantity("rows added", "higher"),
    "duplicated": Quantity("rows added", "higher"),
    "killed": Quantity("kills", "higher"),
}


@dataclass(frozen=True, kw_only=True)
class IntegritySettings(SuiteSettings):
    explorers: int = 4
    capacity: int = 128
    seconds: float = 2.0  # of each part
    patience: float = 5.0  # seconds for which a learner or explorer may be blocked after a kill
    seed: int = 0

    def __post_init__(self) -> None:
        if self.capacity % self.explorers:
            raise ValueError(f"capacity must be a multiple of explorers, {self.explorers}, got {self.capacity}")

    @property
    def params(self) -> dict[str, int]:
        return {"explorers": self.explorers, "capacity": self.capacity, "seed": self.seed}

    @property
    def spec(self) -> Spec:
        # With these, a weight reveals its row's priority: see `certified.stale`.
        return Spec(self.capacity, certified.FIELDS, prioritized=True, alpha=1.0, beta=1.0, seed=self.seed)


PROFILES = {
    "tiny": IntegritySettings(seconds=0.3, patience=4.0),
    "quick": IntegritySettings(seconds=0.5, patience=3.0),
    "survey": IntegritySettings(seconds=0.5, patience=5.0),
    "full": IntegritySettings(seconds=20.0, patience=10.0),
}


class Integrity(Suite[IntegritySettings]):
    name = "integrity"
    benchmarks = BENCHMARKS
    profiles = PROFILES
    repeated = False
    generated = {certified.WORKLOAD: certified.workload}  # noqa: RUF012 (a class attribute, by contract)

    def workloads(self, settings: IntegritySettings) -> list[str]:
        return [certified.WORKLOAD]

    def peers(self) -> list[str]:
        return registry.together()

    def launches(
        self, run: Run, settings: IntegritySettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        """Use a new seed in each run; the record stores it."""
        seeded = replace(settings, seed=secrets.randbelow(1_000_000))
        return [
            self.launch(
                f"integrity of {peer}",
                self.declare(run, peer, certified.WORKLOAD, seeded.params),
                seeded.options(),
            )
            for peer in peers
        ]


SUITE = Integrity()
