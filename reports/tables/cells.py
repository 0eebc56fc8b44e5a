"""Tables of peers and jobs: in each cell, the figure of a peer at a job, with its ratio and marks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reports.figures.formatting import NOTHING, Scale, interval, scale_for
from reports.figures.ratios import figure_of, ratio_of
from reports.tables.notes import BEFORE_IT_WENT_WRONG
from reports.tables.troubles import Trouble, number_of
from results import Record
from results.jobs import Job, fastest_first, has_figure
from results.verdicts import MATTERS


@dataclass(frozen=True)
class Cell:
    peer: str
    marks: str
    value: str = NOTHING  # in the job's scale
    interval: str = ""
    ratio: str = ""  # to the reference
    ratio_interval: str = ""
    status: str = "ok"
    trouble: int | None = None  # its number in the lists of findings and of missing figures
    fastest: bool = False  # or as fast: a difference of less than MATTERS means little


def scale_of(job: Job) -> Scale:
    return scale_for(job.unit, [figure_of(record).value for record in job.shown.values()])


def without_figure(record: Record, marks: str, troubles: Sequence[Trouble]) -> Cell:
    return Cell(record.peer, marks, status=record.status.replace("_", " "), trouble=number_of(record, troubles))


def speed_cell(
    job: Job, peer: str, reference: str | None, troubles: Sequence[Trouble], marks: str, scale: Scale
) -> Cell | None:
    """Return the cell of a peer, or None if it has none. A figure measured before a failure is shown with a mark."""
    record = job.cells.get(peer)
    if record is None:
        return None
    if not has_figure(record):
        return without_figure(record, marks, troubles)
    figure, against = figure_of(record), job.shown.get(reference or "")
    ratio = ratio_of(record, against)
    best = figure_of(fastest_first(list(job.measured.values()))[0]).value if job.measured else math.nan
    least, most = (best, figure.value) if job.better == "lower" else (figure.value, best)
    return Cell(
        peer=peer,
        marks=marks if record.ok else marks + BEFORE_IT_WENT_WRONG,
        value=scale.of(figure),
        interval=interval(figure, scale.factor),
        ratio=ratio.text if ratio else "reference" if record is against else "",
        ratio_interval=ratio.interval if ratio else "",
        trouble=number_of(record, troubles),
        fastest=record.ok and most <= MATTERS * least,
    )


@dataclass(frozen=True)
class MatrixTable:
    """One column per job."""

    title: str
    columns: Sequence[tuple[str, str]]  # label and unit
    rows: Sequence[tuple[str, Sequence[Cell | None]]]
    reference: str | None  # of the ratios; None: there are none
