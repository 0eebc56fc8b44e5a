"""The sharing suite's part of the report: what explorers add and a learner samples at the same time, a learner's
step, and what a buffer costs that could be shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reports import notes, plots
from reports.answers import figure_of
from reports.formatting import Scale, counted, interval, scale_for, times
from reports.jobs import SHARING_REFERENCE, Job, base_name, fastest_first, usual
from reports.marks import marks_of
from reports.statistics import Figure, speed_up
from reports.suite import Cell, Picture, crowding_note
from results import Record, Run

#: benchmark -> what its table is called
CROWD = {
    "adds": "rows added a second, over all explorers",
    "samples": "samples of 32 a second, of the learner beside them",
    "slowest": "share of the slowest explorer, where a fair one is 1",
}
PLOTTED = {"adds": "explorers", "samples": "learner"}


@dataclass(frozen=True)
class SharingTable:
    """A row a peer, a column a job, or a ratio of the peer's own figures."""

    title: str
    columns: Sequence[tuple[str, str]]  # label and unit
    rows: Sequence[tuple[str, Sequence[Cell | None]]]
    has_ratios: bool


@dataclass(frozen=True)
class SharingPart:
    crowding: str
    highlights: Sequence[str]
    tables: Sequence[SharingTable]
    pictures: Sequence[Picture]
    launches: str


def sharing_part(run: Run, jobs: Sequence[Job], troubles: Sequence[notes.Trouble]) -> SharingPart | None:
    """None if the run has no such suite."""
    if not jobs:
        return None
    launches = sorted({len(record.samples) for job in jobs for record in job.measured.values()})
    crowds = [job for job in jobs if job.benchmark in CROWD]
    return SharingPart(
        crowding=crowding_note(run, crowds) if crowds else "",
        highlights=list(_highlights(crowds)),
        tables=[*_crowd_tables(run, crowds, troubles), *_other_tables(run, jobs, troubles)],
        pictures=[Picture(title, *plots.draw(title, make)) for title, make in _lines(run, crowds)],
        launches=counted(launches[0], "launch") if launches else "no launch",
    )


def _by(jobs: Sequence[Job], key: Callable[[Job], Any]) -> dict[Any, list[Job]]:
    groups: dict[Any, list[Job]] = {}
    for job in jobs:
        groups.setdefault(key(job), []).append(job)
    return groups


def _peers(run: Run, jobs: Sequence[Job]) -> list[str]:
    return [peer.name for peer in run.peers if any(peer.name in job.cells for job in jobs)]


def _highlights(jobs: Sequence[Job]) -> Iterator[str]:
    """Who adds and who samples most, where the crowd is largest."""
    for (workload, batch), alike in _by(jobs, lambda job: (job.workload, job.params["batch"])).items():
        most = max(job.params["explorers"] for job in alike)
        best = [
            f"{verb} most: {_most(job)}"
            for benchmark, verb in (("adds", "adds"), ("samples", "samples"))
            for job in alike
            if (job.benchmark, job.params["explorers"]) == (benchmark, most) and job.measured
        ]
        if best:
            yield f"{workload}, {counted(most, 'explorer')}, {counted(batch, 'row')} a call: {'; '.join(best)}."


def _most(job: Job) -> str:
    record = fastest_first(list(job.measured.values()))[0]
    value = f"{record.peer}, {_scale(job).with_unit(figure_of(record).value)}"
    ratio = _ratio(job, record)
    return f"{value} ({times(ratio.value)} {SHARING_REFERENCE})" if ratio else value


def _ratio(job: Job, record: Record) -> Figure | None:
    reference = job.measured.get(SHARING_REFERENCE)
    return speed_up(record, reference) if reference and reference is not record else None


def _scale(job: Job) -> Scale:
    if job.unit == "rows/s":
        return Scale(1e3, "thousand rows/s")
    return scale_for(job.unit, [figure_of(record).value for record in job.measured.values()])


def _crowd_tables(run: Run, jobs: Sequence[Job], troubles: Sequence[notes.Trouble]) -> Iterator[SharingTable]:
    """One a benchmark, or one for all of them where a workload has a single crowd."""
    for workload, mine in _by(jobs, lambda job: job.workload).items():
        capacity = usual([job.params["capacity"] for job in mine])
        where = f"{workload}, capacity {capacity:,}" if isinstance(capacity, int) else workload
        groups = _by(mine, lambda job: job.benchmark)
        if all(len(group) == 1 for group in groups.values()):
            columns = [(CROWD[job.benchmark], job) for job in mine]
            crowd = f"{counted(mine[0].params['explorers'], 'explorer')}, add {mine[0].params['batch']}"
            yield _table(run, f"{where}, {crowd}", columns, troubles)
            continue
        for benchmark, group in groups.items():
            columns = [
                (f"N={job.params['explorers']}, add {job.params['batch']}", job)
                for job in sorted(group, key=lambda job: job.params["batch"])
            ]
            yield _table(run, f"{where}, N explorers: {CROWD[benchmark]}", columns, troubles)


