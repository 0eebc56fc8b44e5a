"""How the figures were measured (launches, workloads, the machine), and how to measure them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from reports.commands import setup_options
from reports.figures.formatting import TIMES, launches_of, spoken_time
from reports.sections.section import Context, Part
from results import RecordedWorkload
from results.suites import Kind, suite_of

DIRTY = "+dirty"


def parts(context: Context) -> Iterator[Part]:
    run = context.run
    shares = [spent.other_share for spent in run.spent]
    played = _played(context)
    values = {
        "run": run,
        "launches": launches_of([job for job in context.jobs if suite_of(job.suite).kind is Kind.RANKS]),
        "unmeasured": f"{median(shares):.0%}" if shares else "",
        "recorded": [each for each in run.workloads if each.name not in played],
        "fields": _fields,
        "played": played,
        "commit": run.revision.removesuffix(DIRTY),
        "is_dirty": run.revision.endswith(DIRTY),
        "started": spoken_time(run.started),
        "setup_options": setup_options(run),
    }
    yield Part("method", "method", "How it was measured", values)


def _played(context: Context) -> Mapping[str, str]:
    """Return, for each workload whose recorded rows no suite uses, where its rows come from."""
    rows: dict[str, set[str]] = {}
    for job in context.jobs:
        rows.setdefault(job.workload, set()).add(suite_of(job.suite).rows)
    return {workload: " and ".join(sorted(sources)) for workload, sources in rows.items() if all(sources)}


def _fields(workload: RecordedWorkload) -> str:
    fields = workload.fields.items()
    return ", ".join(f"{key} {each['dtype']} {TIMES.join(map(str, each['shape'])) or 'scalar'}" for key, each in fields)
