"""How much a run measures, as data: `quick` for an answer over a coffee, `survey` for all peers there are, `full` for a
figure to publish, `tiny` to see that everything works, `sweep` for how figures depend on the capacity and on the number
of explorers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suites.runner.results import MEMORY, SharingJob
from suites.throughput.jobs import (
    BESIDE,
    CORE,
    CYCLE,
    FEW,
    FORMS,
    FRAMES,
    HELD,
    MORE_BESIDE,
    SMALL,
    STEP,
    STEPS,
    UNIFORM_STEP,
    UNIFORM_STEPS,
    Job,
    Task,
)

EVERYWHERE = ("plain", "priorities", "next_of")  # of the memory suite: a stack needs frames


def crowds(
    workload: str, capacity: int, batches: Sequence[int], explorers: Sequence[int], kind: str = "crowd"
) -> list[SharingJob]:
    return [SharingJob(kind, workload, capacity, batch, number) for batch in batches for number in explorers]


def steps(*capacities: int) -> list[SharingJob]:
    return [SharingJob("step", "CartPole-v1", capacity, 100) for capacity in capacities]


def alone(capacity: int) -> list[SharingJob]:
    return [SharingJob("alone", "CartPole-v1", capacity, 1)]


@dataclass(frozen=True)
class Place:
    """A capacity, and what is measured there."""

    capacity: int
    tasks: Sequence[Task]
    fill_seconds: float = 60.0  # who needs longer to fill the buffer has no figure here


@dataclass(frozen=True)
class Profile:
    throughput: Mapping[str, Sequence[Place]]  # by workload
    blocks: int  # of throughput: each launches every peer once, but for
    more_blocks: int  # after which only those that are measured when none is named are launched
    seconds: float  # on each throughput cell
    memory: Mapping[str, tuple[int, Sequence[str]]]  # for a workload, the capacity and the benchmarks
    memory_blocks: int
    leak_seconds: float  # spent on looking whether memory grows
    startup_capacity: int
    startup_blocks: int
    startup_fill_seconds: float  # who needs longer to fill the buffer has no figure for that
    latency_capacity: int
    latency_blocks: int
    latency_seconds: float  # of each latency launch's timed window
    latency_fill_seconds: float
    apex_blocks: int
    apex_seconds: float  # of each apex launch's timed window
    apex_capacity: int  # small enough that the ring wraps while its rows are checked
    explorers: tuple[int, ...]
    integrity_seconds: float  # of each part of an integrity launch; 0: no such launch
    integrity_patience: float  # how long a learner or explorer may be stuck there after a kill
    conformance_draws: int  # in each test of a distribution; 0: no such launch
    sharing: Sequence[Sequence[SharingJob]]  # the jobs of one launch each
    sharing_blocks: int
    sharing_seconds: float  # on each of its jobs, and up to
    sharing_cap_seconds: float  # while the learner has made too few calls
    limit_seconds: float  # after which a launch is killed
    own_rows: int = 0  # of a workload of the user's own: its capacity, unless these rows are more than
    own_bytes: int = 0  # so many bytes; 0: such a workload is not for this profile
    sharing_served: bool = True  # whether the sharing suite fills buffers behind servers, too, a row per call
    own_memory_rows: int = 0  # its capacity in the memory suite, at most

    def jobs(self, workloads: Sequence[str]) -> list[Job]:
        """Of the throughput suite, in the order in which a launch comes to them."""
        return [
            Job(task, workload, place.capacity)
            for workload in workloads
            for place in self.throughput.get(workload, ())
            for task in sorted(place.tasks, key=lambda task: task.order)
        ]


PROFILES = {
    "tiny": Profile(
        throughput={
            "CartPole-v1": [
                Place(2_000, CORE + FORMS + STEP + UNIFORM_STEP + BESIDE[:1] + HELD[:1]),
                Place(4_000, CYCLE[:1]),
            ],
            "Pendulum-v1": [Place(2_000, FEW)],
            "ALE/Seaquest-v5": [Place(256, CORE + FRAMES)],
            "CartPole-v1/slices": [Place(256, FEW)],
            "CartPole-v1/image": [Place(256, FEW)],
        },
        blocks=2,
        more_blocks=2,
        seconds=0.02,
        memory={"CartPole-v1": (4_096, ("plain", "priorities")), "ALE/Seaquest-v5": (256, ("both",))},
        memory_blocks=1,
        leak_seconds=0.2,
        startup_capacity=2_000,
        startup_blocks=1,
        startup_fill_seconds=10,
        latency_capacity=2_000,
        latency_blocks=1,
        latency_seconds=0.3,
        latency_fill_seconds=10,
        apex_blocks=2,
        apex_seconds=0.3,
        apex_capacity=2_000,
        explorers=(1, 2),
        integrity_seconds=0.3,
        integrity_patience=4.0,
        conformance_draws=4_000,
        sharing=(
            crowds("CartPole-v1", 2_000, (1, 100), (2,)),
            crowds("CartPole-v1", 2_000, (100,), (2,), "prioritized_crowd"),
            crowds("ALE/Seaquest-v5", 256, (1,), (2,)),
            [*steps(2_000), *alone(2_000)],
        ),
        sharing_blocks=1,
        sharing_seconds=0.05,
        sharing_cap_seconds=0.5,
        limit_seconds=120,
        own_rows=2_000,
        own_bytes=8 << 20,
        own_memory_rows=4_096,
    ),
    "quick": Profile(
        throughput={
            "CartPole-v1": [
                Place(100_000, CORE + STEPS + UNIFORM_STEP + BESIDE + HELD, fill_seconds=15),
                Place(1_000_000, STEP, fill_seconds=4),
            ],
            "ALE/Seaquest-v5": [Place(2_048, CORE + FRAMES + HELD[:1])],
        },
        blocks=5,
        more_blocks=5,
        seconds=0.06,
        memory={"CartPole-v1": (16_384, EVERYWHERE[:1]), "ALE/Seaquest-v5": (1_024, ("plain", "both"))},
        memory_blocks=1,
        leak_seconds=0.4,
        startup_capacity=100_000,
        startup_blocks=1,
        startup_fill_seconds=4,
        latency_capacity=10_000,
        latency_blocks=1,
        latency_seconds=1.0,
        latency_fill_seconds=8,
        apex_blocks=3,
        apex_seconds=0.8,
        apex_capacity=10_000,
        explorers=(4,),
        integrity_seconds=0.5,
        integrity_patience=3.0,
        conformance_draws=4_000,
        sharing=(
            crowds("CartPole-v1", 10_000, (1, 100), (4,)),
            crowds("CartPole-v1", 10_000, (100,), (4,), "prioritized_crowd"),
        ),
        sharing_served=False,
        sharing_blocks=5,
        sharing_seconds=0.5,
        sharing_cap_seconds=2.0,
        limit_seconds=180,
        own_rows=100_000,
        own_bytes=128 << 20,
        own_memory_rows=16_384,
    ),
    # As quick, but with less of each, since there are four times as many peers; and with a small buffer that those can
    # fill, too, who take half a millisecond a row.
    "survey": Profile(
        throughput={
            "CartPole-v1": [
                Place(2_000, SMALL),
                Place(100_000, CORE + FORMS + STEPS + UNIFORM_STEP + BESIDE + HELD, fill_seconds=8),
                Place(1_000_000, STEP, fill_seconds=4),
            ],
            "ALE/Seaquest-v5": [Place(1_024, CORE + FRAMES + HELD[:1])],
            "CartPole-v1/slices": [Place(512, FEW + CYCLE[:1])],  # R2D2 is prioritized
            "CartPole-v1/image": [Place(1_024, FEW)],
        },
        blocks=3,
        more_blocks=2,
        seconds=0.05,
        memory={"CartPole-v1": (4_096, EVERYWHERE[:2]), "ALE/Seaquest-v5": (512, ("plain", "both"))},
        memory_blocks=1,
        leak_seconds=0.4,
        startup_capacity=20_000,
        startup_blocks=1,
        startup_fill_seconds=5,
        latency_capacity=10_000,
        latency_blocks=1,
        latency_seconds=1.0,
        latency_fill_seconds=5,
        apex_blocks=1,
        apex_seconds=0.8,
        apex_capacity=10_000,
        explorers=(4,),
        integrity_seconds=0.5,
        integrity_patience=5.0,
        conformance_draws=4_000,
        sharing=(
            crowds("CartPole-v1", 10_000, (1, 100), (4,)),
            crowds("CartPole-v1", 10_000, (100,), (4,), "prioritized_crowd"),
            crowds("ALE/Seaquest-v5", 2_048, (1,), (4,)),
            [*steps(1_000_000), *alone(100_000)],
        ),
        sharing_blocks=1,
        sharing_seconds=0.5,
        sharing_cap_seconds=2.0,
        limit_seconds=420,
        own_rows=100_000,
        own_bytes=128 << 20,
        own_memory_rows=4_096,
    ),
    "full": Profile(
        throughput={
            "CartPole-v1": [
                Place(100_000, CORE + FORMS + STEPS + UNIFORM_STEPS + BESIDE + MORE_BESIDE + HELD),
                Place(1_000_000, CYCLE + STEPS + UNIFORM_STEP, fill_seconds=240),
                Place(10_000_000, STEP, fill_seconds=240),
            ],
            "Pendulum-v1": [Place(100_000, CORE + FORMS)],
            "ALE/Seaquest-v5": [Place(8_192, CORE + FRAMES + STEP + BESIDE + MORE_BESIDE + HELD)],
            "HalfCheetah-v5": [Place(100_000, CORE + FORMS)],
            "Humanoid-v4": [Place(20_000, CORE)],
            "CartPole-v1/slices": [Place(20_000, CORE)],
            "CartPole-v1/image": [Place(8_192, CORE)],
        },
        blocks=12,
        more_blocks=12,
        seconds=1.0,
        memory={
            "CartPole-v1": (131_072, EVERYWHERE),
            "ALE/Seaquest-v5": (4_096, tuple(MEMORY)),
            "Humanoid-v4": (8_192, EVERYWHERE),
            "CartPole-v1/slices": (4_096, EVERYWHERE[:2]),
            "CartPole-v1/image": (2_048, EVERYWHERE[:2]),
        },
        memory_blocks=3,
        leak_seconds=6.0,
        startup_capacity=100_000,
        startup_blocks=5,
        startup_fill_seconds=120,
        latency_capacity=100_000,
        latency_blocks=10,
        latency_seconds=10.0,
        latency_fill_seconds=120,
        apex_blocks=10,
        apex_seconds=5.0,
        apex_capacity=100_000,
        explorers=(1, 2, 4),
        integrity_seconds=20.0,
        integrity_patience=10.0,
        conformance_draws=100_000,
        sharing=(
            crowds("CartPole-v1", 100_000, (1, 100), (1, 2, 4, 8)),
            crowds("CartPole-v1", 100_000, (1, 100), (1, 4, 8), "prioritized_crowd"),
            crowds("ALE/Seaquest-v5", 2_048, (1, 100), (4,)),
            [*steps(10_000, 1_000_000), *alone(100_000)],
        ),
        sharing_blocks=10,
        sharing_seconds=2.0,
        sharing_cap_seconds=10.0,
        limit_seconds=1_200,
        own_rows=100_000,
        own_bytes=512 << 20,
        own_memory_rows=131_072,
    ),
    "sweep": Profile(
        throughput={"CartPole-v1": [Place(10**digits, CYCLE[:1] + STEP, fill_seconds=120) for digits in (4, 5, 6, 7)]},
        blocks=5,
        more_blocks=5,
        seconds=0.5,
        memory={},
        memory_blocks=0,
        leak_seconds=0.0,
        startup_capacity=1,
        startup_blocks=0,
        startup_fill_seconds=0,
        latency_capacity=1,
        latency_blocks=0,
        latency_seconds=0.0,
        latency_fill_seconds=0,
        apex_blocks=0,
        apex_seconds=0.0,
        apex_capacity=1,
        explorers=(),
        integrity_seconds=0.0,
        integrity_patience=0.0,
        conformance_draws=0,
        sharing=(
            crowds("CartPole-v1", 100_000, (1, 100), (1, 2, 4, 8, 16)),
            crowds("CartPole-v1", 100_000, (100,), (1, 2, 4, 8, 16), "prioritized_crowd"),
            crowds("ALE/Seaquest-v5", 2_048, (1, 100), (4,)),
            [*steps(10_000, 100_000, 1_000_000, 10_000_000), *alone(100_000)],
        ),
        sharing_blocks=5,
        sharing_seconds=1.0,
        sharing_cap_seconds=5.0,
        limit_seconds=600,
    ),
}
