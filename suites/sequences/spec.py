"""What the sequences suite measures: sampling sequences of consecutive steps. One launch measures one peer, in one
process or in a fleet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from adapters import registry
from results.record import Param, Record, Run
from suites.suite import Launch, Quantity, Suite, SuiteSettings

WORKLOAD, IMAGES = "CartPole-v1/mixed", "CartPole-v1/image-mixed"
SAMPLE, AFTER_ADDS, PRIORITIZED = "sample", "sample_after_adds", "prioritized"
FLEET, PRIORITIZED_FLEET, MEMORY = "fleet", "prioritized_fleet", "memory"
ADD, FLEET_ADD = "add", "fleet_add"
_SEQUENCES, _ROWS = Quantity("sequences/s", "higher"), Quantity("rows/s", "higher")
_KEPT = Quantity("of the rate without sequences", "higher")
#: kind of job -> its benchmarks
KINDS: dict[str, dict[str, Quantity]] = {
    **{name: {name: _SEQUENCES} for name in (SAMPLE, AFTER_ADDS, PRIORITIZED)},
    FLEET: {"samples": _SEQUENCES, "adds": _ROWS},
    PRIORITIZED_FLEET: {"prioritized_cycles": _SEQUENCES, "prioritized_adds": _ROWS},
    MEMORY: {MEMORY: Quantity("B/step", "lower")},
    ADD: {"add": _ROWS, "add_kept": _KEPT},
    FLEET_ADD: {"fleet_add": _ROWS, "fleet_add_kept": _KEPT},
}
ADDS = 16  # steps
LAUNCH_SECONDS = 300.0  # PyTorch or JAX is imported, and compiles functions for each size


@dataclass(frozen=True)
class SequenceShape:
    """A batch of sequences. The first `burn_in` of the `steps` only serve to compute a recurrent network's state."""

    sequences: int
    steps: int
    burn_in: int = 0


SMALL, LARGE = SequenceShape(16, 64), SequenceShape(256, 64)
#: Those of DreamerV3, of larger batches, of R2D2 and, with its horizon of 3, of TD-MPC2.
SHAPES = (SMALL, LARGE, SequenceShape(64, 80, 40), SequenceShape(256, 4))
IMAGE_SHAPES = (SMALL, LARGE)


@dataclass(frozen=True)
class SequencesJob:
    """A job on a buffer of this capacity, counted in steps. If adding is measured, each call adds `rows` steps, in a
    fleet by `explorers` processes."""

    kind: str
    shape: SequenceShape
    capacity: int
    fill_seconds: float = math.inf  # a buffer that takes longer to fill gets no figure
    explorers: int = 0
    rows: int = 0
    workload: str = WORKLOAD

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if self.kind not in KINDS:
            raise ValueError(f"kind of job must be one of {', '.join(KINDS)}, got {self.kind!r}")

    @property
    def is_fleet(self) -> bool:
        return self.kind in (FLEET, PRIORITIZED_FLEET, FLEET_ADD)

    @property
    def is_prioritized(self) -> bool:
        return self.kind in (PRIORITIZED, PRIORITIZED_FLEET)

    @property
    def params(self) -> dict[str, Param]:
        fleet: dict[str, Param] = {"explorers": self.explorers} if self.is_fleet else {}
        fleet |= {"rows": self.rows} if self.rows else {}
        shape = {"sequences": self.shape.sequences, "steps": self.shape.steps, "burn_in": self.shape.burn_in}
        adds = {"adds": ADDS} if self.kind == AFTER_ADDS else {}
        return {**fleet, **shape, **adds, "capacity": self.capacity}

    @property
    def buffer(self) -> tuple[object, ...]:
        """What the jobs that share one buffer have in common. A fleet's buffer has streams of many processes."""
        shape = self.workload, self.capacity, self.shape.steps, self.shape.burn_in
        return *shape, self.is_prioritized, self.explorers, self.rows, self.kind == MEMORY

    def has(self, record: Record) -> bool:
        mine = record.benchmark in KINDS[self.kind], record.workload, record.params
        return mine == (True, self.workload, self.params)


