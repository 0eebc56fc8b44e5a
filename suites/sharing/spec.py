"""What the sharing suite measures: calls on a buffer that processes share, in loops that do nothing else.

One launch measures one peer and a group of jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters import registry
from results.record import Record, Run
from suites.suite import Launch, Quantity, Suite, SuiteSettings

#: kind of job -> its benchmarks
KINDS: dict[str, dict[str, Quantity]] = {
    "fleet": {
        "adds": Quantity("rows/s", "higher"),
        "samples": Quantity("samples/s", "higher"),
        "slowest": Quantity("of a fair share", "higher"),
    },
    "prioritized_fleet": {
        "prioritized_adds": Quantity("rows/s", "higher"),
        "prioritized_cycles": Quantity("cycles/s", "higher"),
        "prioritized_slowest": Quantity("of a fair share", "higher"),
    },
    "step": {"step": Quantity("s/step", "lower")},
    "alone": {"add_alone": Quantity("s/transition", "lower")},
}


@dataclass(frozen=True)
class SharingJob:
    """`explorers` processes add `batch` rows per call alongside a learner. With `explorers` 0, one process adds
    alone."""

    kind: str
    workload: str
    capacity: int
    batch: int
    explorers: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if self.kind not in KINDS:
            raise ValueError(f"kind of job must be one of {', '.join(KINDS)}, got {self.kind!r}")

    @property
    def params(self) -> dict[str, int]:
        fleet = {"explorers": self.explorers} if self.explorers else {}
        return {**fleet, "batch": self.batch, "capacity": self.capacity}

    @property
    def benchmarks(self) -> list[str]:
        """The benchmarks of this job. With a single explorer, there is no slowest one."""
        return [name for name in KINDS[self.kind] if not name.endswith("slowest") or self.explorers > 1]

    @property
    def prioritized(self) -> bool:
        return self.kind in ("prioritized_fleet", "step")

    def has(self, record: Record) -> bool:
        mine = record.benchmark in KINDS[self.kind], self.workload, self.params
        return mine == (True, record.workload, record.params)


def fleets(
    workload: str, capacity: int, batches: Sequence[int], explorers: Sequence[int], kind: str = "fleet"
) -> list[SharingJob]:
    return [SharingJob(kind, workload, capacity, batch, number) for batch in batches for number in explorers]


def steps(*capacities: int) -> list[SharingJob]:
    return [SharingJob("step", "CartPole-v1", capacity, 100) for capacity in capacities]


def alone(capacity: int) -> list[SharingJob]:
    return [SharingJob("alone", "CartPole-v1", capacity, 1)]


@dataclass(frozen=True, kw_only=True)
class SharingSettings(SuiteSettings):
    groups: Sequence[Sequence[SharingJob]]  # a group contains the jobs of one launch
    seconds: float  # per job
    most_seconds: float  # per job, at most, if the learner has made too few calls
    served: bool = True  # whether buffers behind servers are measured too, although they are filled one row per call


PROFILES = {
    "tiny": SharingSettings(
        groups=(
            fleets("CartPole-v1", 2_000, (1, 100), (2,)),
            fleets("CartPole-v1", 2_000, (100,), (2,), "prioritized_fleet"),
            fleets("ALE/Seaquest-v5", 256, (1,), (2,)),
            [*steps(2_000), *alone(2_000)],
        ),
        seconds=0.05,
        most_seconds=0.5,
    ),
    "quick": SharingSettings(
        blocks=5,
        groups=(
            fleets("CartPole-v1", 10_000, (1, 100), (4,)),
            fleets("CartPole-v1", 10_000, (100,), (4,), "prioritized_fleet"),
        ),
        served=False,
        seconds=0.5,
        most_seconds=2.0,
    ),
    "survey": SharingSettings(
        blocks=3,
        groups=(
            fleets("CartPole-v1", 10_000, (1, 100), (4,)),
            fleets("CartPole-v1", 10_000, (100,), (4,), "prioritized_fleet"),
            fleets("ALE/Seaquest-v5", 2_048, (1,), (4,)),
            [*steps(1_000_000), *alone(100_000)],
        ),
        seconds=0.5,
        most_seconds=2.0,
    ),
    "gate": SharingSettings(
        groups=(
            [*steps(100_000), *alone(100_000)],
            fleets("CartPole-v1", 10_000, (1,), (4,)),
            fleets("CartPole-v1", 10_000, (100,), (4,), "prioritized_fleet"),
        ),
        served=False,
        seconds=0.5,
        most_seconds=1.0,
    ),
    "full": SharingSettings(
        blocks=10,
        groups=(
            fleets("CartPole-v1", 100_000, (1, 100), (1, 2, 4, 8)),
            fleets("CartPole-v1", 100_000, (1, 100), (1, 4, 8), "prioritized_fleet"),
            fleets("ALE/Seaquest-v5", 2_048, (1, 100), (4,)),
            [*steps(10_000, 1_000_000), *alone(100_000)],
        ),
        seconds=2.0,
        most_seconds=10.0,
    ),
    "sweep": SharingSettings(
        blocks=5,
        groups=(
            fleets("CartPole-v1", 100_000, (1, 100), (1, 2, 4, 8, 16)),
            fleets("CartPole-v1", 100_000, (100,), (1, 2, 4, 8, 16), "prioritized_fleet"),
            fleets("ALE/Seaquest-v5", 2_048, (1, 100), (4,)),
            [*steps(10_000, 100_000, 1_000_000, 10_000_000), *alone(100_000)],
        ),
        seconds=1.0,
        most_seconds=5.0,
    ),
}


class Sharing(Suite[SharingSettings]):
    name = "sharing"
    benchmarks = {name: each for kind in KINDS.values() for name, each in kind.items()}  # noqa: RUF012
    profiles = PROFILES
    # The slowest explorer's share depends on the scheduler.
    compared = ("adds", "samples", "prioritized_adds", "prioritized_cycles", "step", "add_alone")

    def workloads(self, settings: SharingSettings) -> set[str]:
        return {job.workload for group in settings.groups for job in group}

    def peers(self) -> list[str]:
        """Return the shared buffers, and the unshared classes, which are measured alone to show the cost of sharing."""
        shared = registry.together()
        families = set(map(registry.family, shared))
        return list(dict.fromkeys([*shared, *(name for name in registry.alone() if name in families)]))

    def launches(
        self, run: Run, settings: SharingSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        shared = registry.together() if settings.served else list(registry.SHARED)

        def jobs_of(peer: str, group: Sequence[SharingJob]) -> list[SharingJob]:
            able = [job for job in group if peer in shared or (job.kind == "alone" and peer in registry.alone())]
            return [job for job in able if job.workload in workloads]

        groups = [(peer, jobs_of(peer, group)) for group in settings.groups for peer in peers]
        return [self._launch(run, settings, peer, jobs) for peer, jobs in groups if jobs]

    def _launch(self, run: Run, settings: SharingSettings, peer: str, jobs: Sequence[SharingJob]) -> Launch:
        def options(records: Sequence[Record]) -> dict[str, object]:
            wanted = [job for job in jobs if any(job.has(record) for record in records)]
            return {"job": wanted, "seconds": settings.seconds, "most-seconds": settings.most_seconds}

        records = [
            record for job in jobs for record in self.declare(run, peer, job.workload, job.params, job.benchmarks)
        ]
        kinds = " and ".join(dict.fromkeys(job.kind for job in jobs))
        turns = not any(job.explorers for job in jobs)
        return self.launch(f"sharing of {peer}, {kinds} on {jobs[0].workload}", records, options, turns=turns)


SUITE = Sharing()
