"""Everything the two templates show, as plain values: no template computes, no number is typed into one."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from reports.answer import shades
from reports.answer.headlines import headlines
from reports.answer.heatmap import heat_map
from reports.answer.sentences import sentences
from reports.figures.formatting import counted, listed
from reports.figures.jobs import (
    CONFORMANCE_SUITE,
    INTEGRITY_SUITE,
    LATENCY_SUITE,
    MEMORY_SUITE,
    REFERENCE,
    SHARED_REFERENCE,
    SHARING_SUITE,
    STARTUP_SUITE,
    WHOLE,
    is_finding,
    jobs_of,
)
from reports.sections.conformance import FAILED, FAILED_MEANS, HAZARD, conformance_part
from reports.sections.features import feature_tables
from reports.sections.integrity import UNSAFE, UNSAFE_MEANS, IntegrityPart, integrity_part, safety_of
from reports.sections.latency import latency_part
from reports.sections.memory import memory_part
from reports.sections.sharing import sharing_part
from reports.sections.speeds import TITLES, SuitePart, suite_part
from reports.sections.startup import startup_part
from reports.tables import notes
from reports.tables.marks import marks_of
from results import Run
from results.machine import changed_since

#: Suites that have a section of their own, and no say in who is fastest.
APART = (MEMORY_SUITE, STARTUP_SUITE, SHARING_SUITE, LATENCY_SUITE, INTEGRITY_SUITE, CONFORMANCE_SUITE)
#: Suites of rows that were made for them.
ON_MADE_ROWS = (INTEGRITY_SUITE, CONFORMANCE_SUITE)


def page_of(run: Run) -> dict[str, Any]:
    """The templates' context."""
    jobs = jobs_of(run)
    troubles = notes.troubles(run, jobs)
    whole = notes.left_out_whole(run)
    kept = [job for job in jobs if job.suite not in whole]
    speeds = [job for job in kept if job.suite not in APART and job.benchmark != WHOLE]
    suites = [
        suite_part(run, name, [job for job in speeds if job.suite == name], troubles)
        for name in dict.fromkeys(job.suite for job in speeds)
    ]
    memory = memory_part(run, [job for job in kept if job.suite == MEMORY_SUITE], troubles)
    startup = startup_part(run, [job for job in kept if job.suite == STARTUP_SUITE], troubles)
    sharing = sharing_part(run, [job for job in kept if job.suite == SHARING_SUITE], troubles)
    conformance = conformance_part(run, [job for job in kept if job.suite == CONFORMANCE_SUITE], troubles)
    integrity = integrity_part(run, [job for job in kept if job.suite == INTEGRITY_SUITE], troubles)
    launches = sorted({len(record.samples) for record in run.records if record.ok and record.suite not in APART})
    return {
        "run": run,
        "again_peers": _peers_option(run.command),
        "title": _title(run),
        "started": _when(run.started),
        "took": _took(run),
        "warnings": _warnings(run),
        "sentences": sentences(run, jobs),
        "heat": heat_map(run, jobs),
        "heat_key": shades.KEY,
        "headlines": headlines(run, jobs),
        "budget_line": notes.budget_line(run),
        "folded": [(suite, TITLES.get(suite, suite.capitalize())) for suite in whole],
        "no_integrity": _no_integrity(whole, integrity),
        "below": _below(list(dict.fromkeys(job.suite for job in kept))),
        "dropped": sum(record.status == "left_out" for record in run.records),
        "without_figure": sum(len(trouble.records) for trouble in troubles if not trouble.is_finding),
        "left_out": notes.left_out(run),
        "suites": suites,
        "memory": memory,
        "startup": startup,
        "latency": latency_part(run, [job for job in kept if job.suite == LATENCY_SUITE], troubles),
        "integrity": integrity,
        "safety": safety_of(run),
        "KEEPS_MEANS": f"{notes.KEEPS_REFERENCES} {notes.MEANINGS[notes.KEEPS_REFERENCES]}.",
        "APPROXIMATE_MEANS": f"{notes.APPROXIMATE} {notes.MEANINGS[notes.APPROXIMATE]}.",
        "UNSAFE_MEANS": f"{UNSAFE} {UNSAFE_MEANS}",
        "marks": marks_of(run),
        "conformance": conformance,
        "FAILED": FAILED,
        "FAILED_MEANS": FAILED_MEANS,
        "HAZARD": HAZARD,
        "sharing": sharing,
        "shared_reference": SHARED_REFERENCE,
        "reference": REFERENCE,
        "feature_tables": feature_tables(run, _only_scaling(run, [suite for suite in suites if suite.scaling])),
        "found": [trouble for trouble in troubles if trouble.is_finding],
        "troubles": [trouble for trouble in troubles if not trouble.is_finding],
        "measured": _measured(run),
        "unrecorded": max(0, run.declared - len(run.records)),
        "launches": _span(launches),
    }


def _no_integrity(whole: Sequence[str], integrity: IntegrityPart | None) -> str:
    """Why the page does not say which buffers are sound."""
    if integrity:
        return ""
    return (
        "The time budget left out the integrity suite"
        if INTEGRITY_SUITE in whole
        else "This run has no integrity suite"
    )


def _below(suites: Sequence[str]) -> str:
    """What a page without an answer is about."""
    if not suites:
        return "This run has no figure, so there is no answer."
    each = "its section is" if len(suites) == 1 else "their sections are"
    return f"This run is about {notes.spoken(suites)} only; {each} below."


def _only_scaling(run: Run, scaling: Sequence[SuitePart]) -> list[str]:
    """Peers that are in suites about scaling, and in no other."""
    in_scaling = {peer for suite in scaling for part in suite.workloads for peer in part.peers}
    elsewhere = {record.peer for record in run.records} - in_scaling
    return [peer.name for peer in run.peers if peer.name in in_scaling and peer.name not in elsewhere]


def _title(run: Run) -> str:
    names = list(dict.fromkeys(each.workload for each in run.records if each.ok and each.suite not in ON_MADE_ROWS))
    what = "Base and head compared" if run.kind == "gate" else "Replay buffers compared"
    return f"{what} on {listed(names, most=3)}" if names else what


def _peers_option(command: str) -> str:
    """For `make setup`, which makes the environments of the peers that it is told."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--peers")
    peers = parser.parse_known_args(shlex.split(command))[0].peers
    return f" PEERS={shlex.quote(peers)}" if peers else ""


def _warnings(run: Run) -> list[str]:
    lines = []
    if run.interrupted:
        lines.append("This run was interrupted: what follows is only what it had measured by then.")
    elif run.finished is None:
        lines.append("This run never finished: it was killed, or is still going on.")
    if changed := changed_since(run.revision):
        lines.append(f"This run is older than the code that it measured. Changed since: {listed(changed, most=3)}.")
    if not any(record.ok or is_finding(record) for record in run.records):
        lines.append("Nothing was measured in this run.")
    elif not (run.interrupted or run.finished is None) and run.missing():
        lines.append(f"This run measured fewer cells than it declared: {_measured(run)} of {run.declared}.")
    return lines


def _measured(run: Run) -> int:
    return sum(record.ok or is_finding(record) for record in run.records)


def _when(time: str) -> str:
    moment = datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ")
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _took(run: Run) -> str:
    minutes = notes.run_minutes(run)
    if minutes is None:
        return ""
    return f"{minutes:.0f} minutes" if minutes >= 1.5 else f"{minutes * 60:.0f} seconds"


def _span(counts: Sequence[int]) -> str:
    if not counts:
        return ""
    return counted(counts[0], "launch") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} launches"
