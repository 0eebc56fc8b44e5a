"""Integrity between processes, and whether each peer is sound, as shown beside its speeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.checks import Check, Outcome
from reports.rendering import worded
from results import Record, Run
from results.suites import SUITES

if TYPE_CHECKING:
    from reports.sections.section import Context

#: The benchmark of other suites that checks rows while explorers run: broken rows there also make a peer unsafe.
APEX, HOSTS, WHOLE = "apex", "hosts", "whole"
BROKEN = {APEX: "broken rows in Ape-X", HOSTS: "broken rows over hosts"}
SUITE = SUITES["integrity"]
UNSAFE = "✗"
UNSAFE_MEANS = (
    "failed a check between processes: it can return wrong rows, draw them by other rows' priorities, or hang."
)

#: benchmark -> (what is checked, what is wrong with a peer that fails)
CHECKS = {
    "torn": ("torn rows", "torn rows"),
    "unwritten": ("never-written rows", "never-written rows"),
    "lost": ("lost rows", "lost rows"),
    "duplicated": ("rows stored twice", "rows stored twice"),
    "stale": ("another row's priority", "stale priorities"),
    "killed": ("explorers killed", "hangs after a kill"),
    "starvation": ("slowest explorer", "starved explorers"),
}


def outcomes(run: Run) -> dict[str, Outcome]:
    """Map each peer to whether it is sound, for peers declared in the integrity suite and for those whose rows were
    broken elsewhere."""
    by_peer: dict[str, list[Record]] = {}
    for record in run.records:
        if record.suite == SUITE.name or _is_broken_elsewhere(record):
            by_peer.setdefault(record.peer, []).append(record)
    return {peer: _outcome(records) for peer, records in by_peer.items()}


def _is_broken_elsewhere(record: Record) -> bool:
    return record.suite in BROKEN and (record.benchmark, record.status) == (WHOLE, "wrong")


def _outcome(records: Sequence[Record]) -> Outcome:
    if wrong := [_fault(record) for record in records if record.status == "wrong"]:
        return Outcome(False, ", ".join(dict.fromkeys(wrong)))
    if missing := [CHECKS[record.benchmark][0] for record in records if not record.ok]:
        return Outcome(None, "" if len(missing) == len(records) else ", ".join(missing))
    return Outcome(True)


def _fault(record: Record) -> str:
    return BROKEN[record.suite] if record.benchmark == WHOLE else CHECKS[record.benchmark][1]


def rows_checked(run: Run) -> dict[str, Outcome]:
    """Map each peer that was checked in Ape-X to whether every row that its learner sampled there had been added."""
    by_peer: dict[str, list[Record]] = {}
    for record in run.records:
        if (record.suite, record.benchmark) == (APEX, WHOLE):
            by_peer.setdefault(record.peer, []).append(record)
    return {peer: _rows(records) for peer, records in by_peer.items()}


def _rows(records: Sequence[Record]) -> Outcome:
    broken = sum(record.status == "wrong" for record in records)
    if broken:
        return Outcome(False, worded("faults.j2", "broken_rows", broken=broken, jobs=len(records)))
    return Outcome(True if any(record.ok for record in records) else None)


def missing(context: Context) -> str:
    """Return why the page does not say which buffers are sound, or "" if it does."""
    if context.jobs_of(SUITE):
        return ""
    return worded("faults.j2", "unchecked", is_left_out=SUITE.name in context.left_out_whole)


#: What an Ape-X run shows without this suite.
ROWS = Check(APEX, "Rows sampled in Ape-X", UNSAFE, UNSAFE_MEANS, rows_checked)
CHECK = Check(SUITE.name, SUITE.title, UNSAFE, UNSAFE_MEANS, outcomes)
