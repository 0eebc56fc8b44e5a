"""Integrity between processes, and whether each peer is sound, as shown beside its speeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.figures.formatting import counted, listed, number
from reports.figures.jobs import Kind, Suite
from reports.sections.section import Context, Part, Section
from reports.tables.checks import Check, Outcome
from reports.tables.troubles import Trouble, number_of
from results import Record, Run
from results.record import first_line

#: The benchmark of other suites that checks rows while explorers run: broken rows there also make a peer unsafe.
APEX, HOSTS, WHOLE = "apex", "hosts", "whole"
BROKEN = {APEX: "broken rows in Ape-X", HOSTS: "broken rows over hosts"}
SUITE = Suite(
    "integrity",
    kind=Kind.CHECKS,
    benchmarks={
        "torn": "torn rows",
        "unwritten": "never-written rows",
        "stale": "stale priorities",
        "starvation": "starvation",
        "lost": "lost rows",
        "duplicated": "rows stored twice",
        "killed": "explorers killed",
    },
)
UNSAFE = "✗"
UNSAFE_MEANS = "unsafe between processes: its figure is the speed of a buffer that can return wrong rows, or hang."

#: benchmark -> (heading of its column, what is wrong with a peer that fails, what a cell counts)
CHECKS = {
    "torn": ("torn rows", "torn rows", "rows read"),
    "unwritten": ("never-written rows", "never-written rows", "rows read"),
    "lost": ("lost rows", "lost rows", "rows added"),
    "duplicated": ("rows stored twice", "rows stored twice", "rows added"),
    "stale": ("another row's priority", "stale priorities", "rows read"),
    "killed": ("explorers killed", "hangs after a kill", "kills"),
    "starvation": ("slowest explorer", "starved explorers", "of a fair share"),
}


@dataclass(frozen=True)
class Safety:
    """Whether one peer is sound. `found` says what is wrong with it, or which checks could not be made."""

    word: str  # "sound", "unsafe" or "not tested"
    found: str = ""

    @property
    def is_tested(self) -> bool:
        return self.word in ("sound", "unsafe")

    @property
    def label(self) -> str:
        return f"{self.mark} {self.word}".strip()

    @property
    def mark(self) -> str:
        return UNSAFE if self.word == "unsafe" else ""


@dataclass(frozen=True)
class CheckCell:
    text: str
    status: str
    trouble: int | None = None  # its number in the lists of findings and of missing figures


@dataclass(frozen=True)
class Integrity:
    params: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Safety, Sequence[CheckCell | None]]]
    summary: str
    safety: Mapping[str, Safety]

    @property
    def explained(self) -> str:
        return (
            f"Every buffer that claims to work across processes takes the same test ({self.params}). Explorers add "
            "rows, a few per call, to a ring so small that it wraps constantly. Every word of a row is derived from "
            "the row's writer and number, so damage is detected. Meanwhile, a learner reads rows and sets the priority "
            "that belongs to each. Next, the explorers add exactly as many rows as fit, and stop; each row must then "
            "be stored exactly once. Finally, explorers are killed with SIGKILL at random moments, and the other "
            "processes must continue. These checks cannot detect faults that are rarer than the counts below, or that "
            "occur only on other machines."
        )


def safety_of(run: Run) -> dict[str, Safety]:
    """Peer -> its safety, for peers declared in the integrity suite and for those whose rows were broken elsewhere."""
    by_peer: dict[str, list[Record]] = {}
    for record in run.records:
        if record.suite == SUITE.name or _is_broken_elsewhere(record):
            by_peer.setdefault(record.peer, []).append(record)
    return {peer: _safety(records) for peer, records in by_peer.items()}


def _is_broken_elsewhere(record: Record) -> bool:
    return record.suite in BROKEN and (record.benchmark, record.status) == (WHOLE, "wrong")


def _safety(records: Sequence[Record]) -> Safety:
    if wrong := [_fault(record) for record in records if record.status == "wrong"]:
        return Safety("unsafe", ", ".join(dict.fromkeys(wrong)))
    if missing := [CHECKS[record.benchmark][0] for record in records if not record.ok]:
        return Safety("not tested", "" if len(missing) == len(records) else ", ".join(missing))
    return Safety("sound")


def _fault(record: Record) -> str:
    return BROKEN[record.suite] if record.benchmark == WHOLE else CHECKS[record.benchmark][1]


def outcomes(run: Run) -> dict[str, Outcome]:
    passed = {"sound": True, "unsafe": False}
    return {peer: Outcome(passed.get(each.word), each.found) for peer, each in safety_of(run).items()}


def rows_checked(run: Run) -> dict[str, Outcome]:
    """Peer -> whether every row that its learner sampled in Ape-X had been added, for the peers checked there."""
    by_peer: dict[str, list[Record]] = {}
    for record in run.records:
        if (record.suite, record.benchmark) == (APEX, WHOLE):
            by_peer.setdefault(record.peer, []).append(record)
    return {peer: _rows(records) for peer, records in by_peer.items()}


def _rows(records: Sequence[Record]) -> Outcome:
    broken = sum(record.status == "wrong" for record in records)
    if broken:
        return Outcome(False, f"broken rows in {broken} of {counted(len(records), 'job')}")
    return Outcome(True if any(record.ok for record in records) else None)


def missing(context: Context) -> str:
    """Return why the page does not say which buffers are sound, or "" if it does."""
    if context.jobs_of(SUITE):
        return ""
    return (
        "The integrity suite was left out because of the time budget"
        if SUITE.name in context.left_out_whole
        else "This run does not include the integrity suite"
    )


def parts(context: Context) -> list[Part]:
    run, jobs, troubles = context.run, context.jobs_of(SUITE), context.troubles
    if not jobs:
        return []
    by_check = {job.benchmark: job for job in jobs}
    checks = [name for name in CHECKS if name in by_check]
    safety = safety_of(run)
    tested = [peer.name for peer in run.peers if any(peer.name in job.cells for job in jobs)]
    body = Integrity(
        params=", ".join(f"{name} {value}" for name, value in jobs[0].params.items()),
        columns=[CHECKS[name][0] for name in checks],
        rows=[
            (peer, safety[peer], [_cell(by_check[name].cells.get(peer), troubles) for name in checks])
            for peer in tested
        ],
        summary=_summary({peer: safety[peer] for peer in tested}),
        safety=safety,
    )
    return [Part("integrity", "integrity", SUITE.title, body)]


def _cell(record: Record | None, troubles: Sequence[Trouble]) -> CheckCell | None:
    if record is None:
        return None
    if not record.ok:
        text = first_line(record.reason) if record.status == "wrong" else record.status.replace("_", " ")
        return CheckCell(text, record.status, number_of(record, troubles))
    values, counts = [sample.value for sample in record.samples], CHECKS[record.benchmark][2]
    if record.benchmark == "starvation":
        return CheckCell(f"{number(min(values))} {counts}", record.status)
    if record.benchmark == "killed":
        return CheckCell(f"all continued after {counted(int(sum(values)), 'kill')}", record.status)
    return CheckCell(f"none in {sum(values):,.0f} {counts}", record.status)


def _summary(safety: Mapping[str, Safety]) -> str:
    sentences = []
    for word, verb in (("sound", "passed every check"), ("not tested", "could not be tested completely")):
        if names := [peer for peer, each in safety.items() if each.word == word]:
            sentences.append(f"{listed(names)} {verb}.")
    unsafe = [f"{peer} ({each.found})" for peer, each in safety.items() if each.word == "unsafe"]
    if unsafe:
        sentences.append(f"Unsafe: {listed(unsafe)}.")
    return " ".join(sentences)


#: What an Ape-X run shows without this suite.
ROWS = Check(APEX, "Rows sampled in Ape-X", UNSAFE, UNSAFE_MEANS, rows_checked)
CHECK = Check(SUITE.name, SUITE.title, UNSAFE, UNSAFE_MEANS, outcomes)
SECTION = Section(parts, SUITE, CHECK)
