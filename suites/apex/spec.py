"""What the apex suite measures: explorers and a learner on one prioritized buffer, and what each of them waits for.

One launch measures one peer with one workload, capacity and number of rows per call. On the same buffer, it measures
each number of explorers with each environment and learner.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from adapters import registry, venvs
from results.record import Param, Record, Run
from suites.suite import Launch, Quantity, Suite, SuiteSettings

WORKLOAD, FRAMES = "CartPole-v1", "ALE/Seaquest-v5"
PERCENTILES = {"p50": 50.0, "p99": 99.0, "p999": 99.9}  # of the durations of calls
BENCHMARKS = {
    "explorers": Quantity("transitions/s", "higher"),
    "slowest": Quantity("of a fair share", "higher"),
    "learner": Quantity("steps/s", "higher"),
    "whole": Quantity("rows checked", "higher"),
    "explorers_blocked": Quantity("of their time", "lower"),
    "learner_blocked": Quantity("of its time", "lower"),
    "cpu": Quantity("s/transition", "lower"),
    **{f"{call}_{name}": Quantity("s/call", "lower") for call in ("add", "sample", "update") for name in PERCENTILES},
    "staleness": Quantity("samples", "lower"),
    "memory": Quantity("bytes", "lower"),
}
#: Measured once per launch, with its last job.
ONCE = ("staleness", "memory")
#: Replaces an environment's CPU time per step, in microseconds: the real environment is played with random actions.
REAL = -1
#: Replaces the learner's CPU time per step: a dueling double DQN is trained, and its TD errors become the priorities.
DQN = -1
ALL = 0  # cores


@dataclass(frozen=True)
class ApexJob:
    """`explorers` processes that add `rows` rows per call, each after `rows` steps of its environment, alongside a
    learner that works between sampling and updating priorities, on `cores` cores of the machine.

    `step_us` and `work_us` are the microseconds of a step and of that work, or REAL and DQN. They are CPU times: if
    there are more processes than cores, they take longer.
    """

    workload: str
    explorers: int
    rows: int
    capacity: int
    step_us: int
    work_us: int
    cores: int = ALL

    @property
    def params(self) -> dict[str, Param]:
        return {
            "explorers": self.explorers,
            "rows": self.rows,
            "capacity": self.capacity,
            "environment": "real" if self.step_us == REAL else f"{self.step_us} us",
            "learner": "DQN" if self.work_us == DQN else f"{self.work_us} us",
            **({} if self.cores == ALL else {"cores": self.cores}),
        }

    def benchmarks(self, last: bool) -> list[str]:
        """Return the benchmarks of this job. Some are measured only with the last job of a launch."""
        without = {*(() if last else ONCE), *(() if self.explorers > 1 else ("slowest",))}
        return [name for name in BENCHMARKS if name not in without]


@dataclass(frozen=True)
class ApexGroup:
    """The jobs of one launch: `working`, and all combinations of `explorers` and `step_us`."""

    explorers: Sequence[int]
    step_us: Sequence[int]
    capacity: int
    rows: int = 100
    work_us: int = 0
    workload: str = WORKLOAD
    cores: int = ALL
    blocks: int | None = None
    working: Sequence[tuple[int, int]] = ()  # further (step_us, work_us), with the same explorers
    served: bool = True  # also measure peers with a server, whose explorers take seconds to start

    @property
    def jobs(self) -> list[ApexJob]:
        # Benchmarks that are measured only with the last job use the usual learner.
        costs = [*self.working, *((step, self.work_us) for step in self.step_us)]
        return [
            ApexJob(self.workload, explorers, self.rows, self.capacity, step, work, self.cores)
            for (step, work), explorers in itertools.product(costs, self.explorers)
        ]


@dataclass(frozen=True, kw_only=True)
class ApexSettings(SuiteSettings):
    groups: Sequence[ApexGroup] = field(default_factory=list)
    seconds: float = 0.4  # of each job's timed window


FLEETS, MILLION = (1, 2, 4, 8, 16), 1_000_000
#: A learner that works 1 ms between samples. A learner without work would only wait for the buffer.
WORKING = [(REAL, 1_000)]
PROFILES = {
    "tiny": ApexSettings(blocks=2, groups=[ApexGroup((1, 2), (0, REAL), 2_000)], seconds=0.2),
    "quick": ApexSettings(blocks=3, groups=[ApexGroup((4,), (REAL,), 10_000, working=WORKING)]),
    "survey": ApexSettings(groups=[ApexGroup((4,), (200, REAL), 10_000, working=WORKING)]),
    "gate": ApexSettings(groups=[ApexGroup((4,), (20,), 10_000)]),
    "full": ApexSettings(blocks=10, groups=[ApexGroup((1, 2, 4, 8), (0, 200, REAL), 1_000_000)], seconds=2.0),
    "apex": ApexSettings(
        blocks=10,
        groups=[
            ApexGroup(FLEETS, (0, 20, REAL), MILLION, served=False),
            ApexGroup((1, 4), (0, 200), 10_000, blocks=3),
            ApexGroup(FLEETS, (200, 2_000), MILLION, blocks=3, served=False),
            # The other axes, each varied by itself.
            ApexGroup((2, 8), (0, 200), MILLION, rows=1, blocks=3, served=False),
            ApexGroup((2, 8), (0, 200), MILLION, rows=10, blocks=3, served=False),
            ApexGroup((2, 8), (0, 200), 10_000, blocks=3, served=False),
            ApexGroup((2, 8), (0, 200), MILLION, work_us=500, blocks=3, served=False),
            ApexGroup((2, 8), (0, 200), MILLION, work_us=5_000, blocks=3, served=False),
            ApexGroup((2, 8), (0, 200), MILLION, work_us=DQN, blocks=3, served=False),
            ApexGroup((1, 2, 4, 8), (0, 20, 200), MILLION, cores=1, blocks=3, served=False),
            ApexGroup((1, 2, 4, 8), (REAL,), 10_000, workload=FRAMES, blocks=3, served=False),
        ],
        seconds=0.5,
    ),
}


class Apex(Suite[ApexSettings]):
    name = "apex"
    benchmarks = BENCHMARKS
    profiles = PROFILES
    compared = ("explorers", "learner")

    def workloads(self, settings: ApexSettings) -> list[str]:
        return list(dict.fromkeys(group.workload for group in settings.groups))

    def peers(self) -> list[str]:
        return registry.together()

    def launches(
        self, run: Run, settings: ApexSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        groups = [group for group in settings.groups if group.workload in workloads]
        return [
            self._launch(run, settings, group, peer)
            for group in groups
            for peer in peers
            if group.served or registry.adapter_class(peer).start_method == "fork"
        ]

    def _launch(self, run: Run, settings: ApexSettings, group: ApexGroup, peer: str) -> Launch:
        records = [
            record
            for job in group.jobs
            for record in self.declare(run, peer, job.workload, job.params, job.benchmarks(last=job == group.jobs[-1]))
        ]

        def options(wanted: Sequence[Record]) -> Mapping[str, object]:
            jobs = [job for job in group.jobs if any(each.params == job.params for each in wanted)]
            return {"seconds": settings.seconds, "job": jobs}

        fleets = "/".join(map(str, group.explorers))
        steps = "/".join("real" if step == REAL else str(step) for step in group.step_us)
        name = (
            f"apex of {peer} on {group.workload}, {fleets} explorers, steps of {steps} us, {group.rows} rows per call, "
            f"capacity {group.capacity:,}"
        )
        if works := [work for work in (group.work_us, *(work for _, work in group.working)) if work]:
            name += ", " + "/".join("DQN" if work == DQN else f"{work} us of work" for work in works)
        if group.cores:
            name += f", cores: {group.cores}"
        # Each job has a warm-up and a window, and explorers of some peers take seconds to start.
        limit = len(group.jobs) * (2 * settings.seconds + 10) + 60
        python = venvs.python(venvs.PYTORCH) if group.work_us == DQN else None
        return self.launch(name, records, options, python=python, least_limit=limit, blocks=group.blocks)


SUITE = Apex()
