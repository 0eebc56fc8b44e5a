"""Whether a peer does what its adapter promises, and what every buffer must do."""

from __future__ import annotations

from collections.abc import Sequence

from reports.checks import Check, Outcome
from results import Record, Run
from results.suites import SUITES

FAILED = "◊"
FAILED_MEANS = "failed a conformance check: it does not do what its adapter promises, or what every buffer must do."
SUITE = SUITES["conformance"]


def failed_checks(run: Run) -> dict[str, list[str]]:
    """Map each peer to the names of the checks that it failed."""
    failed: dict[str, list[str]] = {}
    for record in run.records:
        if record.suite == SUITE.name and record.status == "wrong":
            failed.setdefault(record.peer, []).append(_name(record.benchmark))
    return failed


def _name(check: str) -> str:
    """Return a check's name without its heading."""
    return SUITE.labels.get(check, check).rpartition(": ")[2]


def outcomes(run: Run) -> dict[str, Outcome]:
    records: dict[str, list[Record]] = {}
    for record in run.records:
        if record.suite == SUITE.name:
            records.setdefault(record.peer, []).append(record)
    failed = failed_checks(run)
    return {
        peer: Outcome(False, failed[peer][0]) if peer in failed else Outcome(_is_whole(mine) or None)
        for peer, mine in records.items()
    }


def _is_whole(records: Sequence[Record]) -> bool:
    return any(each.ok for each in records) and all(each.ok or each.status == "skipped" for each in records)


CHECK = Check(SUITE.name, SUITE.title, FAILED, FAILED_MEANS, outcomes)
