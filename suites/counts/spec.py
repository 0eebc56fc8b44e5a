"""What the counts suite counts: the exact work of a call, which no noise can hide. One launch measures one peer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters import registry
from results.record import Param, Record, Run
from suites.suite import Launch, Quantity, Suite, SuiteSettings
from suites.throughput.tasks import ThroughputJob, tasks

OF_CALLGRIND = ("instructions", "reads", "writes", "allocations")
OF_STRACE = ("system_calls", "futex_calls")
BENCHMARKS = {name: Quantity(f"{name.replace('_', ' ')}/call", "lower") for name in (*OF_CALLGRIND, *OF_STRACE)}
CALLS = 20
#: Under Callgrind, a process is 50 times as slow, so importing PyTorch alone takes a minute.
LAUNCH_SECONDS = 900.0


@dataclass(frozen=True, kw_only=True)
class CountsSettings(SuiteSettings):
    jobs: Sequence[ThroughputJob]  # of the throughput suite
    calls: int = CALLS  # counted per job


def jobs(workload: str, capacity: int, *texts: str) -> list[ThroughputJob]:
    return [ThroughputJob(task, workload, capacity) for task in tasks(*texts)]


PROFILES = {
    "gate": CountsSettings(
        jobs=[
            *jobs("CartPole-v1", 2000, "add:batch=1", "add:batch=100", "sample:batch=32", "sample:batch=256"),
            *jobs("CartPole-v1", 2000, "prioritized:batch=32", "learner_step:adds=4,batch=32"),
            *jobs("ALE/Seaquest-v5", 128, "add:batch=1", "sample:batch=32"),
            *jobs("ALE/Seaquest-v5", 128, "compressed_add:batch=1", "compressed_sample:batch=32"),
        ]
    ),
}


class Counts(Suite[CountsSettings]):
    name = "counts"
    benchmarks = BENCHMARKS
    profiles = PROFILES
    repeated = False

    def workloads(self, settings: CountsSettings) -> list[str]:
        return list(dict.fromkeys(job.workload for job in settings.jobs))

    def peers(self) -> list[str]:
        return registry.alone()

    def launches(
        self, run: Run, settings: CountsSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        jobs = [job for job in settings.jobs if job.workload in workloads]

        def options(_records: Sequence[Record]) -> dict[str, object]:  # all jobs: each changes the next one's rows
            return {"job": jobs, "calls": settings.calls}

        return [
            self.launch(f"counts of {peer}", self.declare_jobs(run, peer, jobs), options, least_limit=LAUNCH_SECONDS)
            for peer in peers
        ]

    def declare_jobs(self, run: Run, peer: str, jobs: Sequence[ThroughputJob]) -> list[Record]:
        return [record for job in jobs for record in self.declare(run, peer, job.workload, params_of(job))]


SUITE = Counts()


def params_of(job: ThroughputJob) -> dict[str, Param]:
    return {**job.params, "of": job.benchmark}
