"""What was found: peers that crashed, hung, raised an exception or returned a wrong answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.sections.again import narrowed
from reports.sections.section import Context, Part, Section
from reports.tables.troubles import Trouble
from results import Run

EXPLAINED = (
    "These peers crashed, hung, raised an exception or returned a wrong answer. Unless the peer is this project's own, "
    "that is a result, not a failure of the run. The commands measure the peer again, some of them a whole suite. "
    "It may take several tries, or another seed, to reproduce a race."
)


@dataclass(frozen=True)
class Found:
    findings: Sequence[tuple[Trouble, str]]  # with the command that reproduces it
    explained: str = EXPLAINED


def parts(context: Context) -> list[Part]:
    found = [(trouble, _command(context.run, trouble)) for trouble in context.troubles if trouble.is_finding]
    return [Part("found", "found", "What was found", Found(found))] if found else []


def _command(run: Run, trouble: Trouble) -> str:
    """Return the command in the trouble's reason, or else the one that measures its suites again; "" for the gate."""
    if trouble.command or run.kind != "bench":
        return trouble.command
    return narrowed(run.command, trouble.peer, list(dict.fromkeys(record.suite for record in trouble.records)))


SECTION = Section(parts)
