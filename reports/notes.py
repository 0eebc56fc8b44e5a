"""What a figure alone would hide: footnotes from the peers' features, and the cells that have no figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.answers import keeps_references
from reports.formatting import NOTHING, listed, without_evidence
from reports.jobs import Job, is_finding
from results import Peer, Record, Run

KEEPS_REFERENCES, GIVES_ROWS, NO_BATCH_ADD, NO_PRIORITY_ON_ADD = "†", "‡", "§", "¶"

#: mark -> (the feature it comes from, what it means)
FOOTNOTES = {
    KEEPS_REFERENCES: (
        "copies_on_add",
        (
            "keeps references to the caller's arrays: its add copies nothing, and if you change an array that you "
            "added (as many environments do), the buffer changes too"
        ),
    ),
    GIVES_ROWS: ("gives", "gives rows: stacking them into columns is part of its figure, as it is for its user"),
    NO_BATCH_ADD: ("batch_add", "has no batch add: its figure is that of as many calls as its user would have to make"),
    NO_PRIORITY_ON_ADD: (
        "prioritized",
        "takes no priority with a step: its figure is that of its plain add into a prioritized buffer",
    ),
}


def marks(peer: Peer, job: Job) -> str:
    """The footnotes that belong beside this peer's figure at this job."""
    found = ""
    if "add" in job.benchmark:
        if keeps_references(peer, job):
            found += KEEPS_REFERENCES
        if job.params.get("batch", 1) != 1 and not _says_yes(peer, "batch_add"):
            found += NO_BATCH_ADD
        if job.benchmark == "add_prioritized" and "none on add" in peer.features.get("prioritized", ""):
            found += NO_PRIORITY_ON_ADD
    elif peer.features.get("gives", "").startswith("rows"):
        found += GIVES_ROWS
    return found


def _says_yes(peer: Peer, feature: str) -> bool:
    return peer.features.get(feature, "yes").startswith("yes")


def footnotes(run: Run, jobs: Sequence[Job]) -> list[tuple[str, str]]:
    """(mark, sentence) of those used in these jobs, with what each peer's features say."""
    peers = {peer.name: peer for peer in run.peers}
    result = []
    for mark, (feature, meaning) in FOOTNOTES.items():
        marked = [
            peer for peer in peers.values() if any(peer.name in job.cells and mark in marks(peer, job) for job in jobs)
        ]
        if marked:
            said = "; ".join(f'{peer.name}: "{without_evidence(peer.features[feature])}"' for peer in marked)
            result.append((mark, f"{meaning} ({said})."))
    return result


@dataclass(frozen=True)
class Trouble:
    """Cells of one peer without a figure, for one reason. `number` is the mark beside them in the tables."""

    number: int
    peer: str
    status: str
    reason: str
    cells: str
    records: tuple[Record, ...]


def troubles(run: Run, jobs: Sequence[Job]) -> list[Trouble]:
    """Every record that isn't ok, grouped by peer, status and reason; and peers whose own reason no record gives."""
    labels = {id(record): job.full_label for job in jobs for record in job.cells.values()}
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in run.records:
        if not record.ok and not is_finding(record):
            groups.setdefault((record.peer, record.status, record.reason or ""), []).append(record)
    for peer in run.peers:
        if peer.reason and not any((name, reason) == (peer.name, peer.reason) for name, _, reason in groups):
            groups[peer.name, "not available", peer.reason] = []

    order = {peer.name: number for number, peer in enumerate(run.peers)}
    ordered = sorted(groups.items(), key=lambda group: order[group[0][0]])
    result = []
    for number, ((peer, status, reason), records) in enumerate(ordered, start=1):
        all_of_it = sum(record.peer == peer for record in run.records)
        if not records:
            cells = NOTHING
        elif len(records) == all_of_it and all_of_it > 1:
            cells = f"all {all_of_it} cells"
        else:
            cells = listed([labels[id(record)] for record in records], most=12)
        result.append(Trouble(number, peer, status, reason.strip(), cells, tuple(records)))
    return result
