"""Missing figures, and why they are missing; processes and segments that launches left behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.sections.section import Context, Part, Section
from reports.tables.troubles import Trouble
from results import Run
from results.jobs import is_finding

LEFTOVERS_EXPLAINED = (
    "These launches ended normally, but left processes or shared-memory segments of their peer behind. The runner "
    "removed them; otherwise, the user would have to."
)


@dataclass(frozen=True)
class Troubles:
    run: Run
    measured: int  # cells with a result
    left_out: int
    without_figure: int
    unrecorded: int
    troubles: Sequence[Trouble]
    leftovers_explained: str = LEFTOVERS_EXPLAINED

    @property
    def summary(self) -> str:
        if not (self.run.records or self.troubles):
            return "This run contains no records."
        text = f"{self.measured} of {self.run.declared} declared cells have a result"
        if self.left_out:
            text += f"; {self.left_out} {'was' if self.left_out == 1 else 'were'} left out because of the time budget"
        if not self.troubles:
            return f"{text}."
        if not self.without_figure:
            return f"{text}. Not available:"
        more = " more" if self.left_out else ""
        return f"{text}; {self.without_figure}{more} {'has' if self.without_figure == 1 else 'have'} no figure:"


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
