"""Suites that check answers, and the sign that is shown beside each peer that failed a check."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from reports.rendering import worded
from results import Run


@dataclass(frozen=True)
class Outcome:
    """What a suite of checks found about one peer. `passed` is None if the checks could not be completed."""

    passed: bool | None
    found: str = ""  # what is wrong with it, or which checks could not be made


@dataclass(frozen=True)
class Check:
    """A suite that checks whether answers are right, and how the page marks its findings."""

    suite: str
    title: str
    sign: str
    meaning: str
    outcomes: Callable[[Run], Mapping[str, Outcome]]  # for the peers that the suite had to check


def signs_of(run: Run, checks: Sequence[Check]) -> dict[str, str]:
    """Map each peer to the signs beside its name and figures; "" if no fault is known."""
    failed = {
        check.sign: {peer for peer, outcome in check.outcomes(run).items() if outcome.passed is False}
        for check in checks
    }
    return {peer.name: "".join(sign for sign, peers in failed.items() if peer.name in peers) for peer in run.peers}


def unchecked(run: Run, checks: Sequence[Check], peers: Collection[str]) -> list[tuple[str, str]]:
    """For each suite that could not check all of these peers, return its sign, and why the absence of the sign means
    nothing."""
    found = []
    for check in checks:
        mine = [record for record in run.records if record.suite == check.suite and record.peer in peers]
        seen = {record.peer for record in mine if record.ok or record.status == "wrong"}
        missing = list(dict.fromkeys(record.peer for record in mine if record.peer not in seen))
        if missing:
            meaning = worded("faults.j2", "not_checked", suite=check.suite, missing=missing if seen else ())
            found.append((f"no {check.sign}:", meaning))
    return found


def explained(checks: Sequence[Check], text: str) -> list[tuple[str, str]]:
    """Return each sign in this text with its meaning."""
    return [(check.sign, check.meaning) for check in checks if check.sign in text]
