"""What has no figure, and why; and what launches left behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.figures.jobs import is_finding
from reports.sections.section import Context, Part, Section
from reports.tables.troubles import Trouble
from results import Run


@dataclass(frozen=True)
class Troubles:
    run: Run
    measured: int  # cells with a result
    left_out: int
    without_figure: int
    unrecorded: int
    troubles: Sequence[Trouble]


def parts(context: Context) -> list[Part]:
    run = context.run
    troubles = [trouble for trouble in context.troubles if not trouble.is_finding]
    body = Troubles(
        run=run,
        measured=measured(run),
        left_out=sum(record.status == "left_out" for record in run.records),
        without_figure=sum(len(trouble.records) for trouble in troubles),
        unrecorded=max(0, run.declared - len(run.records)),
        troubles=troubles,
    )
    return [Part("troubles", "troubles", "What has no figure", body)]


def measured(run: Run) -> int:
    """Cells with a figure or a finding."""
    return sum(record.ok or is_finding(record) for record in run.records)


SECTION = Section(parts)
