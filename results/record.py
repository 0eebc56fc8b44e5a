"""The record of a run: built cell by cell, saved after every launch, loaded by the reports.

A run file is always complete and valid: `save` validates the run before it writes anything, and replaces the old file
atomically. The checks are in `results/validation.py`, the format in `results/schema.json`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from results.facts import Facts, facts_of
from results.validation import SCHEMA_NAME, BadRecord, cell_key, check

#: failed: the peer crashed, hung or raised. broken: the harness could not measure it. left_out: no time in the budget.
Status = Literal["ok", "failed", "wrong", "skipped", "broken", "left_out", "interrupted", "invalidated"]
Better = Literal["lower", "higher"]
Param = int | float | str | bool

#: Units whose values may be negative: an environment may have negative rewards. schema.json names them, too.
SIGNED = ("mean return",)
#: Suites and profiles that have other names in older files.
RENAMED = {
    "learning": "solve_time",
    "learners": "paired_training",
    "learners-speed": "paired_speed",
    "learners-prioritized": "paired_prioritized",
    "learners-sparse": "paired_sparse",
}
NOT_REACHED = "not measured: the run did not get this far"


@dataclass(frozen=True)
class Sample:
    """The value that one launch (a fresh process) measured, in the record's unit."""

    block: int  # a round in which each peer is launched at most once; ratios are taken within a block
    value: float
    calls: int | None = None  # number of calls timed, given if it may be too small for a reliable rate


@dataclass(frozen=True)
class RecordedPeer:
    """An implementation under test; `adapters.base.PeerInfo` has the same fields."""

    name: str
    version: str | None
    usage: str
    features: Mapping[str, str] = field(default_factory=dict)
    reason: str | None = None  # why it could not be measured
    facts: Mapping[str, Any] | None = None  # as in the file; None in an old record

    @property
    def known(self) -> Facts:
        """The peer's facts as typed values."""
        return facts_of(self.facts, self.features)


@dataclass(frozen=True)
class RecordedWorkload:
    """A kind of transition and where it comes from; `fields` maps a key to its shape and dtype."""

    name: str
    version: str
    source: str
    transitions: int
    row_bytes: int
    sha256: str
    fields: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Left:
    """What a launch left behind although it ended normally. The runner removed it; a user would have to remove it."""

    peer: str
    launch: str
    what: str  # "1 process, 2 segments of 8.0 MiB"


@dataclass(frozen=True)
class Spent:
    """How long a launch took, and how many of these seconds went to filling buffers, checking answers and measuring."""

    peer: str
    launch: str
    seconds: float
    fill: float
    check: float
    measure: float

    @property
    def other_share(self) -> float:
        """The share of the time, from 0 to 1, that went to anything else, such as starting and importing."""
        return max(0.0, 1 - (self.fill + self.check + self.measure) / self.seconds)


@dataclass
class Record:
    """One cell of the run: the samples of one benchmark for one peer on one workload, or why there are none.

    A new cell is "interrupted" until its first sample. If the run ends early for any reason, the file therefore shows
    which cells were never reached.
    """

    suite: str
    benchmark: str
    peer: str
    workload: str
    params: dict[str, Param]
    unit: str
    better: Better
    status: Status = "interrupted"
    reason: str | None = NOT_REACHED
    samples: list[Sample] = field(default_factory=list)
    seen: str | None = None  # an observation that is not a number: "copies: 84 columns were held while ..."
    hazard: bool = False  # the peer behaves as promised, but in a way that is dangerous if a user does not know it
    invalidated_at: str | None = None  # the revision that withdrew it; only for an "invalidated" record

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def pending(self) -> bool:
        """Whether the cell was declared, but neither measured nor failed."""
        return self.status == "interrupted" and not self.samples

    @property
    def label(self) -> str:
        """A label for messages: "throughput add (batch=1) of cpprb on CartPole-v1"."""
        params = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return f"{self.suite} {self.benchmark} ({params}) of {self.peer} on {self.workload}"

    def add_sample(self, block: int, value: float, calls: int | None = None) -> None:
        """Add one launch's figure, in the record's unit, and its number of calls. The first makes the cell "ok"."""
        value = float(value)
        if not (math.isfinite(value) and (value >= 0 or self.unit in SIGNED)):
            least = "" if self.unit in SIGNED else ", at least 0"
            raise BadRecord(f"{self.label}: sample of block {block} must be a finite number{least}, got {value}")
        if any(sample.block == block for sample in self.samples):
            raise BadRecord(f"{self.label}: block {block} already has a sample")
        if self.pending:
            self.status, self.reason = "ok", None
        self.samples.append(Sample(int(block), value, calls))

    def fail(self, status: Status, reason: str) -> None:
        """Mark the cell as not measured. Earlier samples are kept, as is the first reason, which names the cause."""
        if status == "ok" or not reason.strip():
            raise BadRecord(f"{self.label}: a failure must have a reason and a status other than ok")
        if self.ok or self.pending:
            self.status, self.reason = status, reason


