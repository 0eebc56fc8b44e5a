"""What a run sets out to measure, and what a launch hands back about it.

A cell is one figure: (suite, benchmark, peer, workload, params). The runner declares it as a record
of the run. The launch that measures it writes one JSON line into its cells file the moment the cell
is finished, so that a launch that is killed leaves what it had measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from adapters.base import Unavailable, WrongAnswer
from results.record import Record, Run

Outcome = Literal["ok", "failed", "wrong", "skipped"]
REASON_CHARACTERS = 500

#: benchmarks of the throughput suite: rows a call, and the unit of the figure (lower is better)
THROUGHPUT = {
    "add": ((1, 100), "s/transition"),
    "sample": ((32, 256), "s/call"),
    "prioritized": ((32, 256), "s/call"),
}
#: benchmarks of the apex suite and their units (higher is better)
APEX = {"explorers": "transitions/s", "learner": "steps/s"}
APEX_WORKLOAD = "CartPole-v1"


@dataclass(frozen=True)
class Result:
    """One line of a cells file."""

    benchmark: str
    peer: str
    workload: str
    params: dict[str, int]
    outcome: Outcome
    value: float | None = None
    reason: str | None = None

    def is_of(self, record: Record) -> bool:
        """A launch measures one peer; the run may know it by another name (the gate's base and head)."""
        mine = (self.benchmark, self.workload, self.params)
        return mine == (record.benchmark, record.workload, record.params)


def declare_throughput(run: Run, peer: str, capacities: Mapping[str, int]) -> list[Record]:
    """The cells of one peer, over the workloads that `capacities` has a capacity for."""
    return [
        run.cell(
            suite="throughput",
            benchmark=benchmark,
            peer=peer,
            workload=workload,
            params={"batch": batch, "capacity": capacity},
            unit=unit,
            better="lower",
        )
        for workload, capacity in capacities.items()
        for benchmark, (batches, unit) in THROUGHPUT.items()
        for batch in batches
    ]


def declare_apex(run: Run, peer: str, explorers: int, capacity: int) -> list[Record]:
    """The cells of one apex launch: one learner beside that many explorers."""
    params = {"explorers": explorers, "capacity": capacity}
    return [
        run.cell(
            suite="apex",
            benchmark=benchmark,
            peer=peer,
            workload=APEX_WORKLOAD,
            params=params,
            unit=unit,
            better="higher",
        )
        for benchmark, unit in APEX.items()
    ]


def node_id(record: Record, peer: str) -> str:
    """The pytest node that measures this cell with the registry's `peer`."""
    batch = record.params["batch"]
    return f"suites/throughput.py::test_{record.benchmark}[{batch}-{record.workload}-{peer}]"


def failure(error: BaseException) -> tuple[Outcome, str]:
    """What an exception means for a cell, and its reason on one line."""
    text = " | ".join(line.strip() for line in str(error).splitlines() if line.strip())[:REASON_CHARACTERS]
    if isinstance(error, Unavailable | NotImplementedError):  # not here, or not this peer's job
        return "skipped", text
    if isinstance(error, WrongAnswer):
        return "wrong", text
    return "failed", f"{type(error).__name__}: {text}"


def append_result(file: Path, result: Result) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(result)) + "\n")


def read_results(file: Path) -> Iterator[Result]:
    """Every whole line; the last one may have been cut off by a kill."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            yield Result(**json.loads(line))
        except json.JSONDecodeError:
            return
