"""What the throughput suite measures: calls in one process. One launch measures one peer at all of its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from adapters import registry
from adapters.base import Spec
from results.record import Record, Run
from suites import workloads as recorded
from suites.suite import Launch, Suite, SuiteSettings
from suites.throughput.tasks import (
    BENCHMARKS,
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
    SizedBenchmark,
    ThroughputJob,
)
from suites.workloads.user_workload import UserSizes, UserWorkload

#: Least seconds per cell of a user-defined workload: with less, starting a launch would take longer than its few jobs.
USER_SECONDS = 0.25
#: The options that the buffers of some benchmarks must support.
OPTIONS = {
    "prioritized": {"prioritized": True},
    "learner_step": {"prioritized": True},
    "compressed_add": {"next_of": True, "stack_compress": True},
    "compressed_sample": {"next_of": True, "stack_compress": True},
}


@dataclass(frozen=True)
class AtCapacity:
    """The tasks that are measured on buffers of one capacity."""

    capacity: int
    tasks: Sequence[SizedBenchmark]
    fill_seconds: float = 60.0  # a buffer that takes longer to fill gets no figure here


@dataclass(frozen=True, kw_only=True)
class ThroughputSettings(SuiteSettings):
    by_workload: Mapping[str, Sequence[AtCapacity]]
    seconds: float  # per cell
    blocks_if_named: int | None = None  # a lower number of blocks for peers that are measured only if named

    def jobs(self, workloads: Sequence[str]) -> list[ThroughputJob]:
        """Return the jobs on these workloads, in the order in which a launch measures them."""
        return [
            ThroughputJob(task, workload, each.capacity, each.fill_seconds)
            for workload in workloads
            for each in self.by_workload.get(workload, ())
            for task in sorted(each.tasks, key=lambda task: task.order)
        ]


PROFILES = {
    "tiny": ThroughputSettings(
        blocks=2,
        seconds=0.02,
        by_workload={
            "CartPole-v1": [
                AtCapacity(2_000, CORE + FORMS + STEP + UNIFORM_STEP + BESIDE[:1] + HELD[:1]),
                AtCapacity(4_000, CYCLE[:1]),
            ],
            "Pendulum-v1": [AtCapacity(2_000, FEW)],
            "ALE/Seaquest-v5": [AtCapacity(256, CORE + FRAMES)],
            "CartPole-v1/slices": [AtCapacity(256, FEW)],
            "CartPole-v1/image": [AtCapacity(256, FEW)],
        },
    ),
    "quick": ThroughputSettings(
        blocks=5,
        seconds=0.06,
        by_workload={
            "CartPole-v1": [
                AtCapacity(100_000, CORE + STEPS + UNIFORM_STEP + BESIDE + HELD, fill_seconds=15),
                AtCapacity(1_000_000, STEP, fill_seconds=4),
            ],
            "ALE/Seaquest-v5": [AtCapacity(2_048, CORE + FRAMES + STEP + HELD[:1])],
        },
    ),
    # Like quick, but with less time for each figure, since there are four times as many peers. The small buffer can be
    # filled even by peers that take half a millisecond per row.
    "survey": ThroughputSettings(
        blocks=3,
        blocks_if_named=2,
        seconds=0.05,
        by_workload={
            "CartPole-v1": [
                AtCapacity(2_000, SMALL),
                AtCapacity(100_000, CORE + FORMS + STEPS + UNIFORM_STEP + BESIDE + HELD, fill_seconds=8),
                AtCapacity(1_000_000, STEP, fill_seconds=4),
            ],
            "ALE/Seaquest-v5": [AtCapacity(1_024, CORE + FRAMES + STEP + HELD[:1])],
            "CartPole-v1/slices": [AtCapacity(512, FEW + CYCLE[:1])],  # R2D2 is prioritized
            "CartPole-v1/image": [AtCapacity(1_024, FEW)],
        },
    ),
    "full": ThroughputSettings(
        blocks=12,
        seconds=1.0,
        by_workload={
            "CartPole-v1": [
                AtCapacity(100_000, CORE + FORMS + STEPS + UNIFORM_STEPS + BESIDE + MORE_BESIDE + HELD),
                AtCapacity(1_000_000, CYCLE + STEPS + UNIFORM_STEP, fill_seconds=240),
                AtCapacity(10_000_000, STEP, fill_seconds=240),
            ],
            "Pendulum-v1": [AtCapacity(100_000, CORE + FORMS)],
            "ALE/Seaquest-v5": [AtCapacity(8_192, CORE + FRAMES + STEP + BESIDE + MORE_BESIDE + HELD)],
            "HalfCheetah-v5": [AtCapacity(100_000, CORE + FORMS)],
            "Humanoid-v4": [AtCapacity(20_000, CORE)],
            "CartPole-v1/slices": [AtCapacity(20_000, CORE)],
            "CartPole-v1/image": [AtCapacity(8_192, CORE)],
        },
    ),
    # One launch takes about six seconds of turns.
    "gate": ThroughputSettings(
        seconds=0.06,
        by_workload={
            "CartPole-v1": [
                AtCapacity(100_000, CORE + STEPS + UNIFORM_STEP + HELD),
                AtCapacity(1_000_000, STEP),
            ],
            "ALE/Seaquest-v5": [AtCapacity(512, CORE + FRAMES + HELD[:1])],
        },
    ),
    "sweep": ThroughputSettings(
        blocks=5,
        seconds=0.5,
        by_workload={
            "CartPole-v1": [AtCapacity(10**digits, CYCLE[:1] + STEP, fill_seconds=120) for digits in (4, 5, 6, 7)]
        },
    ),
}


class Throughput(Suite[ThroughputSettings]):
    name = "throughput"
    benchmarks = BENCHMARKS
    profiles = PROFILES

    def workloads(self, settings: ThroughputSettings) -> list[str]:
        return list(settings.by_workload)

    def peers(self) -> list[str]:
        return registry.alone()

    def for_user_workload(
        self, settings: ThroughputSettings, workload: UserWorkload, sizes: UserSizes
    ) -> ThroughputSettings:
        measured = AtCapacity(workload.fitting_capacity(sizes.rows, sizes.bytes), user_tasks(workload))
        seconds = max(settings.seconds, USER_SECONDS)
        return replace(settings, by_workload={workload.name: [measured]}, seconds=seconds)

    def launches(
        self, run: Run, settings: ThroughputSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        jobs = settings.jobs(workloads)
        fields = {workload: recorded.load(workload).fields for workload in {job.workload for job in jobs}}

        def options(records: Sequence[Record]) -> dict[str, object]:
            wanted = [job for job in jobs if any(job.is_of(record) for record in records)]
            return {"job": wanted, "seconds": settings.seconds}

        def declared(peer: str) -> list[Record]:
            adapter, records = registry.adapter_class(peer), self.declare_jobs(run, peer, jobs)
            for job, record in zip(jobs, records, strict=True):
                if refusal := adapter.refusal(
                    Spec(job.capacity, fields[job.workload], **OPTIONS.get(job.benchmark, {}))
                ):
                    record.fail("skipped", refusal)  # no process is needed to find this out
            return records

        return [
            self.launch(
                f"throughput of {peer}",
                declared(peer),
                options,
                blocks=None if peer in registry.PEERS else settings.blocks_if_named,
                turns=True,
            )
            for peer in peers
        ]

    def declare_jobs(self, run: Run, peer: str, jobs: Sequence[ThroughputJob]) -> list[Record]:
        return [record for job in jobs for record in self.declare(run, peer, job.workload, job.params, [job.benchmark])]


def user_tasks(workload: UserWorkload) -> list[SizedBenchmark]:
    """Return the tasks that are measured on a user-defined workload."""
    sizes = {"add": workload.adds, "sample": workload.samples, "prioritized": workload.samples}
    core = [SizedBenchmark.of(benchmark, batch=rows) for benchmark, batches in sizes.items() for rows in batches]
    return [*core, *FORMS, *STEP, *UNIFORM_STEP] if workload.is_plain else core


SUITE = Throughput()
