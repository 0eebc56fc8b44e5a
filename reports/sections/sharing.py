"""Shared buffers in empty loops: speeds of explorers and a learner that run at the same time, and a learner's step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from reports import plots
from reports.figures.formatting import Scale, counted
from reports.figures.jobs import Job, Kind, Suite, fastest_first, launches_of, usual
from reports.figures.peers import base_name
from reports.figures.ratios import Ratio, figure_of, ratio_of
from reports.figures.statistics import Figure
from reports.plots import Picture
from reports.sections import integrity
from reports.sections.integrity import Safety
from reports.sections.matrix import MatrixTable
from reports.sections.section import Context, Part, Section
from reports.sections.speeds import crowding_note
from reports.tables.cells import Cell, scale_of, speed_cell
from results import Run
from results.verdicts import SHARED_REFERENCE

SUITE = Suite(
    "sharing",
    kind=Kind.RATIOS,
    reference=SHARED_REFERENCE,
    benchmarks={
        "adds": "add {batch} from N={explorers}",
        "samples": "sample 32 beside N={explorers}, add {batch}",
        "slowest": "slowest of N={explorers}, add {batch}",
        "prioritized_adds": "prioritized add {batch} from N={explorers}",
        "prioritized_cycles": "prioritized cycle beside N={explorers}, add {batch}",
        "prioritized_slowest": "slowest of N={explorers}, prioritized add {batch}",
        "step": "learner's step, {batch} added",
        "add_alone": "add {batch} alone",
    },
)
#: benchmark -> title of its table
CROWD = {
    "adds": "rows added per second, over all explorers",
    "samples": "samples of 32 per second, by the learner running beside them",
    "slowest": "share of the slowest explorer (1 is a fair share)",
    "prioritized_adds": "rows added per second to a prioritized buffer, over all explorers",
    "prioritized_cycles": "prioritized samples of 32 per second, each followed by an update of its priorities, by the "
    "learner running beside them",
    "prioritized_slowest": "share of the slowest explorer of a prioritized buffer (1 is a fair share)",
}
#: Shares among a peer's own explorers, which are not compared with another peer's.
SHARES = ("slowest", "prioritized_slowest")
HIGHLIGHTED = {
    "adds": "most rows added",
    "samples": "most samples drawn",
    "prioritized_adds": "most rows added with priorities",
    "prioritized_cycles": "most prioritized cycles",
}
PLOTTED = {
    "adds": "explorers",
    "samples": "learner",
    "prioritized_adds": "prioritized explorers",
    "prioritized_cycles": "prioritized learner",
}


EXPLAINED = (
    "These figures are the speed of a shared buffer in loops that make only buffer calls: explorer processes add "
    "prepared rows as fast as they can, while one learner repeatedly samples 32 rows as fast as it can; with a "
    "prioritized buffer, it also updates their priorities. Samples are checked before the explorers start but not "
    "while they add, so these speeds do not show whether rows are intact. In real use, an environment and a network "
    "take most of the time, so read the Ape-X section first. A learner's step, and adding alone, are measured in one "
    "process."
)


@dataclass(frozen=True)
class Sharing:
    crowding: str
    highlights: Sequence[str]
    tables: Sequence[MatrixTable]
    pictures: Sequence[Picture]
    launches: str
    safety: Mapping[str, Safety]
    no_integrity: str  # why the page does not say which buffers are sound; empty if it does
    unsafe_means: str  # what the sign for unsafe buffers means, if the page says which are sound

    @property
    def explained(self) -> str:
        unchecked = (
            f"{self.no_integrity}, so it is not known whether these buffers are sound." if self.no_integrity else ""
        )
        launches = f"{self.launches} per cell, each a fresh process." if self.launches else ""
        return " ".join(filter(None, [EXPLAINED, unchecked, launches, self.crowding]))


def parts(context: Context) -> list[Part]:
    run, jobs = context.run, context.jobs_of(SUITE)
    if not jobs:
        return []
    crowds = [job for job in jobs if job.benchmark in CROWD]
    no_integrity = integrity.missing(context)
    pictures = [plots.draw(title, make) for title, make in _lines(context, crowds)]
    body = Sharing(
        crowding=crowding_note(run, crowds) if crowds else "",
        highlights=list(_highlights(crowds)),
        tables=[*_crowd_tables(context, crowds), *_other_tables(context, jobs)],
        pictures=pictures,
        launches=launches_of(jobs),
        safety=integrity.safety_of(run),
        no_integrity=no_integrity,
        unsafe_means="" if no_integrity else f"{integrity.UNSAFE} {integrity.UNSAFE_MEANS}",
    )
    return [Part("sharing", "sharing", SUITE.title, body, pictures)]


def _by(jobs: Sequence[Job], key: Callable[[Job], Any]) -> dict[Any, list[Job]]:
    groups: dict[Any, list[Job]] = {}
    for job in jobs:
        groups.setdefault(key(job), []).append(job)
    return groups


def _peers(run: Run, jobs: Sequence[Job]) -> list[str]:
    return [peer.name for peer in run.peers if any(peer.name in job.cells for job in jobs)]


def _highlights(jobs: Sequence[Job]) -> Iterator[str]:
    """Yield which peers add and sample most with the largest number of explorers, if at least two were measured."""
    for (workload, batch), alike in _by(jobs, lambda job: (job.workload, job.params["batch"])).items():
        most = max(job.params["explorers"] for job in alike)
        best = [
            f"{verb}: {_most(job)}"
            for benchmark, verb in HIGHLIGHTED.items()
            for job in alike
            if (job.benchmark, job.params["explorers"]) == (benchmark, most) and len(job.measured) > 1
        ]
        if best:
            yield f"{workload}, {counted(most, 'explorer')}, {counted(batch, 'row')} per call: {'; '.join(best)}."


def _most(job: Job) -> str:
    record = fastest_first(list(job.measured.values()))[0]
    scale = _scale(job)
    value = f"{record.peer}, {scale.of(figure_of(record))} {scale.unit}"
    ratio = ratio_of(record, job.shown.get(SHARED_REFERENCE))
    return f"{value} ({ratio.text} {SHARED_REFERENCE})" if ratio else value


def _scale(job: Job) -> Scale:
    if job.unit != "rows/s":
        return scale_of(job)
    most = max((figure_of(record).value for record in job.shown.values()), default=0.0)
    return Scale(1e6, "million rows/s") if most >= 1e6 else Scale(1e3, "thousand rows/s")


def _crowd_tables(context: Context, jobs: Sequence[Job]) -> Iterator[MatrixTable]:
    """Yield one table per benchmark, or a single one if a workload was measured with only one number of explorers."""
    for workload, mine in _by(jobs, lambda job: job.workload).items():
        capacity = usual([job.params["capacity"] for job in mine])
        where = f"{workload}, capacity {capacity:,}" if isinstance(capacity, int) else workload
        groups = _by(mine, lambda job: job.benchmark)
        if all(len(group) == 1 for group in groups.values()):
            columns = [(CROWD[job.benchmark], job) for job in mine]
            crowd = f"{counted(mine[0].params['explorers'], 'explorer')}, add {mine[0].params['batch']}"
            yield _table(context, f"{where}, {crowd}", columns)
            continue
        for benchmark, group in groups.items():
            columns = [
                (f"N={job.params['explorers']}, add {job.params['batch']}", job)
                for job in sorted(group, key=lambda job: job.params["batch"])
            ]
            yield _table(context, f"{where}, N explorers: {CROWD[benchmark]}", columns)


def _other_tables(context: Context, jobs: Sequence[Job]) -> Iterator[MatrixTable]:
    steps = [job for job in jobs if job.benchmark == "step"]
    if steps:
        columns = [(f"capacity {job.params['capacity']:,}", job) for job in steps]
        rows = steps[0].params["batch"]
        title = f"A learner's step in one process: {rows} rows added, 32 sampled, their priorities updated"
        table = _table(context, f"{title}, {steps[0].workload}", columns)
        yield _with_column(table, "time at the last capacity relative to the first", lambda peer: _growth(steps, peer))
    for job in jobs:
        if job.benchmark == "add_alone":
            title = f"Adding one row per call, alone, {job.workload}"
            table = _table(context, title, [("add 1", job)])
            yield _with_column(
                table, "time relative to its library's unshared class", lambda peer, job=job: _price(job, peer)
            )


def _growth(steps: Sequence[Job], peer: str) -> Ratio | None:
    return ratio_of(steps[0].measured.get(peer), steps[-1].measured.get(peer))


def _price(job: Job, peer: str) -> Ratio | None:
    return ratio_of(job.measured.get(base_name(peer)), job.measured.get(peer))


def _with_column(table: MatrixTable, label: str, compare: Callable[[str], Ratio | None]) -> MatrixTable:
    """Append a column of ratios of a peer's own figures, unless no peer has one."""
    ratios = {peer: compare(peer) for peer, _ in table.rows}
    if not any(ratios.values()):
        return table
    cells = {peer: Cell(peer, "", value=ratio.text, interval=ratio.interval) for peer, ratio in ratios.items() if ratio}
    rows = [(peer, [*shown, cells.get(peer)]) for peer, shown in table.rows]
    return replace(table, columns=[*table.columns, (label, "ratio")], rows=rows)


