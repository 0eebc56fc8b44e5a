"""Missing figures, and why they are missing; processes and segments that launches left behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.rendering import worded
from reports.sections.section import Context, Part, Section
from reports.tables.troubles import Trouble
from results import Run
from results.jobs import is_finding


@dataclass(frozen=True)
class Troubles:
    run: Run
    measured: int  # cells with a result
    left_out: int
    without_figure: int
    unrecorded: int
    troubles: Sequence[Trouble]

    @property
    def summary(self) -> str:
        return worded(
            "troubles_notes.j2",
            "summary",
            measured=self.measured,
            declared=self.run.declared,
            is_empty=not (self.run.records or self.troubles),
            left_out=self.left_out,
            troubles=self.troubles,
            without_figure=self.without_figure,
        )


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
    return [Part("troubles", "troubles", "Missing figures", body)]


def measured(run: Run) -> int:
    """Cells with a figure or a finding."""
    return sum(record.ok or is_finding(record) for record in run.records)


SECTION = Section(parts)
