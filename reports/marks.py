"""The signs beside peers' names and figures for what other suites found wrong with them."""

from __future__ import annotations

from reports.conformance import FAILED, FAILED_MEANS, failed_checks
from reports.integrity import UNSAFE, UNSAFE_MEANS, safety_of
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


def explained(text: str) -> list[tuple[str, str]]:
    """(sign, meaning) of those in this text."""
    return [(sign, meaning) for sign, (meaning, _) in MEANINGS.items() if sign in text]
