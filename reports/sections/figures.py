"""All figures: in HTML, a table for looking them up; in Markdown, tables for each suite and workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports.figures.formatting import NOTHING, launches_of, scale_of
from reports.figures.ratios import figure_of, ratio_of
from reports.sections.section import Context, Part
from reports.tables import notes
from results.jobs import Job, has_figure, named_in, parameter_text
from results.suites import Kind, SuitePresentation, suite_of

#: Suites whose figures would need hundreds of tables, and which have a section of their own instead.
WITH_OWN_SECTION = ("apex", "solve_time", "paired_training", "control")
JOBS_PER_TABLE = 6
HAZARD = "! "


@dataclass(frozen=True)
class WorkloadTables:
    suite: SuitePresentation
    workload: str
    reference: str | None
    launches: str
    common: str  # parameters that the jobs' names omit
    meanings: Sequence[str]
    footnotes: Sequence[tuple[str, str]]
    tables: Sequence[tuple[list[str], list[list[str]]]]  # columns, and rows of peers


def parts(context: Context) -> Iterator[Part]:
    if context.measured:
        values = {"all": list(_all(context))}
        yield Part("figures", "figures", "All figures", values, html="lookup.html.j2", folded=False)


def _all(context: Context) -> Iterator[WorkloadTables]:
    shown = [job for job in context.measured if job.suite not in WITH_OWN_SECTION]
    for name, workload in dict.fromkeys((job.suite, job.workload) for job in shown):
        suite, jobs = suite_of(name), [job for job in shown if (job.suite, job.workload) == (name, workload)]
        reference = None if suite.kind is Kind.CHECKS else context.reference(suite)
        groups = [jobs[start : start + JOBS_PER_TABLE] for start in range(0, len(jobs), JOBS_PER_TABLE)]
        tables = [_table(context, group, reference, suite) for group in groups]
        names = "".join(row[0] for _, rows in tables for row in rows)
        benchmarks = {job.benchmark for job in jobs}
        yield WorkloadTables(
            suite=suite,
            workload=workload,
            reference=reference,
            launches=launches_of(jobs),
            common=", ".join(_common(jobs, suite)),
            meanings=[meaning for benchmark, meaning in suite.meanings.items() if benchmark in benchmarks],
            footnotes=[*notes.footnotes(context.run, jobs), *context.explained(names)],
            tables=tables,
        )


def _common(jobs: Sequence[Job], suite: SuitePresentation) -> Iterator[str]:
    """Yield the parameters that jobs' names omit, with their values."""
    for name in dict.fromkeys(name for job in jobs for name in job.params):
        omitting = [
            job for job in jobs if name in job.params and name not in named_in(suite.labels.get(job.benchmark, ""))
        ]
        texts = [(parameter_text(name, job.params[name]), job.label) for job in omitting]
        if omitted := dict.fromkeys(text for text, label in texts if text not in label):
            yield " or ".join(omitted)


def _table(
    context: Context, jobs: Sequence[Job], reference: str | None, suite: SuitePresentation
) -> tuple[list[str], list[list[str]]]:
    is_check = suite.kind is Kind.CHECKS
    peers = [peer.name for peer in context.run.peers if any(peer.name in job.cells for job in jobs)]
    columns = [job.label if is_check else f"{job.label}, {scale_of(job).unit}" for job in jobs]
    cells = [
        [_seen(job, peer) if is_check else _figure(context, job, peer, reference) for job in jobs] for peer in peers
    ]
    return ["peer", *columns], [[context.signed(peer), *row] for peer, row in zip(peers, cells, strict=True)]


def _figure(context: Context, job: Job, peer: str, reference: str | None) -> str:
    """Return a figure with its marks and, unless it is a count, its ratio to the reference; or the reason why there is
    no figure."""
    record = job.cells.get(peer)
    if record is None:
        return NOTHING
    if not has_figure(record):
        return record.status.replace("_", " ")
    is_count = job.benchmark in suite_of(job.suite).counts
    ratio = None if is_count else ratio_of(record, job.shown.get(reference or ""))
    marks = notes.marks(context.run.peer(peer), job) + ("" if record.ok else notes.BEFORE_IT_WENT_WRONG)
    return " ".join(filter(None, [scale_of(job).of(figure_of(record)), ratio.words if ratio else "", marks]))


def _seen(job: Job, peer: str) -> str:
    """Return what a check observed, in one word if possible, whether this is a hazard, and how the check ended."""
    record = job.cells.get(peer)
    if record is None:
        return NOTHING
    word = (record.seen or "").partition(": ")[0]
    ended = "" if record.ok else record.status.replace("_", " ")
    return HAZARD * record.hazard + ": ".join(filter(None, [ended, word])) or "passed"
