"""Jobs, the units in which peers are compared: one benchmark with one set of parameters on one workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from statistics import median
from string import Formatter

from results.record import Record, Run
from results.suites import SUITES, SuitePresentation, suite_of


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
    """Return whether the peer crashed, hung, raised an exception or returned a wrong answer: a result."""
    return record.status in ("wrong", "failed")


def has_figure(record: Record) -> bool:
    return bool(record.samples) and record.status != "invalidated"


def jobs_of(run: Run) -> list[Job]:
    """Return all jobs of a run, ordered by suite, workload, and the order of their suite's benchmarks."""
    jobs: dict[Hashable, Job] = {}
    for record in run.records:
        key = (record.suite, record.workload, record.benchmark, tuple(sorted(map(str, record.params.items()))))
        job = jobs.setdefault(
            key,
            Job(record.suite, record.benchmark, record.workload, record.params, record.unit, record.better, ""),
        )
        job.cells[record.peer] = record

    near: dict[tuple[str, str], list[Job]] = {}
    for job in jobs.values():
        near.setdefault((job.suite, job.workload), []).append(job)
    usual_of = {place: _usual_parameters(there) for place, there in near.items()}

    order_of_peers = {peer.name: number for number, peer in enumerate(run.peers)}
    for job in jobs.values():
        job.cells = dict(sorted(job.cells.items(), key=lambda item: order_of_peers[item[0]]))
        template = suite_of(job.suite).labels.get(job.benchmark, job.benchmark)
        place = job.suite, job.workload
        job.label = _label(job, template, near[place], usual_of[place])

    suites = list(dict.fromkeys(record.suite for record in run.records))
    workloads = [workload.name for workload in run.workloads]
    spoken_of = [(name, benchmark) for name, suite in SUITES.items() for benchmark in suite.labels]
    benchmarks = list(dict.fromkeys([*spoken_of, *((record.suite, record.benchmark) for record in run.records)]))

    def position(job: Job) -> tuple[object, ...]:
        place = suites.index(job.suite), workloads.index(job.workload), benchmarks.index((job.suite, job.benchmark))
        return *place, [_sortable(job.params[name]) for name in sorted(job.params)]

    return sorted(jobs.values(), key=position)


def _usual_parameters(jobs: list[Job]) -> dict[str, object]:
    names = dict.fromkeys(name for job in jobs for name in job.params)
    return {name: usual([job.params.get(name) for job in jobs]) for name in names}


def _label(job: Job, template: str, near: list[Job], usual_of: dict[str, object]) -> str:
    """Return a label such as "add 100". Parameters that the template does not contain are added if they are unusual."""
    said = named_in(template)
    words = [template.format(**job.params) if said <= job.params.keys() else job.benchmark]
    alike = [other.params for other in near if other.benchmark == job.benchmark]
    words += [
        parameter_text(name, value)
        for name, value in job.params.items()
        if name not in said and value != usual_of[name] and any(params.get(name) != value for params in alike)
    ]
    return ", ".join(words)


def named_in(template: str) -> set[str]:
    """Return the parameters that a benchmark's label contains."""
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def parameter_text(name: str, value: object) -> str:
    """Return "capacity 100,000" or "lock=none"."""
    return f"{name} {value:,}" if type(value) is int else f"{name}={value}"


def usual(values: list[object]) -> object:
    """Return the value that more than half of these share, or None. Labels omit it."""
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > len(values) else None


def _sortable(value: object) -> tuple[int, float, str]:
    """Return a key that sorts numbers by size, before texts."""
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))


def reference_name(run: Run, suite: SuitePresentation) -> str | None:
    """Return the peer to which this suite's peers are compared: its reference, or the first peer with a figure.

    None if the suite measured no peer.
    """
    measured = {record.peer for record in run.records if record.suite == suite.name and has_figure(record)}
    present = [peer.name for peer in run.peers if peer.name in measured]
    return suite.reference if suite.reference in present else next(iter(present), None)


def fastest_first(records: list[Record]) -> list[Record]:
    """Sort records by their median over launches."""

    def middle(record: Record) -> float:
        value = median(sample.value for sample in record.samples)
        return value if record.better == "lower" else -value

    return sorted(records, key=middle)
