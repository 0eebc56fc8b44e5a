"""What the control measures: one peer as if it were two, with separate launches for each side.

The commands of the sides differ only in the name of the side. A difference between them is therefore due to the
machine, and a difference between two peers is meaningless unless it is larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from results.record import Record, Run
from results.verdicts import REFERENCE
from suites.suite import Launch, Suite, SuiteSettings
from suites.throughput.tasks import BENCHMARKS, ThroughputJob, tasks

WORKLOAD = "CartPole-v1"
SIDES = ("first", "second")
TASKS = tasks("add:batch=1", "sample:batch=32", "prioritized:batch=256")


@dataclass(frozen=True, kw_only=True)
class ControlSettings(SuiteSettings):
    capacity: int
    seconds: float  # per cell

    @property
    def jobs(self) -> list[ThroughputJob]:
        return [ThroughputJob(task, WORKLOAD, self.capacity) for task in TASKS]


PROFILES = {
    "tiny": ControlSettings(blocks=2, capacity=2_000, seconds=0.02),
    "quick": ControlSettings(blocks=5, capacity=100_000, seconds=0.06),
    "survey": ControlSettings(blocks=6, capacity=100_000, seconds=0.05),
    "full": ControlSettings(blocks=12, capacity=100_000, seconds=1.0),
}


class Control(Suite[ControlSettings]):
    name = "control"
    benchmarks = {task.benchmark: BENCHMARKS[task.benchmark] for task in TASKS}  # noqa: RUF012 (a class attribute, by contract)
    profiles = PROFILES

    def workloads(self, settings: ControlSettings) -> list[str]:
        return [WORKLOAD]

    def peers(self) -> list[str]:
        return [REFERENCE]  # the divisor of single-process ratios

    def launches(
        self, run: Run, settings: ControlSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        def launch(peer: str, side: str) -> Launch:
            def options(records: Sequence[Record]) -> dict[str, object]:
                open_ones = {record.benchmark for record in records}
                wanted = [job for job in settings.jobs if job.benchmark in open_ones]
                return {"job": wanted, "seconds": settings.seconds, "side": side}

            declared = [
                record
                for job in settings.jobs
                for record in self.declare(run, peer, WORKLOAD, {**job.params, "side": side}, [job.benchmark])
            ]
            return self.launch(f"control of {peer}, {side} side", declared, options, apart_by="side")

        return [launch(peer, side) for peer in peers for side in SIDES]


SUITE = Control()
