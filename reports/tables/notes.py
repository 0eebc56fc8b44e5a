"""What a figure alone would hide: footnotes from the peers' features, and the cells that are not ok."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reports.figures.formatting import NOTHING, counted, listed, without_evidence
from reports.figures.jobs import COMPARED_SUITES, SPOKEN_SUITES, Job, is_finding
from reports.figures.ranking import keeps_references
from results import Peer, Record, Run
from results.record import first_line

KEEPS_REFERENCES, GIVES_ROWS, NO_BATCH_ADD, BEFORE_IT_WENT_WRONG = "†", "‡", "§", "¶"
APPROXIMATE, BOUND, ELSEWHERE = "~", ">", "○"

#: mark -> (the feature it comes from, what it means)
FOOTNOTES = {
    KEEPS_REFERENCES: (
        "copies_on_add",
        (
            "keeps references to the caller's arrays instead of copying them: if a stored array is changed later, the "
            "buffer changes too"
        ),
    ),
    GIVES_ROWS: ("gives", "returns rows: stacking them into columns is part of its figure, as it is for its user"),
    NO_BATCH_ADD: ("batch_add", "adds one row per call as used here: the figure is for that many single adds"),
}
#: mark -> its meaning, wherever it is explained: the page, its pictures and README
MEANINGS = {
    **{mark: meaning for mark, (_, meaning) in FOOTNOTES.items()},
    BEFORE_IT_WENT_WRONG: "measured before the peer failed or answered wrong at this job",
    APPROXIMATE: "stands on one or two launches: no interval",
    BOUND: "a bound: the reference made too few calls for a ratio",
    ELSEWHERE: "copies each row, yet takes less than its bytes, so it is not called the least: rows are compressed, "
    "share parts, or lie where they are not counted, as in a file",
}


def marks(peer: Peer, job: Job) -> str:
    """The footnotes that belong beside this peer's figure at this job."""
    found = ""
    if job.benchmark.startswith(("add", "compressed_add")):
        if keeps_references(peer, job):
            found += KEEPS_REFERENCES
        if job.params.get("batch", 1) != 1 and not _says_yes(peer, "batch_add"):
            found += NO_BATCH_ADD
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
    if any(record.status != "ok" for job in jobs for record in job.shown.values()):
        result.append((BEFORE_IT_WENT_WRONG, f"{MEANINGS[BEFORE_IT_WENT_WRONG]}."))
    return result


@dataclass(frozen=True)
class Trouble:
    """Cells of one peer that are not ok, for one reason. `number` is the mark beside them in the tables."""

    number: int
    peer: str
    status: str
    reason: str
    cells: str
    records: tuple[Record, ...]

    @property
    def is_finding(self) -> bool:
        return any(is_finding(record) for record in self.records)

    @property
    def what(self) -> str:
        return first_line(self.reason)

    @property
    def command(self) -> str:
        """The command that shows it again, which some reasons name in a line of its own."""
        return next((line for line in self._more if _COMMAND.match(line)), "")

    @property
    def details(self) -> str:
        """What else the reason says: a traceback, mostly."""
        return "\n".join(line for line in self._more if not _COMMAND.match(line)).strip()

    @property
    def _more(self) -> list[str]:
        return self.reason.splitlines()[1:]


_COMMAND = re.compile(r"(\S*/)?python -m ")


def troubles(run: Run, jobs: Sequence[Job]) -> list[Trouble]:
    """Every record that isn't ok, grouped by peer, status and reason, findings first; and peers whose own reason no
    record gives. What the time budget left out is no trouble."""
    labels = {id(record): job.full_label for job in jobs for record in job.cells.values()}
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in run.records:
        if not record.ok and record.status != "left_out":
            groups.setdefault((record.peer, _status(record), (record.reason or "").strip()), []).append(record)
    for peer in run.peers:
        if peer.reason and not any((name, reason) == (peer.name, peer.reason.strip()) for name, _, reason in groups):
            groups[peer.name, "not available", peer.reason.strip()] = []

    order = {peer.name: number for number, peer in enumerate(run.peers)}
    ordered = sorted(groups.items(), key=lambda group: (not any(map(is_finding, group[1])), order[group[0][0]]))
    return [
        Trouble(number, peer, status, reason, _cells(run, peer, records, labels), tuple(records))
        for number, ((peer, status, reason), records) in enumerate(ordered, start=1)
    ]


