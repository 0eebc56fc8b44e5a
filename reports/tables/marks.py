"""The signs beside peers' names and figures for what other suites found wrong with them."""

from __future__ import annotations

from collections.abc import Collection

from reports.figures.formatting import listed
from reports.sections.conformance import FAILED, FAILED_MEANS, failed_checks
from reports.sections.integrity import UNSAFE, UNSAFE_MEANS, safety_of
from results import Run

#: sign -> what it means, and the section that says more
MEANINGS = {UNSAFE: (UNSAFE_MEANS, "integrity"), FAILED: (FAILED_MEANS, "conformance")}


def marks_of(run: Run) -> dict[str, str]:
    """What stands beside each peer's name and figures: nothing, where nothing is known to be wrong."""
    safety, failed = safety_of(run), failed_checks(run)
    return {
        peer.name: (safety[peer.name].mark if peer.name in safety else "") + (FAILED if peer.name in failed else "")
        for peer in run.peers
    }


def unchecked(run: Run, peers: Collection[str]) -> list[tuple[str, str]]:
    """("no ◊:", "not checked in this run") where a suite was to check these peers and could not check them all."""
    found = []
    for sign, (_, suite) in MEANINGS.items():
        mine = [record for record in run.records if record.suite == suite and record.peer in peers]
        seen = {record.peer for record in mine if record.ok or record.status == "wrong"}
        missing = list(dict.fromkeys(record.peer for record in mine if record.peer not in seen))
        if missing:
            whose = f" of {listed(missing, most=4)}" if seen else ""
            found.append((f"no {sign}:", f"{suite}{whose} was not checked in this run"))
    return found


def explained(text: str) -> list[tuple[str, str]]:
    """(sign, meaning) of those in this text."""
    return [(sign, meaning) for sign, (meaning, _) in MEANINGS.items() if sign in text]