def _other_tables(run: Run, jobs: Sequence[Job], troubles: Sequence[notes.Trouble]) -> Iterator[SharingTable]:
    steps = [job for job in jobs if job.benchmark == "step"]
    if steps:
        columns = [(f"capacity {job.params['capacity']:,}", job) for job in steps]
        title = f"A learner's step in one process: {steps[0].params['batch']} rows added, 32 sampled and updated"
        table = _table(run, f"{title}, {steps[0].workload}", columns, troubles)
        yield _with_column(table, "time, last column over first", lambda peer: _growth(steps, peer))
    for job in jobs:
        if job.benchmark == "add_alone":
            title = f"Adding one row a call with nobody else there, {job.workload}"
            table = _table(run, title, [("add 1", job)], troubles)
            yield _with_column(
                table, "time, over its library's unshared class", lambda peer, job=job: _price(job, peer)
            )


def _growth(steps: Sequence[Job], peer: str) -> Figure | None:
    first, last = (job.measured.get(peer) for job in (steps[0], steps[-1]))
    return speed_up(first, last) if first and last and first is not last else None


def _price(job: Job, peer: str) -> Figure | None:
    mine, unshared = job.measured.get(peer), job.measured.get(base_name(peer))
    return speed_up(unshared, mine) if mine and unshared and mine is not unshared else None


def _with_column(table: SharingTable, label: str, compare: Callable[[str], Figure | None]) -> SharingTable:
    """A column more, of ratios of a peer's own figures; left out where nobody has one."""
    ratios = {peer: compare(peer) for peer, _ in table.rows}
    if not any(ratios.values()):
        return table
    cells = {
        peer: Cell(peer, "", value=times(ratio.value), interval=interval(ratio))
        for peer, ratio in ratios.items()
        if ratio
    }
    rows = [(peer, [*shown, cells.get(peer)]) for peer, shown in table.rows]
    return replace(table, columns=[*table.columns, (label, "ratio")], rows=rows)


def _table(run: Run, title: str, columns: Sequence[tuple[str, Job]], troubles: Sequence[notes.Trouble]) -> SharingTable:
    jobs, marks = [job for _, job in columns], marks_of(run)
    return SharingTable(
        title=title,
        columns=[(label, _scale(job).unit) for label, job in columns],
        rows=[(peer, [_cell(job, peer, troubles, marks[peer]) for job in jobs]) for peer in _peers(run, jobs)],
        has_ratios=any(job.benchmark != "slowest" and SHARING_REFERENCE in job.measured for job in jobs),
    )


def _cell(job: Job, peer: str, troubles: Sequence[notes.Trouble], marks: str) -> Cell | None:
    record = job.cells.get(peer)
    if record is None:
        return None
    if not record.ok:
        number_of = next((trouble.number for trouble in troubles if record in trouble.records), None)
        return Cell(peer, marks, status=record.status, trouble=number_of)
    figure, scale = figure_of(record), _scale(job)
    ratio = _ratio(job, record) if job.benchmark != "slowest" else None
    return Cell(
        peer=peer,
        marks=marks,
        value=scale.number(figure.value),
        interval=interval(figure, scale.factor),
        ratio=times(ratio.value) if ratio else "",
        ratio_interval=interval(ratio) if ratio else "",
        fastest=record is fastest_first(list(job.measured.values()))[0],
    )


def _lines(run: Run, jobs: Sequence[Job]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Over the number of explorers, where there is more than one number."""
    look = plots.looks([peer.name for peer in run.peers], _peers(run, jobs))
    kinds = _by([job for job in jobs if job.benchmark in PLOTTED], lambda job: (job.workload, job.params["batch"]))
    for (workload, batch), alike in kinds.items():
        for benchmark, mine in _by(alike, lambda job: job.benchmark).items():
            lines: dict[str, dict[int, Figure]] = {}
            for job in mine:
                for peer, record in job.measured.items():
                    lines.setdefault(peer, {})[int(job.params["explorers"])] = figure_of(record)
            if len(mine) > 1 and lines:
                title = f"{PLOTTED[benchmark]}, add {batch} on {workload}"
                yield f"sharing: {title}", _line_plot(title, lines, mine[0].unit, look, marks_of(run))


def _line_plot(
    title: str,
    lines: Mapping[str, Mapping[int, Figure]],
    unit: str,
    look: Mapping[str, plots.Look],
    marks: Mapping[str, str],
) -> Callable[[], Any]:
    return lambda: plots.scaling(title, lines, unit, "number of explorers", look, marks, log=True)