def _status(record: Record) -> str:
    if record.status == "invalidated":
        return f"withdrawn at revision {(record.invalidated_at or 'unknown')[:12]}"
    return record.status


def _cells(run: Run, peer: str, records: Sequence[Record], labels: Mapping[int, str]) -> str:
    all_of_it = sum(record.peer == peer for record in run.records)
    if not records:
        return NOTHING
    if len(records) == all_of_it and all_of_it > 1:
        return f"all {all_of_it} cells"
    return listed([labels[id(record)] for record in records], most=12)


def left_out(run: Run) -> str:
    """How long the run took, its budget, and what that left out; empty for a run without a budget that measured all."""
    dropped = [record for record in run.records if record.status == "left_out"]
    if run.minutes is None and not dropped:
        return ""
    took = f"The run took {_minutes(round(minutes, 1))}" if (minutes := run_minutes(run)) is not None else "The run"
    budget = f" of a budget of {_minutes(run.minutes)}" if run.minutes is not None else ""
    if not dropped:
        return f"{took}{budget}; no cell was left out."
    by_peer: dict[str, int] = {}
    for record in dropped:
        by_peer[record.peer] = by_peer.get(record.peer, 0) + 1
    what = listed([f"{counted(count, 'cell')} of {peer}" for peer, count in by_peer.items()], most=12)
    return f"{took}{budget}. The budget left out {counted(len(dropped), 'cell')}: {what}."


def _minutes(count: float) -> str:
    return f"{count:g} minute{'' if count == 1 else 's'}"


def left_out_whole(run: Run) -> list[str]:
    """The suites of which the budget left no figure: what else they hold could not be measured at all."""
    suites = dict.fromkeys(record.suite for record in run.records if record.status == "left_out")
    return [suite for suite in suites if not any(_has_result(each) for each in run.records if each.suite == suite)]


def _has_result(record: Record) -> bool:
    return record.ok or is_finding(record) or bool(record.samples)


def peers_left_out_whole(run: Run) -> list[str]:
    """Those of which the budget left no figure."""
    peers = dict.fromkeys(record.peer for record in run.records if record.status == "left_out")
    return [peer for peer in peers if not any(_has_result(each) for each in run.records if each.peer == peer)]


def spoken(suites: Sequence[str]) -> str:
    return listed([SPOKEN_SUITES.get(suite, suite) for suite in suites], most=len(suites))


def budget_line(run: Run) -> str:
    """For the top of the page: how much of the run its budget allowed, and how few launches; empty if all of it."""
    parts = []
    if dropped := sum(record.status == "left_out" for record in run.records):
        measured = sum(record.ok or is_finding(record) for record in run.records)
        budget = "Time budget" if run.minutes is None else f"{run.minutes:g}-minute budget"
        parts.append(f"{budget}: {measured:,} of {run.declared:,} figures measured, {dropped:,} left out.")
        if whole := left_out_whole(run):
            parts.append(f"Left out whole: {spoken(whole)}.")
        if peers := peers_left_out_whole(run):
            parts.append(f"No figure of {listed(peers, most=len(peers))}.")
    compared = {len(each.samples) for each in run.records if each.ok and each.suite in COMPARED_SUITES}
    if compared == {1} and (dropped or run.minutes is not None):
        parts.append("Every ratio stands on one launch.")
    return " ".join(parts)


def run_minutes(run: Run) -> float | None:
    if run.finished is None:
        return None
    started, finished = (datetime.fromisoformat(time) for time in (run.started, run.finished))
    return (finished - started).total_seconds() / 60
