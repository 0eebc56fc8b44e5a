"""A learner and an explorer on one host, and the rows on others.

    python -m suites.hosts --peer NAME [--job WORKLOAD:DATA_HOSTS:RATE:BATCH ...] [--seconds S]

The processes on the hosts are `role.py`. Sampled rows are compared with those that were added before anything is timed.
Rates count whole steps (a batch with its new priorities) and acknowledged rows. CPU times are those of all processes of
a host, so they include Ray's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from adapters import registry
from adapters.base import WrongAnswer
from suites import workloads
from suites.hosts.spec import BENCHMARKS, CARTPOLE, DATA, SUITE, UNLIMITED, USER, HostsJob
from suites.lan import Lan, NoHosts, ray_cluster
from suites.lan.worker import Worker, WorkerLost
from suites.runner import entry
from suites.runner.results import NotMeasured, Outcome, PeerTrouble, Result, failure

JOB = HostsJob(CARTPOLE, 1, UNLIMITED, 512)
CAPACITY, FILLED, ADDED = 100_000, 20_000, 100  # rows; ADDED per call
CHECKED = 10  # samples
WARM_SHARE = 0.25  # of a timed window, before it
START_SECONDS = 90.0  # for a process to import its libraries, and to start its servers


class Measured:
    """The hosts of one launch, with the peer's processes on them, and rows on each data host."""

    def __init__(self, peer: str, job: HostsJob, stack: ExitStack) -> None:
        kind = registry.hosts_class(peer)
        self.lan = stack.enter_context(Lan(1 + job.data, None if job.rate == UNLIMITED else job.rate))
        if kind.on_ray:
            ray_cluster.start(self.lan)
        self.data = range(2, 2 + job.data)

        def start(host: int, role: str) -> Worker:
            options = {"peer": peer, "workload": job.workload, "here": self.lan.address(host),
                       "head": self.lan.address(1), "role": role, "capacity": CAPACITY}  # fmt: skip
            arguments = [f"--{name}={value}" for name, value in options.items()]
            return Worker(self.lan, host, "suites.hosts.role", arguments, ray_cluster.ENVIRONMENT)

        serving = [start(host, DATA) for host in self.data]
        addresses = [worker.do("get_address", limit=START_SECONDS) for worker in serving]
        self.learner, self.explorer = start(1, USER), start(1, USER)
        # An explorer elsewhere would add all its rows to one data host, and a learner would get no others.
        fillers = [start(host, USER) for host in self.data]
        handle = self.learner.do("make", limit=START_SECONDS, data=addresses)
        for worker in (self.explorer, *fillers):
            worker.do("join", limit=START_SECONDS, data=addresses, handle=handle)
        for filler in fillers:
            filler.do("fill", rows=FILLED // job.data, batch=ADDED)
            filler.close()

    def cpu(self) -> tuple[float, float]:
        """Return the CPU time of the users' host, and of the data hosts."""
        return self.lan.cpu_seconds(1), sum(map(self.lan.cpu_seconds, self.data))

    def sent(self) -> int:
        return sum(map(self.lan.sent_bytes, self.data))


def measure(peer: str, jobs: Sequence[HostsJob], seconds: float) -> Iterator[Result]:
    """Yield the figures of each job as soon as they are known. After a failure, the peer's processes are not used
    again."""
    trouble: tuple[Outcome, str] | None = None
    with ExitStack() as stack:
        try:
            registry.hosts_class(peer).version()
            workloads.load(jobs[0].workload)  # recorded once, rather than in each process
            hosts = Measured(peer, jobs[0], stack)
        except Exception as error:
            trouble = _failure(error)
        for job in jobs:
            figures: dict[str, float] = {}
            if trouble is None:
                try:
                    _measure(figures, hosts, job, seconds)
                except Exception as error:
                    trouble = _failure(error)
            for name in BENCHMARKS:
                value = figures.get(name)
                outcome, reason = ("ok", None) if value is not None else trouble or ("failed", "not measured")
                yield Result(name, peer, job.workload, job.params, outcome, value, reason)


def _failure(error: Exception) -> tuple[Outcome, str]:
    if isinstance(error, NoHosts):
        return failure(NotMeasured(str(error)))
    return failure(PeerTrouble(str(error)) if isinstance(error, WorkerLost) else error)


def _measure(figures: dict[str, float], hosts: Measured, job: HostsJob, seconds: float) -> None:
    """Store figures in `figures` one by one, so that those measured before a failure are kept."""
    learn, explore = {"seconds": seconds, "batch": job.batch}, {"seconds": seconds, "batch": ADDED}
    if wrong := hosts.learner.do("count_wrong", samples=CHECKED, batch=job.batch):
        raise WrongAnswer(f"{wrong} of {CHECKED * job.batch} sampled rows are none of those that were added")
    hosts.learner.do("learn", **{**learn, "seconds": WARM_SHARE * seconds})
    users, data = hosts.cpu()
    sent = hosts.sent()
    found = hosts.learner.do("learn", **learn)
    batches, (users_now, data_now) = found["batches"], hosts.cpu()
    figures["learner"] = batches / found["seconds"]
    figures["step_p50"], figures["step_p99"] = found["p50"], found["p99"]
    figures["learner_cpu"], figures["data_cpu"] = (users_now - users) / batches, (data_now - data) / batches
    figures["wire"] = (hosts.sent() - sent) / (batches * job.batch)
    hosts.explorer.do("explore", **{**explore, "seconds": WARM_SHARE * seconds})
    users, data = hosts.cpu()
    found = hosts.explorer.do("explore", **explore)
    rows, (users_now, data_now) = found["rows"], hosts.cpu()
    figures["explorer"] = rows / found["seconds"]
    figures["explorer_cpu"], figures["storing_cpu"] = (users_now - users) / rows, (data_now - data) / rows
    hosts.explorer.tell("explore", **explore)
    learned = hosts.learner.do("learn", **learn)
    explored = hosts.explorer.hear()
    figures["explorer_beside"] = explored["rows"] / explored["seconds"]
    figures["learner_beside"] = learned["batches"] / learned["seconds"]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--job", action="append", type=HostsJob.parse, metavar="JOB", dest="jobs", help=f"default: {JOB}"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="of each timed window; default: %(default)s")


def main() -> int:
    return entry.main(SUITE, __doc__, options, lambda args: measure(args.peer, args.jobs or [JOB], args.seconds))


if __name__ == "__main__":
    sys.exit(main())
