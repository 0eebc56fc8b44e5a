"""Names, evidence and behaviour of peers, in the form that the report needs."""

from __future__ import annotations

from results import RecordedPeer, Run
from results.verdicts import library_of


def by_library(run: Run) -> list[RecordedPeer]:
    """Return the run's peers, with the variants of a library side by side."""
    libraries = list(dict.fromkeys(library_of(peer.name) for peer in run.peers))
    return sorted(run.peers, key=lambda peer: libraries.index(library_of(peer.name)))


def without_evidence(stated: str) -> str:
    """Return a feature's sentence without the evidence in brackets at its end: "yes, option Nstep [seen: a test]"."""
    return stated.rpartition(" [")[0] if stated.endswith("]") and " [" in stated else stated


def evidence_of(stated: str) -> str:
    """Return the evidence in brackets at the end of a feature's sentence, or ""."""
    return stated[:-1].rpartition(" [")[2] if stated.endswith("]") and " [" in stated else ""
