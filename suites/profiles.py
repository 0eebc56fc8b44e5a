"""How much a run measures, as data: `quick` for an answer over a coffee, `full` for a figure to
publish, `tiny` to see that everything works, `sweep` for how a prioritized cycle depends on the capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suites.cells import THROUGHPUT, Job

ORDER = list(THROUGHPUT)

#: benchmarks and their rows a call
CORE = (("add", 1), ("add", 100), ("sample", 32), ("sample", 256), ("prioritized", 32), ("prioritized", 256))
FORMS = (("add_dicts", 1), ("add_lists", 100), ("add_prioritized", 1))
FRAMES = (("compressed_add", 1), ("compressed_sample", 32))
CYCLE = (("prioritized", 32), ("prioritized", 256))
UNIFORM = (("add", 1), ("add", 100), ("sample", 32), ("sample", 256))

#: for a workload, what is measured at each capacity
Plan = Mapping[str, Mapping[int, Sequence[tuple[str, int]]]]


@dataclass(frozen=True)
class Profile:
    plan: Plan  # of the throughput suite
    blocks: int  # of throughput: each launches every peer once
    seconds: float  # on each throughput cell
    fill_seconds: float  # to fill a buffer; who needs longer has no figure at that capacity
    apex_blocks: int
    apex_seconds: float  # of each apex launch's timed window
    apex_capacity: int  # small enough that the ring wraps while its rows are checked
    explorers: tuple[int, ...]
    limit_seconds: float  # after which a launch is killed

    def jobs(self, workloads: Sequence[str]) -> list[Job]:
        """Of the throughput suite, in the order in which a launch comes to them."""
        return [
            Job(benchmark, batch, workload, capacity)
            for workload in workloads
            for capacity, benchmarks in self.plan.get(workload, {}).items()
            for benchmark, batch in sorted(benchmarks, key=lambda each: (ORDER.index(each[0]), each[1]))
        ]


PROFILES = {
    "tiny": Profile(
        plan={
            "CartPole-v1": {2_000: CORE + FORMS, 4_000: CYCLE[:1]},
            "Pendulum-v1": {2_000: CORE},
            "ALE/Seaquest-v5": {256: CORE + FRAMES},
        },
        blocks=2,
        seconds=0.02,
        fill_seconds=20,
        apex_blocks=2,
        apex_seconds=0.3,
        apex_capacity=2_000,
        explorers=(1, 2),
        limit_seconds=60,
    ),
    "quick": Profile(
        plan={
            "CartPole-v1": {100_000: CORE + FORMS, 1_000_000: CYCLE},
            "Pendulum-v1": {20_000: UNIFORM},
            "ALE/Seaquest-v5": {2_048: CORE + FRAMES},
        },
        blocks=5,
        seconds=0.12,
        fill_seconds=10,
        apex_blocks=3,
        apex_seconds=1.2,
        apex_capacity=10_000,
        explorers=(1, 2, 4),
        limit_seconds=120,
    ),
    "full": Profile(
        plan={
            "CartPole-v1": {100_000: CORE + FORMS, 1_000_000: CYCLE},
            "Pendulum-v1": {100_000: CORE + FORMS},
            "ALE/Seaquest-v5": {8_192: CORE + FRAMES},
        },
        blocks=12,
        seconds=1.0,
        fill_seconds=240,
        apex_blocks=10,
        apex_seconds=5.0,
        apex_capacity=100_000,
        explorers=(1, 2, 4),
        limit_seconds=1_200,
    ),
    "sweep": Profile(
        plan={"CartPole-v1": dict.fromkeys((10_000, 100_000, 1_000_000, 10_000_000), CYCLE[:1])},
        blocks=5,
        seconds=0.5,
        fill_seconds=120,
        apex_blocks=0,
        apex_seconds=1.0,
        apex_capacity=10_000,
        explorers=(),
        limit_seconds=600,
    ),
}