def _table(context: Context, title: str, columns: Sequence[tuple[str, Job]]) -> MatrixTable:
    jobs = [job for _, job in columns]
    return MatrixTable(
        title=title,
        columns=[(label, _scale(job).unit) for label, job in columns],
        rows=[(peer, [_cell(context, job, peer) for job in jobs]) for peer in _peers(context.run, jobs)],
        reference=SHARED_REFERENCE
        if any(job.benchmark not in SHARES and SHARED_REFERENCE in job.measured for job in jobs)
        else None,
    )


def _cell(context: Context, job: Job, peer: str) -> Cell | None:
    reference = None if job.benchmark in SHARES else SHARED_REFERENCE
    cell = speed_cell(job, peer, reference, context.troubles, context.signs[peer], _scale(job))
    return replace(cell, ratio="") if cell and peer == SHARED_REFERENCE else cell


def _lines(context: Context, jobs: Sequence[Job]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Plots over the number of explorers, if more than one number was measured."""
    look = plots.looks([peer.name for peer in context.run.peers], _peers(context.run, jobs))
    kinds = _by([job for job in jobs if job.benchmark in PLOTTED], lambda job: (job.workload, job.params["batch"]))
    for (workload, batch), alike in kinds.items():
        for benchmark, mine in _by(alike, lambda job: job.benchmark).items():
            lines: dict[str, dict[int, Figure]] = {}
            for job in mine:
                for peer, record in job.shown.items():
                    lines.setdefault(peer, {})[int(job.params["explorers"])] = figure_of(record)
            if len(mine) > 1 and lines:
                title = f"{PLOTTED[benchmark]}, add {batch} on {workload}"
                yield (
                    f"sharing: {title}",
                    partial(
                        plots.scaling, title, lines, mine[0].unit, "number of explorers", look, context.signs, log=True
                    ),
                )


SECTION = Section(parts, SUITE)
