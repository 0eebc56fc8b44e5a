"""What was found: peers that crashed, hung, raised an exception or returned a wrong answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.sections.section import Context, Part, Section
from reports.tables.troubles import Trouble

EXPLAINED = (
    "Peers that crashed, hung, raised an exception or returned a wrong answer. These are results, not failures of the "
    "run, unless the peer is this project's own. A race may take several tries, or another seed, to reproduce."
)


@dataclass(frozen=True)
class Found:
    findings: Sequence[Trouble]
    explained: str = EXPLAINED


def parts(context: Context) -> list[Part]:
    found = [trouble for trouble in context.troubles if trouble.is_finding]
    return [Part("found", "found", "What was found", Found(found))] if found else []


SECTION = Section(parts)
