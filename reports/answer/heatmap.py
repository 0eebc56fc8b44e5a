"""The heat map of peers by jobs: the speed of each peer relative to the reference peer, with one process and with
many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from reports.checks import Check, explained, unchecked
from reports.figures.formatting import NOTHING, size
from reports.figures.peers import by_library
from reports.figures.ratios import Ratio, ratio_of
from reports.sections import apex
from reports.sections.section import Context
from reports.tables import notes
from results import RecordedWorkload, Run
from results.jobs import Job
from results.suites import SUITES, SuitePresentation
from results.verdicts import MATTERS, library_of

#: Rows of at least this many bytes, such as frames, are large: copying one costs more than the call around it.
LARGE_ROW = 4_096
#: Upper ends of the shades on each side of 1; the last shade has no upper end.
SHADE_ENDS = (MATTERS, 2.0, 5.0, 20.0)
#: The smallest and the largest batch of a call in a run: a user-defined workload has its own batch sizes.
LEAST, MOST = min, max
#: (benchmark, required parameters, heading of the column)
SMALL_ROWS = (
    ("learner_step", {"adds": 4}, "step"),
    ("add", {"batch": LEAST}, "add {batch}"),
    ("add", {"batch": MOST}, "add {batch}"),
    ("sample", {"batch": LEAST}, "sample {batch}"),
    ("sample_held", {"batch": 32}, "sample, 8 held"),
    ("sample_beside", {"batch": 32, "work_ms": 1}, "sample beside work"),
    ("prioritized", {"batch": LEAST}, "cycle {batch}"),
    ("sample", {"batch": MOST}, "sample {batch}"),
    ("prioritized", {"batch": MOST}, "cycle {batch}"),
)
LARGE_ROWS = (
    ("learner_step", {"adds": 4}, "step"),
    ("add", {"batch": LEAST}, "add {batch}"),
    ("sample", {"batch": LEAST}, "sample {batch}"),
    ("sample", {"batch": MOST}, "sample {batch}"),
    ("prioritized", {"batch": LEAST}, "cycle {batch}"),
    ("add", {"batch": MOST}, "add {batch}"),
    ("prioritized", {"batch": MOST}, "cycle {batch}"),
)
#: The number of columns that fit; further columns appear only in the tables below.
MOST_SMALL, MOST_LARGE = 8, 6
APEX = (("explorers", {}, "adds"), ("learner", {}, "learner, no work"))
WORKING = (
    ("explorers", {"learner": "1000 us"}, "adds"),
    ("learner", {"learner": "1000 us"}, "learner, 1 ms of work"),
)
SHARING = (
    ("prioritized_adds", {"batch": 100}, "prior. adds"),
    ("prioritized_cycles", {"batch": 100}, "prior. cycles"),
    ("adds", {"batch": 1}, "adds"),
    ("samples", {"batch": 1}, "samples"),
)
Wanted = Sequence[tuple[str, Mapping[str, object], str]]


@dataclass(frozen=True)
class HeatCell:
    text: str
    shade: int | None  # 0: as fast as the reference; 4: much faster; -4: much slower; None: no figure

    @property
    def css(self) -> str:
        if self.shade is None:
            return "none"
        return f"{'better' if self.shade > 0 else 'worse'}-{abs(self.shade)}" if self.shade else "same"


@dataclass(frozen=True)
class HeatColumn:
    label: str
    group: str  # the workload, or the suite and its number of explorers
    job: Job


@dataclass(frozen=True)
class HeatRow:
    peer: str
    marks: str
    cells: Sequence[HeatCell]


@dataclass(frozen=True)
class HeatTable:
    title: str
    reference: str
    columns: Sequence[HeatColumn]
    rows: Sequence[HeatRow]

    @property
    def groups(self) -> Mapping[str, int]:
        """The number of columns of each group, in order."""
        return Counter(column.group for column in self.columns)


@dataclass(frozen=True)
class HeatMap:
    tables: Sequence[HeatTable]
    alone: Sequence[tuple[str, str]] = ()  # (title, peer) of tables with a single peer, in which nothing is compared
    checks: Sequence[Check] = ()
    unchecked: Sequence[tuple[str, str]] = ()  # signs whose absence means nothing, because not all peers were checked

    @property
    def notes(self) -> list[tuple[str, str]]:
        """(sign, meaning) of the signs in the heat map."""
        texts = [cell.text for table in self.tables for row in table.rows for cell in row.cells]
        signs = "".join(row.marks for table in self.tables for row in table.rows)
        found = []

        def used(*marks: str) -> list[tuple[str, str]]:
            return [(mark, notes.MEANINGS[mark]) for mark in marks if any(mark in text for text in texts)]

        found += used(notes.KEEPS_REFERENCES, notes.BEFORE_IT_WENT_WRONG)
        found += [*explained(self.checks, signs), *self.unchecked]
        found += used(notes.APPROXIMATE, notes.BOUND)
        if any(row.peer.endswith(notes.REWRITTEN) for table in self.tables for row in table.rows):
            found.append((notes.REWRITTEN, notes.MEANINGS[notes.REWRITTEN]))
        if any(text == NOTHING for text in texts):
            found.append((NOTHING, "no figure: not offered, not measured, or withdrawn"))
        return found


def heat_map(context: Context, with_variants: bool = True) -> HeatMap:
    """Return both tables. Without variants, the table of one process has one row per library."""
    one_process = [column for part in columns_of_one_process(context) for column in part]
    shared = shared_columns(context.jobs).all
    tables = [
        _table(context, "One process", _reference(context, SUITES["throughput"]), one_process),
        _table(context, "Many processes", _reference(context, SUITES["apex"], SUITES["sharing"]), shared),
    ]
    if not with_variants:
        tables[0] = replace(tables[0], rows=[row for row in tables[0].rows if row.peer == library_of(row.peer)])
    shown = [table for table in tables if len(table.rows) > 1]
    alone = [(table.title, table.rows[0].peer) for table in tables if len(table.rows) == 1]
    peers = {row.peer for table in shown for row in table.rows}
    return HeatMap(shown, alone, context.checks, unchecked(context.run, context.checks, peers))


def _reference(context: Context, *suites: SuitePresentation) -> str:
    """Return the reference of the first of these suites that has one."""
    found = (context.reference(suite) for suite in suites)
    return next(filter(None, found), suites[0].reference)


def columns_of_one_process(context: Context) -> tuple[list[HeatColumn], list[HeatColumn]]:
    """Return the columns for small rows and for large rows, each for the workload of that kind with the most jobs."""
    speeds = [job for job in context.jobs if job.suite == "throughput"]
    found = []
    kinds = ((SMALL_ROWS, MOST_SMALL), (LARGE_ROWS, MOST_LARGE))
    for (wanted, most), workload in zip(kinds, typical_workloads(context.run, speeds), strict=True):
        mine = [job for job in speeds if workload and job.workload == workload.name]
        group = f"{workload.name}, {size(workload.row_bytes)}" if workload else ""
        found.append(_columns(mine, wanted, group)[:most])
    return found[0], found[1]


def typical_workloads(run: Run, jobs: Sequence[Job]) -> tuple[RecordedWorkload | None, RecordedWorkload | None]:
    """Return the two workloads, one with small rows and one with large rows, for which the most jobs were measured."""
    counts = {each.name: sum(job.workload == each.name for job in jobs) for each in run.workloads}
    measured = [workload for workload in run.workloads if counts[workload.name]]
    kinds = ([w for w in measured if w.row_bytes < LARGE_ROW], [w for w in measured if w.row_bytes >= LARGE_ROW])
    small, large = (max(kind, key=lambda each: counts[each.name], default=None) for kind in kinds)
    return small, large


@dataclass(frozen=True)
class SharedColumns:
    """The columns of buffers that processes share."""

    in_apex: Sequence[HeatColumn]  # with as many explorers as its section compares, and a learner without work
    working: Sequence[HeatColumn]  # the same with a learner that works
    in_loops: Sequence[HeatColumn]  # in empty loops, with the most explorers measured

    @property
    def all(self) -> list[HeatColumn]:
        """All columns of the heat map; the columns of explorers appear only once."""
        plain = [each for each in self.in_apex if not self.working or each.job.benchmark != "explorers"]
        return [*self.working, *plain, *self.in_loops]


def shared_columns(jobs: Sequence[Job]) -> SharedColumns:
    in_apex = [job for job in jobs if job.suite == "apex"]
    in_loops = [job for job in jobs if job.suite == "sharing"]
    return SharedColumns(
        _columns_of_a_fleet(filter(apex.is_plain, in_apex), APEX, "Ape-X", apex.compared_fleet),
        _columns_of_a_fleet(filter(apex.is_working, in_apex), WORKING, "Ape-X", apex.compared_fleet),
        _columns_of_a_fleet(in_loops, SHARING, "empty loops", _largest_fleet),
    )


def _largest_fleet(jobs: Sequence[Job]) -> int:
    return max((apex.explorers_of(job) for job in jobs), default=0)


def _columns_of_a_fleet(
    jobs: Iterable[Job], wanted: Wanted, title: str, fleet_of: Callable[[Sequence[Job]], int]
) -> list[HeatColumn]:
    """Return the wanted columns for the workload with the most jobs and one number of explorers."""
    mine = [job for job in jobs if job.benchmark in {each[0] for each in wanted}]
    workload = max((job.workload for job in mine), key=[job.workload for job in mine].count, default="")
    mine = [job for job in mine if job.workload == workload]
    fleet = fleet_of(mine)
    return _columns([job for job in mine if apex.explorers_of(job) == fleet], wanted, f"{title}, {fleet} explorers")


def _columns(jobs: Sequence[Job], wanted: Wanted, group: str) -> list[HeatColumn]:
    """Return the wanted columns that exist, in the order of `wanted`. A batch that is both the smallest and the largest
    has only one column."""
    columns: list[HeatColumn] = []
    for benchmark, required, label in wanted:
        mine = [job for job in jobs if job.benchmark == benchmark]
        params = {name: _value(value, name, mine) for name, value in required.items()}
        alike = [job for job in mine if params.items() <= job.params.items()]
        for job in _capacities(alike, benchmark):
            rows = int(job.params.get("capacity", 0))
            name = label.format(**job.params)
            name = f"{name}, {_power(rows)} rows" if benchmark == "learner_step" else name
            if all(column.job is not job for column in columns):
                columns.append(HeatColumn(name, group, job))
    return columns


def _value(required: object, name: str, jobs: Sequence[Job]) -> object:
    """Return the value that a parameter must have in a column: a fixed one, or the smallest or largest among these
    jobs."""
    known = [job.params[name] for job in jobs if name in job.params]
    return required(known, default=None) if callable(required) else required


def _capacities(jobs: Sequence[Job], benchmark: str) -> list[Job]:
    """Return the job with the usual capacity or, for a learner's step, all jobs with 10^5 to 10^6 rows."""
    ordered = sorted(jobs, key=lambda job: int(job.params.get("capacity", 0)))
    if benchmark == "learner_step":
        large = [job for job in ordered if 10**5 <= int(job.params.get("capacity", 0)) <= 10**6]
        return large or ordered[-1:]
    near = [job for job in ordered if int(job.params.get("capacity", 0)) <= 10**5]
    return (near or ordered)[-1:]


