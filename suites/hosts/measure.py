"""Measures a learner and an explorer on one host, with the rows on other hosts.

    python -m suites.hosts --peer NAME [--job JOB ...] [--seconds S]

The processes on the hosts run `role.py`. Sampled rows are compared with the rows that were added, once before anything
is timed, and once after all timing, while an explorer adds. Rates count whole steps (a batch with its new priorities)
and acknowledged rows. CPU times include all processes of a host, also Ray's.

A job with a failure is the only job of its launch. It measures the learner's longest wait, from one complete step to
the next, and its rate afterwards. If a learner waits for too long, or its call raises an exception, there is no figure
for its wait; there is one for its rate if calls succeed again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from adapters import registry
from adapters.base import WrongAnswer
from suites import workloads
from suites.hosts.spec import CARTPOLE, CUT, DATA, KILLED, SUITE, UNLIMITED, USER, HostsJob
from suites.lan import Lan, NoHosts, ray_cluster
from suites.lan.worker import HostProcess, Silent, WorkerLost
from suites.runner import entry
from suites.runner.jobs import encoded
from suites.runner.results import NotMeasured, Outcome, PeerTrouble, Result, Stuck, failure

JOB = HostsJob(CARTPOLE, 1, UNLIMITED, 512)
CAPACITY = 20_000  # rows; the buffer is full, as it is during most of a training run
ADDED = 100  # rows per call
CHECK_SHARE, WARM_SHARE = 0.25, 1.0  # of a timed window's length, spent before it
START_SECONDS = 90.0  # for a process to import its libraries, and to start its servers
LEAD_SECONDS, FAILED_SECONDS = 0.5, 5.0  # of a learner's loop, before and after a failure
CUT_SECONDS = 2.0
#: Ray declares a node dead after 5 to 10 s (by default, after a minute), so a node survives a link that is cut for
#: `CUT_SECONDS`.
RAY = {**ray_cluster.ENVIRONMENT, "RAY_health_check_failure_threshold": "10"}
LONGEST_WAIT = 15.0  # seconds
NO_EFFECT = "a new priority had no effect within 200 batches"

Figure = tuple[Outcome, float | None, str | None]
Figures = dict[str, Figure]


class Measured:
    """The hosts of one launch, with the peer's processes on them."""

    def __init__(self, peer: str, job: HostsJob, stack: ExitStack) -> None:
        kind = registry.hosts_class(peer)
        self.lan = stack.enter_context(Lan(1 + job.data, None if job.rate == UNLIMITED else job.rate))
        if kind.on_ray:
            ray_cluster.start(self.lan, RAY)
        self.data = range(2, 2 + job.data)

        def start(host: int, role: str) -> HostProcess:
            options = {"peer": peer, "workload": job.workload, "here": self.lan.address(host),
                       "head": self.lan.address(1), "role": role, "capacity": CAPACITY}  # fmt: skip
            arguments = [f"--{name}={value}" for name, value in options.items()]
            return HostProcess(self.lan, host, "suites.hosts.role", arguments, RAY)

        self.serving = [start(host, DATA) for host in self.data]
        self.learner, self.explorer = start(1, USER), start(1, USER)
        self.local_explorer = start(2, USER) if job.has_local_explorer else None
        addresses = [worker.do("get_address", limit=START_SECONDS) for worker in self.serving]
        handle = self.learner.do("make", limit=START_SECONDS, data=addresses)
        for explorer in filter(None, (self.explorer, self.local_explorer)):
            explorer.do("join", limit=START_SECONDS, data=addresses, handle=handle)
        rows = ADDED * -(-CAPACITY // (ADDED * job.data))
        for worker in self.serving:
            worker.do("fill", limit=START_SECONDS, data=addresses, handle=handle, rows=rows, batch=ADDED)

    def cpu(self) -> tuple[float, float]:
        """Return the CPU time of the users' host and the CPU time of the data hosts."""
        return self.lan.cpu_seconds(1), sum(map(self.lan.cpu_seconds, self.data))

    def sent(self) -> int:
        return sum(map(self.lan.sent_bytes, self.data))

    def fail(self, failure: str) -> None:
        """Make the first data host fail."""
        host = self.data[0]
        if failure == KILLED:
            pids = self.serving[0].do("get_victims")
            assert pids, "no process serves rows"
            self.serving[0].tell("kill", pids=pids)
        elif failure == CUT:
            self.lan.cut(host)
            time.sleep(CUT_SECONDS)
            self.lan.mend(host)
        else:
            self.lan.power_off(host)


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
            figures: Figures = {}
            if trouble is None:
                try:
                    _check(hosts.learner.do("check", seconds=CHECK_SHARE * seconds, batch=job.batch))
                    (_measure_failure if job.failure else _measure)(figures, hosts, job, seconds)
                except Exception as error:
                    trouble = _failure(error)
            for name in job.benchmarks:
                outcome, value, reason = figures.get(name) or _without(trouble or ("failed", "not measured"))
                yield Result(name, peer, job.workload, job.params, outcome, value, reason)


def _failure(error: Exception) -> tuple[Outcome, str]:
    if isinstance(error, NoHosts):
        return failure(NotMeasured(str(error)))
    return failure(PeerTrouble(str(error)) if isinstance(error, WorkerLost) else error)


def _without(trouble: tuple[Outcome, str]) -> Figure:
    outcome, reason = trouble
    return outcome, None, reason


def _failed(reason: str) -> Figure:
    return "failed", None, reason


def _check(found: Mapping[str, int]) -> None:
    if found["wrong"]:
        raise WrongAnswer(f"{found['wrong']} of {found['rows']} sampled rows had never been added")


def _measure(figures: Figures, hosts: Measured, job: HostsJob, seconds: float) -> None:
    """Store figures in `figures` one by one, so that figures measured before a failure are kept."""
    learn, explore = {"seconds": seconds, "batch": job.batch}, {"seconds": seconds, "batch": ADDED}
    hosts.learner.do("learn", **{**learn, "seconds": WARM_SHARE * seconds})
    sent = hosts.sent()
    users, data = hosts.cpu()
    found = hosts.learner.do("learn", **learn)
    batches, (users_now, data_now) = found["batches"], hosts.cpu()
    figures["learner"] = _ok(batches / found["seconds"])
    figures["step_p50"], figures["step_p99"] = _ok(found["p50"]), _ok(found["p99"])
    figures["learner_cpu"] = _ok((users_now - users) / batches)
    figures["data_cpu"] = _ok((data_now - data) / batches)
    figures["wire"] = _ok((hosts.sent() - sent) / (batches * job.batch))
    rate, explorer_cpu, data_cpu = _explored(hosts, hosts.explorer, explore)
    figures["explorer"], figures["explorer_cpu"], figures["storing_cpu"] = _ok(rate), _ok(explorer_cpu), _ok(data_cpu)
    if hosts.local_explorer:
        rate, _, data_cpu = _explored(hosts, hosts.local_explorer, explore)
        figures["local_explorer"], figures["adding_cpu"] = _ok(rate), _ok(data_cpu)
    hosts.explorer.tell("explore", **explore)
    learned = hosts.learner.do("learn", **learn)
    explored = hosts.explorer.hear()
    figures["explorer_beside"] = _ok(explored["rows"] / explored["seconds"])
    figures["learner_beside"] = _ok(learned["batches"] / learned["seconds"])
    hosts.explorer.tell("explore", **explore)
    checked = hosts.learner.do("check", **learn)
    hosts.explorer.hear()
    figures["whole"] = _whole(checked)
    stale = hosts.learner.do("wait_for_update", **learn)
    figures["staleness"] = _failed(NO_EFFECT) if stale is None else _ok(stale)


def _explored(hosts: Measured, explorer: HostProcess, explore: Mapping[str, float]) -> tuple[float, float, float]:
    """Return the rows per second, and the CPU seconds per row of the users' host and of the data hosts."""
    explorer.do("explore", **{**explore, "seconds": WARM_SHARE * explore["seconds"]})
    users, data = hosts.cpu()
    found = explorer.do("explore", **explore)
    rows, (users_now, data_now) = found["rows"], hosts.cpu()
    return rows / found["seconds"], (users_now - users) / rows, (data_now - data) / rows


def _ok(value: float) -> Figure:
    return "ok", value, None


def _whole(found: Mapping[str, int]) -> Figure:
    try:
        _check(found)
    except WrongAnswer as wrong:
        return "wrong", found["rows"], str(wrong)
    return _ok(found["rows"])


def _measure_failure(figures: Figures, hosts: Measured, job: HostsJob, seconds: float) -> None:
    """Store the figures of a failure that occurs in the middle of a learner's loop."""
    endure = {"seconds": seconds, "batch": job.batch}
    hosts.learner.do("endure", **{**endure, "seconds": WARM_SHARE * seconds})
    before = hosts.learner.do("endure", **endure)
    if before["raised"]:
        raise PeerTrouble(_raised(before))
    hosts.learner.tell("endure", **{**endure, "seconds": LEAD_SECONDS + FAILED_SECONDS})
    start = time.monotonic()
    time.sleep(LEAD_SECONDS)
    hosts.fail(job.failure)
    try:
        found = hosts.learner.hear(start + LEAD_SECONDS + LONGEST_WAIT - time.monotonic())
    except Silent:
        raise Stuck(f"the learner waited for longer than {LONGEST_WAIT:.0f} s") from None
    figures["longest_wait"] = _failed(_raised(found)) if found["raised"] else _ok(found["longest"])
    after = hosts.learner.do("endure", **endure)
    figures["rate_after"] = _ok(after["rate"] / before["rate"]) if after["rate"] else _failed(_raised(after))


def _raised(found: Mapping[str, object]) -> str:
    return f"the learner's call raised {found['raised']}"


def main() -> int:
    def options(parser: argparse.ArgumentParser) -> None:
        entry.add_jobs(parser, HostsJob, encoded(JOB))
        entry.add_seconds(parser)

    return entry.main(SUITE, __doc__, options, lambda args: measure(args.peer, args.jobs or [JOB], args.seconds))


if __name__ == "__main__":
    sys.exit(main())
