"""Conformance: the word observed for each peer at each check, and the evidence behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.figures.formatting import listed
from reports.figures.jobs import Kind, Suite
from reports.sections.section import Context, Part, Section
from reports.tables.checks import Check, Outcome
from reports.tables.troubles import Trouble, number_of
from results import Record, Run

FAILED = "◊"
FAILED_MEANS = "failed a conformance check: it does not do what its adapter promises, or what every buffer must do."
HAZARD = "!"
EXPLAINED = (
    "These tables show what each peer was observed to do, whatever its documentation says. The checks add rows with "
    "every form of add, using values that are easily altered. A chi-square test compares how often each row is sampled "
    "with its share (alpha 0, 0.6 and 1; priorities spanning six decades; after updates; after the ring has wrapped). "
    "Weights are compared with the published formula, and the response to invalid calls is observed. Each check yields "
    f"a word or phrase, which must equal the one that the peer's adapter states. {FAILED} means that the peer "
    f"{FAILED_MEANS} {HAZARD} means that it behaves as promised, but in a way that is dangerous to a user who does "
    "not know about it."
)

#: title of a table -> its columns: check -> heading
TABLES: Mapping[str, Mapping[str, str]] = {
    "What is stored": {
        "round_trip": "round trip of a row",
        "dtype": "dtype",
        "shape": "shape",
        "ring_order": "what a full buffer overwrites",
        "references": "the caller's arrays",
        "returned_batch": "a batch held by the caller",
    },
    "What is sampled": {
        "uniform": "uniform draws",
        "prioritized": "prioritized draws",
        "replacement": "replacement",
        "prioritized_replacement": "replacement, prioritized",
        "weights": "largest weight is 1",
        "seed": "same samples from a seed",
    },
    "Priorities": {
        "new_row_priority": "of a new row",
        "given_priority": "passed with a row",
        "stale_update": "set for an overwritten row",
        "nan_priority": "NaN",
        "negative_priority": "negative",
        "infinite_priority": "infinite",
    },
    "Sampling too early": {
        "empty": "from an empty buffer",
        "batch_over_stored": "more rows than are stored",
    },
}
CHECKS = {check: column for table in TABLES.values() for check, column in table.items()}
SUITE = Suite(
    "conformance",
    kind=Kind.CHECKS,
    benchmarks={check: f"{title}: {column}" for title, table in TABLES.items() for check, column in table.items()},
)


@dataclass(frozen=True)
class SeenCell:
    text: str
    kind: str  # "ok", "hazard", "wrong", or the status of a check without a result
    trouble: int | None = None  # its number in the lists of findings and of missing figures


@dataclass(frozen=True)
class SeenTable:
    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[SeenCell | None]]]


@dataclass(frozen=True)
class Evidence:
    """What was observed of one peer: (check, kind, observation) for each check."""

    peer: str
    lines: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Conformance:
    summary: str
    tables: Sequence[SeenTable]
    evidence: Sequence[Evidence]
    explained: str = EXPLAINED


def failed_checks(run: Run) -> dict[str, list[str]]:
    """Peer -> the names of the checks that it failed."""
    failed: dict[str, list[str]] = {}
    for record in run.records:
        if record.suite == SUITE.name and record.status == "wrong":
            failed.setdefault(record.peer, []).append(CHECKS.get(record.benchmark, record.benchmark))
    return failed


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


def parts(context: Context) -> list[Part]:
    run, jobs, troubles = context.run, context.jobs_of(SUITE), context.troubles
    if not jobs:
        return []
    by_check = {job.benchmark: job.cells for job in jobs}
    peers = [peer.name for peer in run.peers if any(peer.name in job.cells for job in jobs)]
    tables = []
    for title, columns in TABLES.items():
        checks = [check for check in columns if check in by_check]
        rows = [(peer, [_cell(by_check[check].get(peer), troubles) for check in checks]) for peer in peers]
        if checks:
            tables.append(SeenTable(title, [columns[check] for check in checks], rows))
    records = {
        peer: [cells[peer] for check in CHECKS if (cells := by_check.get(check, {})).get(peer)] for peer in peers
    }
    body = Conformance(
        summary=_summary(run, records),
        tables=tables,
        evidence=[Evidence(peer, [_line(each) for each in records[peer] if each.seen]) for peer in peers],
    )
    return [Part("conformance", "conformance", SUITE.title, body)]


def _word(record: Record) -> str:
    return (record.seen or "").partition(": ")[0]


def _kind(record: Record) -> str:
    return "hazard" if record.ok and record.hazard else record.status


def _cell(record: Record | None, troubles: Sequence[Trouble]) -> SeenCell | None:
    if record is None:
        return None
    if record.seen:
        mark = {"hazard": f"{HAZARD} ", "wrong": f"{FAILED} "}.get(_kind(record), "")
        return SeenCell(mark + _word(record), _kind(record), number_of(record, troubles))
    return SeenCell(record.status.replace("_", " "), record.status, number_of(record, troubles))


def _line(record: Record) -> tuple[str, str, str]:
    mark = {"hazard": f"{HAZARD} ", "wrong": f"{FAILED} "}.get(_kind(record), "")
    return CHECKS[record.benchmark], _kind(record), mark + (record.seen or "")


def _summary(run: Run, records: Mapping[str, Sequence[Record]]) -> str:
    failed = {peer: found for peer, found in failed_checks(run).items() if peer in records}
    whole = [peer for peer, mine in records.items() if peer not in failed and any(each.ok for each in mine)]
    sentences = []
    if whole:
        sentences.append(f"Passed every check: {listed(whole, most=30)}.")
    if failed:
        parts = [f"{peer} ({', '.join(checks)})" for peer, checks in failed.items()]
        sentences.append(f"Failed: {listed(parts, most=30)}.")
    if unseen := [peer for peer, mine in records.items() if not any(each.seen for each in mine)]:
        sentences.append(f"Not checked: {listed(unseen, most=30)}.")
    return " ".join(sentences)


CHECK = Check(SUITE.name, SUITE.title, FAILED, FAILED_MEANS, outcomes)
SECTION = Section(parts, SUITE, CHECK)
