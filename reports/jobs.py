"""A job is what the peers are compared at: one benchmark with one set of parameters on one workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from statistics import median
from string import Formatter

from results import Record, Run

#: The peer to which ratios are given, where the run has it.
REFERENCE = "cpprb"

#: It is not about speed, so it has no answers and a section of its own.
MEMORY_SUITE = "memory"
#: Of its benchmarks, those that look for a leak.
LEAKS = ("leak", "leak_prioritized")
#: Nor is this about what goes on for hours.
STARTUP_SUITE = "startup"

#: Nor is this: what it looks for is what must not happen.
INTEGRITY_SUITE = "integrity"
#: Nor this: it sees words, not speeds.
CONFORMANCE_SUITE = "conformance"
#: Its jobs are about more than one process at once: a section of its own, with ratios to this peer.
SHARING_SUITE = "sharing"
SHARING_REFERENCE = "cpprb[MP]"

#: How benchmarks are called in tables, in this order; others come after, under their own name.
BENCHMARKS = {
    "add": "add {batch}",
    "add_dicts": "add {batch} from dicts",
    "add_lists": "add {batch} from lists",
    "add_prioritized": "add {batch} with priority",
    "sample": "sample {batch}",
    "prioritized": "prioritized cycle {batch}",
    "compressed_add": "frames once: add {batch}",
    "compressed_sample": "frames once: sample {batch}",
    "plain": "memory, plain",
    "priorities": "memory, prioritized",
    "next_of": "memory, next_of",
    "stack_compress": "memory, stack_compress",
    "both": "memory, next_of and stack_compress",
    "constructed": "memory when made",
    "quarter": "memory, a quarter full",
    "half": "memory, half full",
    "peak": "peak while sampling",
    "leak": "leak",
    "leak_prioritized": "leak, prioritized",
    "import": "import",
    "construct": "construct",
    "first_add": "first add",
    "fill": "fill",
    "first_sample": "first sample of 32",
    "first_cycle": "first prioritized cycle of 32",
    "explorers": "explorers N={explorers}",
    "learner": "learner N={explorers}",
    "torn": "torn rows",
    "unwritten": "never-written rows",
    "stale": "stale priorities",
    "starvation": "starvation",
    "lost": "lost rows",
    "duplicated": "rows stored twice",
    "killed": "explorers killed",
    "adds": "add {batch} from N={explorers}",
    "samples": "sample 32 beside N={explorers}, add {batch}",
    "slowest": "slowest of N={explorers}, add {batch}",
    "step": "learner's step, {batch} added",
    "add_alone": "add {batch} alone",
}
#: What most of them mean beyond their names, for under the tables.
EXPLAINED = {
    "add_dicts": "from dicts: each step is kept as a dict, and goes in by keyword where the library has keywords",
    "add_lists": "from lists: columns are nested Python lists",
    "add_prioritized": "with priority: one by one into a prioritized buffer, each with its priority",
    "prioritized": "prioritized cycle: a prioritized sample, and the update of its priorities",
    "compressed_add": "frames once: next observations, and each frame of a stack, are stored once",
}


@dataclass
class Job:
    """`cells` maps a peer's name to its record, whatever its status; in the run's order of peers."""

    suite: str
    benchmark: str
    workload: str
    params: Mapping[str, object]
    unit: str
    better: str
    label: str  # add 100
    cells: dict[str, Record] = field(default_factory=dict)

    @property
    def full_label(self) -> str:
        return f"{self.label} on {self.workload}"

    @property
    def measured(self) -> dict[str, Record]:
        return {peer: record for peer, record in self.cells.items() if record.ok}


def is_finding(record: Record) -> bool:
    """A peer did what the integrity or conformance suite looks for, or leaks: that is its result, and no failure to
    measure."""
    looked_for = record.suite in (INTEGRITY_SUITE, CONFORMANCE_SUITE) or record.benchmark in LEAKS
    return record.status == "wrong" and looked_for


def jobs_of(run: Run) -> list[Job]:
    """All jobs of a run: by suite and workload as they come, then in the order of BENCHMARKS and by parameters."""
    jobs: dict[Hashable, Job] = {}
    for record in run.records:
        key = (record.suite, record.workload, record.benchmark, tuple(sorted(map(str, record.params.items()))))
        job = jobs.setdefault(
            key,
            Job(record.suite, record.benchmark, record.workload, record.params, record.unit, record.better, ""),
        )
        job.cells[record.peer] = record

    order_of_peers = {peer.name: number for number, peer in enumerate(run.peers)}
    for job in jobs.values():
        job.cells = dict(sorted(job.cells.items(), key=lambda item: order_of_peers[item[0]]))
        job.label = _label(job, list(jobs.values()))

    suites = list(dict.fromkeys(record.suite for record in run.records))
    workloads = [workload.name for workload in run.workloads]
    benchmarks = list(dict.fromkeys([*BENCHMARKS, *(record.benchmark for record in run.records)]))

    def position(job: Job) -> tuple[object, ...]:
        place = suites.index(job.suite), workloads.index(job.workload), benchmarks.index(job.benchmark)
        return *place, [_sortable(job.params[name]) for name in sorted(job.params)]

    return sorted(jobs.values(), key=position)


def _label(job: Job, jobs: list[Job]) -> str:
    """ "add 100", "explorers N=4"; other parameters only if they tell this job from its usual kind."""
    template = BENCHMARKS.get(job.benchmark, job.benchmark)
    said = {name for _, name, _, _ in Formatter().parse(template) if name}
    words = [template.format(**job.params) if said <= job.params.keys() else job.benchmark]
    near = [other for other in jobs if (other.suite, other.workload) == (job.suite, job.workload)]
    alike = [other.params for other in near if other.benchmark == job.benchmark]
    words += [
        f"{name} {value:,}" if type(value) is int else f"{name}={value}"
        for name, value in job.params.items()
        if name not in said
        and any(params.get(name) != value for params in alike)
        and value != usual([other.params.get(name) for other in near])
    ]
    return ", ".join(words)


def usual(values: list[object]) -> object:
    """The value that more than half of these have, else None: it need not be said of each."""
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > len(values) else None


def _sortable(value: object) -> tuple[int, float, str]:
    """Numbers by size, before texts."""
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))


def base_name(peer: str) -> str:
    """The library of a variant: cpprb of "cpprb[MP]"."""
    return peer.partition("[")[0]


def reference_name(run: Run, suite: str) -> str | None:
    """Whose figures the ratios of this suite are to: REFERENCE, one of its variants (as a group), else the first peer.

    None if the suite measured nobody.
    """
    measured = {record.peer for record in run.records if record.suite == suite and record.ok}
    present = [peer.name for peer in run.peers if peer.name in measured]
    if any(base_name(name) == REFERENCE for name in present):
        return REFERENCE
    return present[0] if present else None


def reference_record(job: Job, name: str | None) -> Record | None:
    """The record of this job that ratios are to: the named peer's, else that of its fastest variant here."""
    measured = job.measured
    if name is None or name in measured:
        return measured.get(name or "")
    variants = [record for peer, record in measured.items() if base_name(peer) == name]
    return fastest_first(variants)[0] if variants else None


def fastest_first(records: list[Record]) -> list[Record]:
    """By median over launches."""

    def middle(record: Record) -> float:
        value = median(sample.value for sample in record.samples)
        return value if record.better == "lower" else -value

    return sorted(records, key=middle)