@dataclass(frozen=True, kw_only=True)
class SequencesSettings(SuiteSettings):
    capacity: int
    seconds: float  # per cell
    fill_seconds: float
    shapes: Sequence[SequenceShape] = SHAPES
    uniform: Sequence[str] = (SAMPLE, AFTER_ADDS)
    small: Sequence[str] = (PRIORITIZED, MEMORY, ADD)  # the jobs that only small batches have
    explorers: int = 8
    rows: Sequence[int] = (1, 100)  # per call that adds
    fleets: Sequence[str] = (FLEET, PRIORITIZED_FLEET, FLEET_ADD)
    image_capacity: int = 0  # 0: no images
    large_capacity: int = 0  # 0: none

    @property
    def alone(self) -> list[SequencesJob]:
        """The jobs of one process, in the order of a launch: those that share a buffer are adjacent."""
        wanted = [(name, shape, 0) for shape in self.shapes for name in self.uniform]
        wanted += [(name, SMALL, rows) for name in self.small for rows in (self.rows if name == ADD else (0,))]
        jobs = [SequencesJob(name, shape, self.capacity, self.fill_seconds, rows=rows) for name, shape, rows in wanted]
        return sorted(jobs, key=lambda job: list(map(str, job.buffer)))

    @property
    def large(self) -> list[SequencesJob]:
        """The jobs of one process with a large buffer."""
        wanted = [(name, shape) for shape in (SMALL, LARGE) for name in self.uniform] + [(PRIORITIZED, SMALL)]
        capacities = [self.large_capacity] if self.large_capacity else []
        return [SequencesJob(name, shape, most, self.fill_seconds) for most in capacities for name, shape in wanted]

    @property
    def of_images(self) -> list[SequencesJob]:
        """The jobs of one process with images."""
        wanted = [(shape, kind) for shape in IMAGE_SHAPES for kind in self.uniform] if self.image_capacity else []
        return [
            SequencesJob(kind, shape, self.image_capacity, self.fill_seconds, workload=IMAGES) for shape, kind in wanted
        ]

    @property
    def together(self) -> list[SequencesJob]:
        """The jobs of a fleet."""
        return [
            SequencesJob(kind, SMALL, self.capacity, self.fill_seconds, self.explorers, rows)
            for kind in self.fleets
            for rows in self.rows
        ]


PROFILES = {
    "tiny": SequencesSettings(
        blocks=2,
        capacity=2_000,
        seconds=0.02,
        fill_seconds=30,
        explorers=2,
        rows=(100,),
        fleets=(FLEET, FLEET_ADD),
        small=(PRIORITIZED, ADD),
    ),
    "quick": SequencesSettings(blocks=5, capacity=100_000, seconds=0.06, fill_seconds=15, fleets=(FLEET, FLEET_ADD)),
    "survey": SequencesSettings(blocks=3, capacity=100_000, seconds=0.05, fill_seconds=15, fleets=(FLEET,)),
    "gate": SequencesSettings(
        capacity=100_000,
        seconds=0.06,
        fill_seconds=15,
        shapes=(SMALL,),
        uniform=(SAMPLE,),
        fleets=(),
        small=(PRIORITIZED,),
    ),
    "full": SequencesSettings(
        blocks=12, capacity=1_000_000, seconds=1.0, fill_seconds=240, image_capacity=100_000, large_capacity=10_000_000
    ),
    "adding": SequencesSettings(
        blocks=12, capacity=100_000, seconds=2.0, fill_seconds=15, shapes=(), fleets=(FLEET_ADD,), small=(ADD,)
    ),
}


class SequenceSampling(Suite[SequencesSettings]):
    name = "sequences"
    benchmarks = {name: each for kind in KINDS.values() for name, each in kind.items()}  # noqa: RUF012
    profiles = PROFILES

    def workloads(self, settings: SequencesSettings) -> list[str]:
        return [WORKLOAD, *([IMAGES] if settings.image_capacity else [])]

    def peers(self) -> list[str]:
        return registry.sequences()

    def launches(
        self, run: Run, settings: SequencesSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        shared = registry.sequences_together()
        groups = [(peer, jobs) for jobs in (settings.alone, settings.large, settings.of_images) for peer in peers]
        groups += [(peer, settings.together) for peer in peers if peer in shared]
        groups = [(peer, [job for job in jobs if job.workload in workloads]) for peer, jobs in groups]
        groups = [(peer, [job for job in jobs if job.kind != ADD or registry.is_ours(peer)]) for peer, jobs in groups]
        return [self._launch(run, settings, peer, jobs) for peer, jobs in groups if jobs]

    def _launch(self, run: Run, settings: SequencesSettings, peer: str, jobs: Sequence[SequencesJob]) -> Launch:
        def options(records: Sequence[Record]) -> dict[str, object]:
            wanted = [job for job in jobs if any(job.has(record) for record in records)]
            return {"job": wanted, "seconds": settings.seconds}

        records = [
            record for job in jobs for record in self.declare(run, peer, job.workload, job.params, KINDS[job.kind])
        ]
        where = " in a fleet" if jobs[0].is_fleet else f" at {jobs[0].capacity:,} steps"
        name = f"sequences of {peer}{where} on {jobs[0].workload}"
        return self.launch(name, records, options, least_limit=LAUNCH_SECONDS, turns=not jobs[0].is_fleet)


SUITE = SequenceSampling()