@dataclass
class Run:
    """The contents of a run file, in memory."""

    kind: Literal["bench", "gate"]
    profile: str
    revision: str
    command: str
    machine: dict[str, Any]
    started: str = field(default_factory=lambda: now())
    finished: str | None = None
    interrupted: bool = False
    declared: int = 0  # number of cells that the run was to measure
    minutes: float | None = None  # its time budget
    resumed: list[str] = field(default_factory=list)  # when it was resumed after interruptions
    peers: list[RecordedPeer] = field(default_factory=list)
    workloads: list[RecordedWorkload] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    spent: list[Spent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._cells = {cell_key(vars(record)): record for record in self.records}

    def add_peer(
        self,
        name: str,
        version: str | None,
        usage: str,
        features: Mapping[str, str] | None = None,
        reason: str | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> RecordedPeer:
        """Add a peer, given `**dataclasses.asdict(peer_info)`. The first one added is the subject of the report."""
        self.peers.append(RecordedPeer(name, version, usage, dict(features or {}), reason, facts))
        return self.peers[-1]

    def add_workload(self, **about: Any) -> RecordedWorkload:
        """Add a workload, given the fields of `RecordedWorkload`."""
        self.workloads.append(RecordedWorkload(**about))
        return self.workloads[-1]

    def peer(self, name: str) -> RecordedPeer:
        return next(peer for peer in self.peers if peer.name == name)

    def cell(
        self,
        *,
        suite: str,
        benchmark: str,
        peer: str,
        workload: str,
        params: Mapping[str, Param],
        unit: str,
        better: Better,
    ) -> Record:
        """Return the record of this cell. The first call creates the record, which declares the cell."""
        new = Record(suite, benchmark, peer, workload, dict(params), unit, better)
        record = self._cells.setdefault(cell_key(vars(new)), new)
        if record is new:
            self.records.append(new)
            self.declared = max(self.declared, len(self.records))
        elif (record.unit, record.better) != (unit, better):
            raise BadRecord(
                f"{record.label}: must be in {record.unit}, {record.better} is better, got {unit}, {better}"
            )
        return record

    def finish(self, interrupted: bool = False) -> None:
        self.finished, self.interrupted = now(), interrupted

    @property
    def is_whole(self) -> bool:
        """Whether the run ended and was not interrupted."""
        return self.finished is not None and not self.interrupted

    def missing(self) -> list[str]:
        """Cells declared but never measured, one line each."""
        lines = [record.label for record in self.records if record.pending]
        unknown = self.declared - len(self.records)
        return lines + ([f"{unknown} declared cell(s) without any record"] if unknown > 0 else [])

    def problems(self, excused: Callable[[Record], bool] = lambda _record: False) -> list[str]:
        """The reasons why this run is not a success, one line each; empty if the runner may exit with 0.

        A skipped cell is not a problem: the platform does not support the peer, or the peer does not support the job.
        Nor is a cell left out because of the time budget, or a record that is `excused`, such as a finding about
        another project's buffer.
        """
        lines = ["the run was interrupted"] if self.interrupted else []
        lines += [f"never measured: {cell}" for cell in self.missing()]
        lines += [
            f"{record.status}: {record.label}: {first_line(record.reason)}"
            for record in self.records
            if not (record.ok or record.pending or record.status in ("skipped", "left_out") or excused(record))
        ]
        if not any(record.ok or excused(record) for record in self.records):
            lines.append("nothing was measured")
        return lines

    def to_dict(self) -> dict[str, Any]:
        about = (
            "kind",
            "profile",
            "started",
            "finished",
            "revision",
            "command",
            "interrupted",
            "declared",
            "minutes",
            "resumed",
            "machine",
        )
        return {
            "schema": SCHEMA_NAME,
            "run": {name: getattr(self, name) for name in about},
            "peers": [dataclasses.asdict(peer) for peer in self.peers],
            "workloads": [plain(workload) for workload in self.workloads],
            "records": [dataclasses.asdict(record) for record in self.records],
            "left": [dataclasses.asdict(left) for left in self.left],
            "spent": [dataclasses.asdict(spent) for spent in self.spent],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Run:
        """Build a run from the data of a file, which must have passed `check`."""
        about = data["run"]
        return cls(
            **{**about, "profile": today(about["profile"])},
            peers=[RecordedPeer(**peer) for peer in data["peers"]],
            workloads=[RecordedWorkload(**workload) for workload in data["workloads"]],
            records=[
                Record(
                    **{
                        **record,
                        "suite": today(record["suite"]),
                        "samples": [Sample(**sample) for sample in record["samples"]],
                    }
                )
                for record in data["records"]
            ],
            left=[Left(**left) for left in data.get("left", ())],  # older files lack both lists
            spent=[Spent(**spent) for spent in data.get("spent", ())],
        )


def today(name: str) -> str:
    """Return the current name of a suite or profile, given its name in a file of any age."""
    return RENAMED.get(name, name)


def plain(workload: RecordedWorkload) -> dict[str, Any]:
    """Convert tuples to lists: a shape may be a tuple in memory, but is a list in the file."""
    fields = {key: {"shape": list(of["shape"]), "dtype": str(of["dtype"])} for key, of in workload.fields.items()}
    return {**dataclasses.asdict(workload), "fields": fields}


def load(path: str | os.PathLike[str]) -> Run:
    """Load the run in this file. Raises `BadRecord`, whose message names the file, the record and the field."""
    path = Path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRecord(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise BadRecord(f"{path}: is not JSON: {error}") from error
    check(data, str(path))
    return Run.from_dict(data)


def save(path: str | os.PathLike[str], run: Run) -> None:
    """Write the run atomically: if the run is invalid, or on a crash, the previous file is kept."""
    path = Path(path)
    data = run.to_dict()
    check(data, str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, because os.replace is atomic only within one file system.
    half_made = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with half_made.open("w", encoding="utf-8") as file:
            json.dump(data, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(half_made, path)
    finally:
        half_made.unlink(missing_ok=True)


def now() -> str:
    """The current time in UTC, to the second, in the run file's format."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def first_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return lines[0] if lines else ""