def _power(rows: int) -> str:
    powers = {10**power: f"10{sign}" for power, sign in ((4, "⁴"), (5, "⁵"), (6, "⁶"), (7, "⁷"))}
    return powers.get(rows, f"{rows:,}")


def _table(context: Context, title: str, reference: str, columns: Sequence[HeatColumn]) -> HeatTable:
    rows = []
    for peer in by_library(context.run):
        if any(peer.name in column.job.shown for column in columns):
            careless = [peer.known.keeps(column.job.benchmark, column.job.params) for column in columns]
            cells = [
                _cell(column.job, peer.name, reference, kept) for column, kept in zip(columns, careless, strict=True)
            ]
            rows.append(HeatRow(peer.name, context.signs[peer.name], cells))
    return HeatTable(title, reference, columns, rows)


def _cell(job: Job, peer: str, reference: str, careless: bool) -> HeatCell:
    record = job.shown.get(peer)
    against = job.shown.get(reference)
    ratio = ratio_of(record, against)
    if record is None or (ratio is None and record is not against):
        return HeatCell(NOTHING, None)
    mark = (notes.KEEPS_REFERENCES if careless else "") + ("" if record.ok else notes.BEFORE_IT_WENT_WRONG)
    if ratio is None:
        return HeatCell("1", 0)
    return HeatCell(ratio.shortest + mark, shade_of(ratio))


def shade_of(ratio: Ratio) -> int:
    """Return 0 within 10% of the reference, or if the interval contains 1; else 1 to 4 for faster and -1 to -4 for
    slower, on a log scale."""
    if not ratio.figure.is_range and ratio.figure.low <= 1 <= ratio.figure.high:
        return 0
    distance = max(ratio.value, 1 / ratio.value)
    steps = sum(distance > end for end in SHADE_ENDS)
    return steps if ratio.value > 1 else -steps
