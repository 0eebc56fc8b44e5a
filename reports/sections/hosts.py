"""Hosts: a learner and an explorer that use rows on other hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports.figures.formatting import counted, listed, number
from reports.figures.jobs import Job, Kind, Suite, per_cell
from reports.planning.measured import UNLIMITED, link_speed
from reports.sections.integrity import WHOLE
from reports.sections.matrix import MatrixTable, matrix
from reports.sections.section import Context, Part, Section
from results.verdicts import HOSTS_REFERENCE

RATES = ("learner", "explorer")
LEARNER = {
    "learner": "batches",
    "step_p50": "step p50",
    "step_p99": "step p99",
    "learner_cpu": "CPU of the learner",
    "data_cpu": "CPU of the data hosts",
    "wire": "sent",
    "learner_beside": "beside an explorer",
    "staleness": "staleness",
}
EXPLORER = {
    "explorer": "rows",
    "explorer_cpu": "CPU of the explorer",
    "storing_cpu": "CPU of the data hosts",
    "explorer_beside": "beside a learner",
    "local_explorer": "rows, on a data host",
    "adding_cpu": "CPU of the data hosts, on a data host",
}
FAILURE = {"longest_wait": "longest wait", "rate_after": "rate after it"}
FAILURES = {"killed": "process killed", "cut": "link cut for 2 s", "power": "power lost"}
SUITE = Suite(
    "hosts",
    kind=Kind.RATIOS,
    reference=HOSTS_REFERENCE,
    benchmarks={
        **LEARNER,
        **{name: f"explorer: {label}" for name, label in EXPLORER.items()},
        WHOLE: "rows checked",
        **{name: f"{label}, {{failure}}" for name, label in FAILURE.items()},
    },
    counts=("wire", "staleness", WHOLE, "rate_after"),
)


#: A way of the first peer in records from before its messages were encrypted by default.
ENCRYPTED = "encrypted"


@dataclass(frozen=True)
class Hosts:
    launches: str
    checked: str
    formerly: str  # which peer did not encrypt by default, if any
    tables: Sequence[MatrixTable]
    failures: Sequence[MatrixTable]

    @property
    def explained(self) -> str:
        return (
            "The learner and the explorer run on one host, and the rows are on the data hosts: a step of the learner "
            "is a prioritized sample and the update of its priorities, and rows count once their storing was "
            "acknowledged. With one data host and unlimited links, a further explorer runs on the data host. All hosts "
            "are Linux namespaces of one machine, with a network each, and share its processors, so more hosts are "
            "not faster here; read ratios and CPU times. Staleness is the number of batches that are drawn after an "
            "update of priorities and before the first one that it affects."
            f"{self.launches} {self.checked} {self.formerly}"
        )

    @property
    def failures_explained(self) -> str:
        return (
            "In the middle of a learner's loop, the first data host fails: the process that serves rows is killed, "
            "the host's link is cut for two seconds, or the host loses power. The longest wait is the time from one "
            "complete step to the next. The rate afterwards is relative to the one before; a learner whose call "
            "raised an exception has called again. A learner that waits for longer than 15 s, or whose call raises "
            "an exception, has no figure for its wait. A peer that is used with a server or an actor on the first "
            "data host has no rows on the other one."
        )


def parts(context: Context) -> list[Part]:
    jobs = [job for job in context.jobs_of(SUITE) if job.cells]
    if not jobs:
        return []
    places: dict[str, dict[str, Job]] = {}
    for job in sorted(jobs, key=_order):
        if "failure" not in job.params:
            places.setdefault(_place(job), {})[job.benchmark] = job
    tables = []
    for place, by_benchmark in places.items():
        for side, labels in (("learner", LEARNER), ("explorer", EXPLORER)):
            columns = [(label, by_benchmark[name]) for name, label in labels.items() if name in by_benchmark]
            if columns:
                tables.append(matrix(context, f"{side}: {place}", columns, context.reference(SUITE)))
    body = Hosts(per_cell(jobs), _checked(jobs), formerly_unencrypted(jobs), tables, [*_failures(context, jobs)])
    return [Part("hosts", "hosts", SUITE.title, body)]


def _failures(context: Context, jobs: Sequence[Job]) -> Iterator[MatrixTable]:
    places: dict[str, list[Job]] = {}
    for job in jobs:
        if "failure" in job.params:
            places.setdefault(_place(job), []).append(job)
    for place, failed in places.items():
        columns = [
            (f"{label}: {FAILURE[job.benchmark]}", job)
            for failure, label in FAILURES.items()
            for job in failed
            if job.params["failure"] == failure
        ]
        yield matrix(context, f"failures: {place}", columns, None)


def _checked(jobs: Sequence[Job]) -> str:
    """Say how many rows were checked that were drawn beside an explorer, and of which peers some were wrong."""
    rows: dict[str, float] = {}
    wrong: dict[str, None] = {}
    for peer, record in [pair for job in jobs if job.benchmark == WHOLE for pair in job.cells.items()]:
        rows[peer] = rows.get(peer, 0) + sum(sample.value for sample in record.samples)
        if record.status == "wrong":
            wrong[peer] = None
    counts = listed([f"{number(count)} of {peer}" for peer, count in rows.items() if count], most=len(rows))
    if not counts:
        return ""
    found = f"wrong ones were found of {listed([*wrong])}" if wrong else "none was wrong"
    return f"Rows that were drawn beside an explorer were compared with those that were added ({counts}): {found}."


def formerly_unencrypted(jobs: Sequence[Job]) -> str:
    """Say which peer did not encrypt by default when it was measured, if its variant that did was measured, too."""
    peers = {peer for job in jobs for peer in job.cells}
    for peer in sorted(peers):
        if (encrypted := f"{peer.removesuffix(']')}, {ENCRYPTED}]") in peers:
            return (
                f"{peer} sent rows in clear text, which was its default when this was measured. It now encrypts by "
                f"default, as {encrypted} does here."
            )
    return ""


def is_plain(job: Job) -> bool:
    """Return whether one data host is used over an unlimited link, and does not fail."""
    return job.params["data_hosts"] == 1 and job.params["link"] == UNLIMITED and "failure" not in job.params


def _order(job: Job) -> float:
    """Fast links first."""
    return -link_speed(str(job.params["link"]))


def _place(job: Job) -> str:
    link = job.params["link"]
    speed = "unlimited links" if link == UNLIMITED else f"links of {link}/s".replace("gbit", " Gbit")
    hosts = counted(int(str(job.params["data_hosts"])), "data host")
    return f"{job.workload}, batches of {job.params['batch']}, {hosts}, {speed}"


SECTION = Section(parts, SUITE)
