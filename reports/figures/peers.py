"""Names, evidence and behaviour of peers, as the report needs them."""

from __future__ import annotations

from results import Peer, Run
from results.jobs import Job


def base_name(peer: str) -> str:
    """Return the library of a variant: "cpprb" for "cpprb[MP]"."""
    return peer.partition("[")[0]


def by_library(run: Run) -> list[Peer]:
    """Return the run's peers, with the variants of a library side by side."""
    libraries = list(dict.fromkeys(base_name(peer.name) for peer in run.peers))
    return sorted(run.peers, key=lambda peer: libraries.index(base_name(peer.name)))


def keeps_references(peer: Peer, job: Job) -> bool:
    """Return whether this job's add stores the caller's arrays without copying, so they must not change afterwards."""
    if job.benchmark not in ("add", "add_dicts"):  # lists are converted to new arrays
        return False
    kept = peer.known.keeps_references
    return kept == "always" or (kept == "batches" and job.params.get("batch", 1) != 1)


def without_evidence(stated: str) -> str:
    """Return a feature's sentence without the evidence in brackets at its end: "yes, option Nstep [seen: a test]"."""
    return stated.rpartition(" [")[0] if stated.endswith("]") and " [" in stated else stated


def evidence_of(stated: str) -> str:
    """Return the evidence in brackets at the end of a feature's sentence, or ""."""
    return stated[:-1].rpartition(" [")[2] if stated.endswith("]") and " [" in stated else ""
