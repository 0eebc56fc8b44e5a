"""All figures: in HTML, a table in which they are looked up; in Markdown, tables of each suite and workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports.figures.formatting import NOTHING, launches_of
from reports.figures.ratios import figure_of, ratio_of
from reports.sections.section import Context, Part, Section
from reports.tables import notes
from reports.tables.cells import scale_of
from results.jobs import Job, has_figure, usual
from results.suites import Kind, Suite

#: Suites with a section of their own, whose figures would make hundreds of tables.
TOLD_ELSEWHERE = ("apex", "learning", "learners", "control")
JOBS_A_TABLE = 6
IN_NAMES = ("batch", "explorers")  # parameters that a job's name always has


@dataclass(frozen=True)
class FigureTable:
    columns: Sequence[tuple[str, str]]  # a job and its unit
    rows: Sequence[tuple[str, Sequence[str]]]  # a peer with its signs, and its figures


@dataclass(frozen=True)
class WorkloadTables:
    suite: Suite
    workload: str
    reference: str | None
    launches: str
    common: str  # parameters that the jobs' names omit
    meanings: Sequence[str]
    footnotes: Sequence[tuple[str, str]]
    tables: Sequence[FigureTable]


def parts(context: Context) -> list[Part]:
    return [Part("figures", "figures", "All figures", list(_all(context)), folded=False)] if context.measured else []


def _all(context: Context) -> Iterator[WorkloadTables]:
    shown = [job for job in context.measured if job.suite not in TOLD_ELSEWHERE]
    for name, workload in dict.fromkeys((job.suite, job.workload) for job in shown):
        suite, jobs = context.suite(name), [job for job in shown if (job.suite, job.workload) == (name, workload)]
        reference = None if suite.kind is Kind.CHECKS else context.reference(suite)
        groups = [jobs[start : start + JOBS_A_TABLE] for start in range(0, len(jobs), JOBS_A_TABLE)]
        tables = [_table(context, group, reference, suite) for group in groups]
        names = "".join(peer for table in tables for peer, _ in table.rows)
        benchmarks = {job.benchmark for job in jobs}
        yield WorkloadTables(
            suite=suite,
            workload=workload,
            reference=reference,
            launches=launches_of(jobs),
            common=", ".join(_common(jobs)),
            meanings=[meaning for benchmark, meaning in suite.explained.items() if benchmark in benchmarks],
            footnotes=[*notes.footnotes(context.run, jobs), *context.explained(names)],
            tables=tables,
        )


def _common(jobs: Sequence[Job]) -> Iterator[str]:
    """Yield the parameters that the jobs' names omit, with their usual values."""
    for name in jobs[0].params:
        value = usual([job.params.get(name) for job in jobs])
        if value is not None and name not in IN_NAMES:
            yield f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"


def _table(context: Context, jobs: Sequence[Job], reference: str | None, suite: Suite) -> FigureTable:
    peers = [peer for peer in context.run.peers if any(peer.name in job.cells for job in jobs)]
    cell = _seen if suite.kind is Kind.CHECKS else _figure
    rows = [
        (
            f"{peer.name} {context.signs[peer.name]}".strip(),
            [cell(context, job, peer.name, reference) for job in jobs],
        )
        for peer in peers
    ]
    units = ["" if suite.kind is Kind.CHECKS else scale_of(job).unit for job in jobs]
    return FigureTable([(job.label, unit) for job, unit in zip(jobs, units, strict=True)], rows)


def _figure(context: Context, job: Job, peer: str, reference: str | None) -> str:
    """Return a figure, its ratio to the reference with its interval, and its marks; or why there is none."""
    record = job.cells.get(peer)
    if record is None:
        return NOTHING
    if not has_figure(record):
        return record.status.replace("_", " ")
    ratio = ratio_of(record, job.shown.get(reference or ""))
    marks = notes.marks(context.run.peer(peer), job) + ("" if record.ok else notes.BEFORE_IT_WENT_WRONG)
    return " ".join(filter(None, [scale_of(job).of(figure_of(record)), ratio.words if ratio else "", marks]))


def _seen(context: Context, job: Job, peer: str, _reference: str | None) -> str:
    """Return what a check observed, in a word if it says so, and how it ended."""
    record = job.cells.get(peer)
    if record is None:
        return NOTHING
    word = (record.seen or "").partition(": ")[0]
    ended = "" if record.ok else record.status.replace("_", " ")
    return ": ".join(filter(None, [ended, word])) or "passed"


SECTION = Section(parts)
