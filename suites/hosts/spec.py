"""What the hosts suite measures: a prioritized buffer whose rows are not on its users' host.

The hosts are emulated on one machine (`suites.lan`), which needs root. The learner and an explorer are on host 1, and
the rows on the other hosts. One launch measures one peer with one workload, number of data hosts and link speed; some
launches measure the effect of one failure on the learner instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from adapters import registry
from results.record import Param, Run
from suites.suite import Launch, Quantity, Suite, SuiteSettings

DATA, USER = "data", "user"  # roles of processes
CARTPOLE, SEAQUEST = "CartPole-v1", "ALE/Seaquest-v5"
UNLIMITED = "none"
RATE = re.compile(r"(?=.*[1-9])\d+(\.\d+)?[kmg]bit")  # the subset of tc's rates that `make plan` reads
SPEED_BENCHMARKS = {
    "learner": Quantity("batches/s", "higher"),
    "step_p50": Quantity("s/call", "lower"),
    "step_p99": Quantity("s/call", "lower"),
    "learner_cpu": Quantity("s/batch", "lower"),
    "data_cpu": Quantity("s/batch", "lower"),
    "wire": Quantity("bytes/row", "lower"),
    "explorer": Quantity("rows/s", "higher"),
    "explorer_cpu": Quantity("s/row", "lower"),
    "storing_cpu": Quantity("s/row", "lower"),
    "explorer_beside": Quantity("rows/s", "higher"),
    "learner_beside": Quantity("batches/s", "higher"),
    "whole": Quantity("rows checked", "higher"),  # drawn while an explorer adds
    "staleness": Quantity("batches", "lower"),  # drawn after an update, before the update takes effect
}
#: The same for an explorer on the data host, with one data host and an unlimited link, since links make no difference.
LOCAL_BENCHMARKS = {
    "local_explorer": Quantity("rows/s", "higher"),
    "adding_cpu": Quantity("s/row", "lower"),  # of all processes of the data host
}
#: The effects of a failure on a learner: its longest wait for a batch, and its rate afterwards.
FAILURE_BENCHMARKS = {
    "longest_wait": Quantity("s", "lower"),
    "rate_after": Quantity("of the rate before", "higher"),
}
#: Failures of the first data host: the process that serves rows is killed, the link is cut, the host loses power.
KILLED, CUT, POWER = FAILURES = ("killed", "cut", "power")


@dataclass(frozen=True)
class HostsJob:
    """A learner's batches of `batch` rows, from `data` hosts, over links of the speed `rate`."""

    workload: str
    data: int
    rate: str
    batch: int
    failure: str = ""  # what fails during the job

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if not self.workload:
            raise ValueError(f"workload must be a name, got {self.workload!r}")
        if self.rate != UNLIMITED and not RATE.fullmatch(self.rate):
            raise ValueError(f"rate must be a speed such as 1gbit or 500mbit, or {UNLIMITED}, got {self.rate!r}")
        if self.failure and self.failure not in FAILURES:
            raise ValueError(f"failure must be one of {', '.join(FAILURES)}, got {self.failure!r}")
        for name, count in (("data hosts", self.data), ("batch", self.batch)):
            if count < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {count}")

    @property
    def params(self) -> dict[str, Param]:
        failure = {"failure": self.failure} if self.failure else {}
        return {"data_hosts": self.data, "link": self.rate, "batch": self.batch, **failure}

    @property
    def has_local_explorer(self) -> bool:
        return self.data == 1 and self.rate == UNLIMITED and not self.failure

    @property
    def benchmarks(self) -> Collection[str]:
        local = LOCAL_BENCHMARKS if self.has_local_explorer else {}
        return FAILURE_BENCHMARKS if self.failure else {**SPEED_BENCHMARKS, **local}


@dataclass(frozen=True)
class HostsGroup:
    """The jobs of one launch."""

    workload: str = CARTPOLE
    data: int = 1
    rate: str = UNLIMITED
    batches: Sequence[int] = (32, 512)
    blocks: int | None = None
    failure: str = ""

    @property
    def jobs(self) -> list[HostsJob]:
        return [HostsJob(self.workload, self.data, self.rate, batch, self.failure) for batch in self.batches]


@dataclass(frozen=True, kw_only=True)
class HostsSettings(SuiteSettings):
    groups: Sequence[HostsGroup] = field(default_factory=list)
    seconds: float = 1.0


PROFILES = {
    "hosts": HostsSettings(
        blocks=5,
        groups=[
            HostsGroup(),
            HostsGroup(workload=SEAQUEST, blocks=3),
            *(HostsGroup(data=data, blocks=3) for data in (2, 3, 4)),
            HostsGroup(rate="10gbit", blocks=2),
            HostsGroup(rate="1gbit", blocks=2),
            HostsGroup(workload=SEAQUEST, rate="10gbit", blocks=2),
            HostsGroup(workload=SEAQUEST, rate="1gbit", blocks=2),
            *(HostsGroup(data=2, batches=[32], failure=failure, blocks=1) for failure in (KILLED, CUT, POWER)),
        ],
    ),
}


class Hosts(Suite[HostsSettings]):
    name = "hosts"
    benchmarks = {**SPEED_BENCHMARKS, **LOCAL_BENCHMARKS, **FAILURE_BENCHMARKS}  # noqa: RUF012 (a class attribute, by contract)
    profiles = PROFILES

    def workloads(self, settings: HostsSettings) -> list[str]:
        return list(dict.fromkeys(group.workload for group in settings.groups))

    def peers(self) -> list[str]:
        return registry.over_hosts()

    def launches(
        self, run: Run, settings: HostsSettings, peers: Sequence[str], workloads: Sequence[str]
    ) -> list[Launch]:
        return [
            self._launch(run, settings, group, peer)
            for group in settings.groups
            if group.workload in workloads
            for peer in peers
        ]

    def _launch(self, run: Run, settings: HostsSettings, group: HostsGroup, peer: str) -> Launch:
        records = [
            record for job in group.jobs for record in self.declare(run, peer, job.workload, job.params, job.benchmarks)
        ]
        failure = f", failure: {group.failure}" if group.failure else ""
        name = f"hosts of {peer} on {group.workload}, data hosts: {group.data}, links: {group.rate}{failure}"
        options = {"seconds": settings.seconds, "job": group.jobs}
        limit = 120 + len(group.jobs) * 10 * settings.seconds
        return self.launch(name, records, options, least_limit=limit, blocks=group.blocks)


SUITE = Hosts()
