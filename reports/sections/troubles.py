"""Findings about peers; missing figures and the reasons for them; processes and segments that launches left behind."""

from __future__ import annotations

from collections.abc import Iterator

from reports.commands import narrowed
from reports.sections.section import Context, Part
from reports.tables.troubles import Trouble
from results import Run
from results.jobs import is_finding


def parts(context: Context) -> Iterator[Part]:
    run = context.run
    findings = [trouble for trouble in context.troubles if trouble.is_finding]
    troubles = [trouble for trouble in context.troubles if not trouble.is_finding]
    if findings:
        commands = {trouble.number: _command(run, trouble) for trouble in findings}
        yield Part("found", "found", "What was found", {"findings": findings, "commands": commands})
    values = {
        "run": run,
        "measured": measured(run),
        "left_out": sum(record.status == "left_out" for record in run.records),
        "without_figure": sum(len(trouble.records) for trouble in troubles),
        "unrecorded": max(0, run.declared - len(run.records)),
        "troubles": troubles,
    }
    yield Part("troubles", "troubles", "Missing figures", values)


def measured(run: Run) -> int:
    """Cells with a figure or a finding."""
    return sum(record.ok or is_finding(record) for record in run.records)


def _command(run: Run, trouble: Trouble) -> str:
    """Return the command in the trouble's reason, or else the command that measures its suites again; "" for the
    gate."""
    if trouble.command or run.kind != "bench":
        return trouble.command
    return narrowed(run.command, trouble.peer, list(dict.fromkeys(record.suite for record in trouble.records)))
