"""Cells that are not ok, and why: findings about a peer, and missing figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.figures.formatting import NOTHING, listed
from results import Record, Run
from results.jobs import Job, is_finding
from results.record import first_line


@dataclass(frozen=True)
class Trouble:
    """The cells of one peer that are not ok for one reason. `number` is the mark beside them in the tables."""

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
        """The command that reproduces it, if the reason contains one on a separate line."""
        return next((line for line in self._more if _COMMAND.match(line)), "")

    @property
    def details(self) -> str:
        """The rest of the reason, usually a traceback."""
        return "\n".join(line for line in self._more if not _COMMAND.match(line)).strip()

    @property
    def _more(self) -> list[str]:
        return self.reason.splitlines()[1:]


_COMMAND = re.compile(r"(\S*/)?python -m ")


def troubles(run: Run, jobs: Sequence[Job]) -> list[Trouble]:
    """Return all records that are not ok, grouped by peer, status and reason, findings first, and the unavailable peers
    whose reason is not in any record. Cells that were left out because of the time budget are not listed."""
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
