"""The control: one peer measured as if it were two."""

from __future__ import annotations

from dataclasses import dataclass

from reports.sections.section import Context, Part, Section
from results import frames
from results.suites import SUITES
from results.verdicts import ENOUGH

SUITE = SUITES["control"]


@dataclass(frozen=True)
class Compared:
    """How many times as fast the first side is as the second, with its interval."""

    peer: str
    value: float
    low: float
    high: float
    launches: int

    @property
    def is_even(self) -> bool:
        """Whether the sides do not differ, or too few blocks say that they do."""
        return self.low <= 1 <= self.high or self.launches < ENOUGH


def parts(context: Context) -> list[Part]:
    if not context.jobs_of(SUITE):
        return []
    found = frames.control(frames.table({"": context.run})).to_dict("records")
    fields = Compared.__dataclass_fields__
    return [Part("control", "control", "Control", Compared(**{name: each[name] for name in fields})) for each in found]


SECTION = Section(parts)
