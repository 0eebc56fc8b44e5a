"""What the sequences suite measures: sampling sequences of consecutive steps. One launch measures one peer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from adapters import registry
from results.record import Record, Run
from suites.suite import Launch, Quantity, Suite, SuiteSettings

WORKLOAD = "CartPole-v1/mixed"
SAMPLE, AFTER_ADDS, PRIORITIZED = "sample", "sample_after_adds", "prioritized"
BENCHMARKS = {name: Quantity("sequences/s", "higher") for name in (SAMPLE, AFTER_ADDS, PRIORITIZED)}
ADDS = 16  # steps
LAUNCH_SECONDS = 300.0  # PyTorch or JAX is imported, and compiles functions for each size


@dataclass(frozen=True)
class SequenceShape:
    """A batch of sequences. The first `burn_in` of the `steps` only serve to compute a recurrent network's state."""

    sequences: int
    steps: int
    burn_in: int = 0


SMALL = SequenceShape(16, 64)
#: Those of DreamerV3, of larger batches, of R2D2 and, with its horizon of 3, of TD-MPC2.
SHAPES = (SMALL, SequenceShape(256, 64), SequenceShape(64, 80, 40), SequenceShape(256, 4))


@dataclass(frozen=True)
class SequencesJob:
    """A benchmark on a buffer of this capacity, counted in steps."""

    benchmark: str
    shape: SequenceShape
    capacity: int
    fill_seconds: float = math.inf  # a buffer that takes longer to fill gets no figure

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if self.benchmark not in BENCHMARKS:
            raise ValueError(f"benchmark must be one of {', '.join(BENCHMARKS)}, got {self.benchmark!r}")

    @property
    def is_prioritized(self) -> bool:
        return self.benchmark == PRIORITIZED

    @property
    def params(self) -> dict[str, int]:
        shape = {"sequences": self.shape.sequences, "steps": self.shape.steps, "burn_in": self.shape.burn_in}
        adds = {"adds": ADDS} if self.benchmark == AFTER_ADDS else {}
        return {**shape, **adds, "capacity": self.capacity}

    @property
    def buffer(self) -> tuple[object, ...]:
        """What the jobs that share one buffer have in common."""
        return self.capacity, self.shape.steps, self.shape.burn_in, self.is_prioritized


@dataclass(frozen=True, kw_only=True)
class SequencesSettings(SuiteSettings):
    capacity: int
    seconds: float  # per cell
    fill_seconds: float

    @property
    def jobs(self) -> list[SequencesJob]:
        """The jobs in the order in which a launch measures them: those that share a buffer are adjacent."""
        wanted = [(name, shape) for shape in SHAPES for name in (SAMPLE, AFTER_ADDS)] + [(PRIORITIZED, SMALL)]
        jobs = [SequencesJob(name, shape, self.capacity, self.fill_seconds) for name, shape in wanted]
        return sorted(jobs, key=lambda job: list(map(str, job.buffer)))


PROFILES = {
    "tiny": SequencesSettings(blocks=2, capacity=2_000, seconds=0.02, fill_seconds=30),
    "quick": SequencesSettings(blocks=5, capacity=100_000, seconds=0.06, fill_seconds=15),
    "survey": SequencesSettings(blocks=3, capacity=100_000, seconds=0.05, fill_seconds=15),
    "full": SequencesSettings(blocks=12, capacity=1_000_000, seconds=1.0, fill_seconds=240),
}


class SequenceSampling(Suite[SequencesSettings]):
    name = "sequences"
    benchmarks = BENCHMARKS
    profiles = PROFILES

    def workloads(self, settings: SequencesSettings) -> list[str]:
        return [WORKLOAD]

    def peers(self) -> list[str]:
        return registry.sequences()

    def launches(
        self, run: Run, settings: SequencesSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        def options(records: Sequence[Record]) -> dict[str, object]:
            open_ones = [(record.benchmark, record.params) for record in records]
            wanted = [job for job in settings.jobs if (job.benchmark, job.params) in open_ones]
            return {"job": wanted, "seconds": settings.seconds}

        def declared(peer: str) -> list[Record]:
            return [
                record
                for job in settings.jobs
                for record in self.declare(run, peer, WORKLOAD, job.params, [job.benchmark])
            ]

        return [
            self.launch(f"sequences of {peer}", declared(peer), options, least_limit=LAUNCH_SECONDS) for peer in peers
        ]


SUITE = SequenceSampling()
