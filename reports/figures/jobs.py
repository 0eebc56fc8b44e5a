"""A job is what the peers are compared at: one benchmark with one set of parameters on one workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from string import Formatter

from reports.figures.formatting import counted
from results import Peer, Record, Run

#: The peer to which ratios are given, where the run has it.
REFERENCE = "cpprb"
#: The same for buffers that processes share: all ratios of these suites are to this one peer.
SHARED_REFERENCE = "cpprb[MP]"

THROUGHPUT_SUITE = "throughput"
APEX_SUITE = "apex"
SHARING_SUITE = "sharing"
LATENCY_SUITE = "latency"
MEMORY_SUITE = "memory"
STARTUP_SUITE = "startup"
INTEGRITY_SUITE = "integrity"
CONFORMANCE_SUITE = "conformance"

#: How suites are called in sentences; others under their own name.
SPOKEN_SUITES = {APEX_SUITE: "Ape-X", STARTUP_SUITE: "start-up"}

SHARED_SUITES = (APEX_SUITE, SHARING_SUITE)
#: Suites whose figures are compared as ratios.
COMPARED_SUITES = (THROUGHPUT_SUITE, APEX_SUITE, SHARING_SUITE, LATENCY_SUITE)
#: Of the memory suite, the benchmarks that look for a leak.
LEAKS = ("leak", "leak_prioritized")
#: Of the apex suite: how many rows were checked while the explorers ran. Not a speed.
WHOLE = "whole"

#: How benchmarks are called in tables, in this order; others come after, under their own name.
BENCHMARKS = {
    "add": "add {batch}",
    "add_dicts": "add {batch} from dicts",
    "add_lists": "add {batch} from lists",
    "learner_step": "learner's step, {adds} added",
    "learner_step_uniform": "learner's step, uniform, {adds} added",
    "sample": "sample {batch}",
    "sample_held": "sample {batch}, {held} held",
    "sample_beside": "sample {batch} beside {work_ms} ms of work",
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
    WHOLE: "rows checked N={explorers}",
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
    "prioritized_adds": "prioritized add {batch} from N={explorers}",
    "prioritized_cycles": "prioritized cycle beside N={explorers}, add {batch}",
    "prioritized_slowest": "slowest of N={explorers}, prioritized add {batch}",
    **{
        f"{call}_{end}": f"{call} {tail}"
        for call in ("add", "sample", "update")
        for end, tail in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"))
    },
    "step": "learner's step, {batch} added",
    "add_alone": "add {batch} alone",
}
#: What most of them mean beyond their names, for under the tables.
EXPLAINED = {
    "add_dicts": "from dicts: each step is kept as a dict, and goes in by keyword where the library has keywords",
    "add_lists": "from lists: columns are nested Python lists",
    "learner_step": "learner's step: transitions added one by one to a prioritized buffer, then one prioritized sample "
    "of 32 and the update of its priorities, timed as a whole",
    "learner_step_uniform": "uniform: the same on a uniform buffer, so without priorities",
    "sample_held": "held: the newest batches stay referenced, so their arrays cannot be recycled",
    "sample_beside": "beside work: how long sample blocked a learner that works on 8 MB of other data between samples",
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

    @property
    def shown(self) -> dict[str, Record]:
        """Records whose figure is shown: the measured ones, and those with samples from before something went wrong."""
        return {peer: record for peer, record in self.cells.items() if has_figure(record)}


def is_finding(record: Record) -> bool:
    """The peer crashed, hung, raised or answered wrong: a result about it, not a failure to measure."""
    return record.status in ("wrong", "failed")


def has_figure(record: Record) -> bool:
    return bool(record.samples) and record.status != "invalidated"


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


def by_library(run: Run) -> list[Peer]:
    """The run's peers, the variants of a library side by side."""
    libraries = list(dict.fromkeys(base_name(peer.name) for peer in run.peers))
    return sorted(run.peers, key=lambda peer: libraries.index(base_name(peer.name)))


def reference_name(run: Run, suite: str) -> str | None:
    """The peer that the ratios of this suite are to, or the first peer with a figure where that one has none.

    None if the suite measured no peer.
    """
    measured = {record.peer for record in run.records if record.suite == suite and has_figure(record)}
    present = [peer.name for peer in run.peers if peer.name in measured]
    wanted = SHARED_REFERENCE if suite in SHARED_SUITES else REFERENCE
    return wanted if wanted in present else next(iter(present), None)


def launches_of(jobs: Sequence[Job]) -> str:
    """How many launches the figures of these jobs stand on: "1 launch", "3 to 5 launches", or ""."""
    counts = sorted({len(record.samples) for job in jobs for record in job.measured.values()})
    if not counts:
        return ""
    return counted(counts[0], "launch") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} launches"


def fastest_first(records: list[Record]) -> list[Record]:
    """By median over launches."""

    def middle(record: Record) -> float:
        value = median(sample.value for sample in record.samples)
        return value if record.better == "lower" else -value

    return sorted(records, key=middle)
