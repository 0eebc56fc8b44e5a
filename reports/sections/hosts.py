"""Hosts: a learner and an explorer that use rows on other hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.figures.formatting import counted
from reports.figures.jobs import HOSTS_REFERENCE, Job, Kind, Suite, per_cell
from reports.sections.matrix import MatrixTable, matrix
from reports.sections.section import Context, Part, Section

UNLIMITED = "none"  # the speed of links
LEARNER = {
    "learner": "batches",
    "step_p50": "step p50",
    "step_p99": "step p99",
    "learner_cpu": "CPU of the learner",
    "data_cpu": "CPU of the data hosts",
    "wire": "sent",
    "learner_beside": "beside an explorer",
}
EXPLORER = {
    "explorer": "rows",
    "explorer_cpu": "CPU of the explorer",
    "storing_cpu": "CPU of the data hosts",
    "explorer_beside": "beside a learner",
}
SUITE = Suite(
    "hosts",
    kind=Kind.RATIOS,
    reference=HOSTS_REFERENCE,
    benchmarks={**LEARNER, **{name: f"explorer: {label}" for name, label in EXPLORER.items()}},
    counts=("wire",),
)


@dataclass(frozen=True)
class Hosts:
    launches: str
    tables: Sequence[MatrixTable]

    @property
    def explained(self) -> str:
        return (
            "The learner and the explorer run on one host, and the rows are on the data hosts: a step of the learner "
            "is a prioritized sample and the update of its priorities, and rows count once their storing was "
            "acknowledged. All hosts are Linux namespaces of one machine, with a network each, and share its "
            f"processors, so more hosts are not faster here; read ratios and CPU times.{self.launches}"
        )


def parts(context: Context) -> list[Part]:
    jobs = [job for job in context.jobs_of(SUITE) if job.cells]
    if not jobs:
        return []
    places: dict[str, dict[str, Job]] = {}
    for job in jobs:
        places.setdefault(_place(job), {})[job.benchmark] = job
    tables = []
    for place, by_benchmark in places.items():
        for side, labels in (("learner", LEARNER), ("explorer", EXPLORER)):
            columns = [(label, by_benchmark[name]) for name, label in labels.items() if name in by_benchmark]
            if columns:
                tables.append(matrix(context, f"{side}: {place}", columns, context.reference(SUITE)))
    return [Part("hosts", "hosts", SUITE.title, Hosts(per_cell(jobs), tables))]


def _place(job: Job) -> str:
    link = job.params["link"]
    speed = "unlimited links" if link == UNLIMITED else f"links of {link}/s".replace("gbit", " Gbit")
    hosts = counted(int(str(job.params["data_hosts"])), "data host")
    return f"{job.workload}, batches of {job.params['batch']}, {hosts}, {speed}"


SECTION = Section(parts, SUITE)
