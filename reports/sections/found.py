"""What was found: peers that crashed, hung, raised an exception or returned a wrong answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.sections.section import Context, Part, Section
from reports.tables.troubles import Trouble

EXPLAINED = (
    "These peers crashed, hung, raised an exception or returned a wrong answer. Unless the peer is this project's own, "
    "that is a result, not a failure of the run. It may take several tries, or another seed, to reproduce a race."
)


@dataclass(frozen=True)
class Found:
    findings: Sequence[Trouble]
    explained: str = EXPLAINED


def parts(context: Context) -> list[Part]:
    found = [trouble for trouble in context.troubles if trouble.is_finding]
    return [Part("found", "found", "What was found", Found(found))] if found else []


SECTION = Section(parts)
