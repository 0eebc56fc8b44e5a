"""What a peer's features mean for its figures: the only place that reads their sentences.

A record states features in sentences for people. Each function here decides one fact from the first words of one of
them, so a record that states these facts as data needs a change here alone.
"""

from __future__ import annotations

from reports.figures.jobs import Job
from results import Peer, Run


def base_name(peer: str) -> str:
    """The library of a variant: cpprb of "cpprb[MP]"."""
    return peer.partition("[")[0]


def by_library(run: Run) -> list[Peer]:
    """The run's peers, the variants of a library side by side."""
    libraries = list(dict.fromkeys(base_name(peer.name) for peer in run.peers))
    return sorted(run.peers, key=lambda peer: libraries.index(base_name(peer.name)))


def keeps_references(peer: Peer, job: Job) -> bool:
    """This add stores the caller's arrays themselves: less work, and they must not change afterwards.

    The feature says "yes...", "no..." or, where they differ, "one step: yes...; a batch: no...".
    """
    if job.benchmark not in ("add", "add_dicts"):  # lists become arrays that no caller holds
        return False
    said = peer.features.get("copies_on_add", "")
    parts = dict(part.partition(": ")[::2] for part in said.split("; "))
    return parts.get("one step" if job.params.get("batch", 1) == 1 else "a batch", said).startswith("no")


def copies_rows(peer: Peer) -> bool:
    """Each add copies its rows, however many."""
    return peer.features.get("copies_on_add", "").startswith("yes")


def has_batch_add(peer: Peer) -> bool:
    """True if the record does not say."""
    return peer.features.get("batch_add", "yes").startswith("yes")


def returns_rows(peer: Peer) -> bool:
    """A sample comes as rows, which its user stacks into columns."""
    return peer.features.get("gives", "").startswith("rows")


def without_evidence(stated: str) -> str:
    """A feature's sentence without the evidence in brackets at its end: "yes, option Nstep [seen: a test]"."""
    return stated.rpartition(" [")[0] if stated.endswith("]") and " [" in stated else stated


def evidence_of(stated: str) -> str:
    """The evidence in these brackets, if there is any."""
    return stated[:-1].rpartition(" [")[2] if stated.endswith("]") and " [" in stated else ""
