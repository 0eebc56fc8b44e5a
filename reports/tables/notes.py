"""Marks beside figures that need an explanation, and their footnotes."""

from __future__ import annotations

from collections.abc import Sequence

from reports.figures.peers import without_evidence
from results import RecordedPeer, Run
from results.jobs import Job

KEEPS_REFERENCES, GIVES_ROWS, NO_BATCH_ADD, BEFORE_IT_WENT_WRONG = "†", "‡", "§", "¶"
APPROXIMATE, BOUND = "~", ">"
REWRITTEN = "-style"  # the end of a peer's name

#: mark -> (the feature it comes from, what it means)
FOOTNOTES = {
    KEEPS_REFERENCES: (
        "copies_on_add",
        (
            "keeps references to the caller's arrays instead of copying them: if a stored array is changed later, the "
            "buffer changes too"
        ),
    ),
    GIVES_ROWS: (
        "gives",
        "returns rows: its figure includes stacking them into columns, which a user would have to do",
    ),
    NO_BATCH_ADD: ("batch_add", "is used here to add one row per call: the figure is for that many single adds"),
}
#: mark -> its meaning, for the page and its pictures
MEANINGS = {
    **{mark: meaning for mark, (_, meaning) in FOOTNOTES.items()},
    BEFORE_IT_WENT_WRONG: "measured before the peer failed or returned a wrong answer at this job",
    APPROXIMATE: "based on one or two launches, so no interval is given",
    BOUND: "a lower bound: the reference made too few calls for a ratio",
    REWRITTEN: "written for this project to behave like that library's buffer",
}


def marks(peer: RecordedPeer, job: Job) -> str:
    """Return the marks that belong beside this peer's figure at this job."""
    found = ""
    if job.benchmark.startswith(("add", "compressed_add")):
        if peer.known.keeps(job.benchmark, job.params):
            found += KEEPS_REFERENCES
        if job.params.get("batch", 1) != 1 and not peer.known.adds_batches:
            found += NO_BATCH_ADD
    elif peer.known.returns_rows:
        found += GIVES_ROWS
    return found


def footnotes(run: Run, jobs: Sequence[Job]) -> list[tuple[str, str]]:
    """Return (mark, sentence) for the marks used in these jobs; each sentence quotes the peers' features."""
    peers = {peer.name: peer for peer in run.peers}
    result = []
    for mark, (feature, meaning) in FOOTNOTES.items():
        marked = [
            peer for peer in peers.values() if any(peer.name in job.cells and mark in marks(peer, job) for job in jobs)
        ]
        if marked:
            said = "; ".join(f'{peer.name}: "{without_evidence(peer.features[feature])}"' for peer in marked)
            result.append((mark, f"{meaning} ({said})."))
    if any(record.status != "ok" for job in jobs for record in job.shown.values()):
        result.append((BEFORE_IT_WENT_WRONG, f"{MEANINGS[BEFORE_IT_WENT_WRONG]}."))
    return result
