"""What a run sets out to measure, and what a launch hands back about it.

A cell is one figure: (suite, benchmark, peer, workload, params). The runner declares it as a record
of the run. The launch that measures it writes one JSON line into its cells file the moment the cell
is finished, so that a launch that is killed leaves what it had measured.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from adapters.base import Unavailable, WrongAnswer
from adapters.environments import NotInstalled
from adapters.lifeline import exit_with_parent
from adapters.registry import is_ours
from results.record import Better, Record, Run
from suites.throughput.jobs import THROUGHPUT, Job, Task

Outcome = Literal["ok", "failed", "wrong", "skipped", "broken"]
CHECKOUT = Path(__file__).resolve().parents[2]
HARNESS = (CHECKOUT / "suites", CHECKOUT / "results")
ADAPTERS = (CHECKOUT / "adapters",)
REASON_CHARACTERS = 500

#: benchmarks of the memory suite: what the buffer is asked for (lower is better)
MEMORY: dict[str, dict[str, bool]] = {
    "plain": {},
    "priorities": {"prioritized": True},
    "next_of": {"next_of": True},
    "stack_compress": {"stack_compress": True},
    "both": {"next_of": True, "stack_compress": True},
}
#: beside that, the launch of some of them has more figures of the same buffer
FILLED = {"constructed": 0.0, "quarter": 0.25, "half": 0.5}  # of the capacity, when bytes are counted
PEAK = "peak"
LEAKS = {"plain": "leak", "priorities": "leak_prioritized"}
PEAK_BATCH, PEAK_FROM_BYTES = 256, 1_000  # rows; a batch of smaller rows is lost among whole pages
#: benchmarks of the start-up suite, all in seconds (lower is better)
STARTUP = ("import", "construct", "first_add", "fill", "first_sample", "first_cycle")
STARTUP_WORKLOAD = "CartPole-v1"
#: benchmarks of the latency suite, all in seconds per call (lower is better): calls, and percentiles of each
LATENCY_CALLS = ("add", "sample", "update")
PERCENTILES = {"p50": 50.0, "p99": 99.0, "p999": 99.9}
LATENCY = tuple(f"{call}_{name}" for call in LATENCY_CALLS for name in PERCENTILES)
LATENCY_WORKLOAD = "CartPole-v1"
#: benchmarks of the apex suite and their units (higher is better)
APEX = {"explorers": "transitions/s", "learner": "steps/s", "whole": "rows checked"}
APEX_WORKLOAD = "CartPole-v1"
#: kinds of job of the sharing suite, their benchmarks, units, and which way is better
SHARING: dict[str, dict[str, tuple[str, Better]]] = {
    "crowd": {
        "adds": ("rows/s", "higher"),
        "samples": ("samples/s", "higher"),
        "slowest": ("of a fair share", "higher"),
    },
    "prioritized_crowd": {
        "prioritized_adds": ("rows/s", "higher"),
        "prioritized_cycles": ("cycles/s", "higher"),
        "prioritized_slowest": ("of a fair share", "higher"),
    },
    "step": {"step": ("s/step", "lower")},
    "alone": {"add_alone": ("s/transition", "lower")},
}

#: benchmarks of the integrity suite, and what a figure counts: how much was looked at. The reason says what was wrong.
INTEGRITY = {
    "torn": "rows read",
    "unwritten": "rows read",
    "stale": "rows read",
    "starvation": "of a fair share",
    "lost": "rows added",
    "duplicated": "rows added",
    "killed": "kills",
}
INTEGRITY_WORKLOAD = "certified"

#: benchmarks of the conformance suite, and what a figure counts: how much was looked at
CONFORMANCE = {
    "round_trip": "rows",
    "dtype": "batches",
    "shape": "batches",
    "ring_order": "draws",
    "returned_batch": "columns",
    "references": "rows",
    "uniform": "draws",
    "prioritized": "draws",
    "new_row_priority": "draws",
    "given_priority": "draws",
    "weights": "weights",
    "replacement": "batches",
    "prioritized_replacement": "batches",
    "seed": "batches",
    "stale_update": "draws",
    "batch_over_stored": "calls",
    "empty": "calls",
    "nan_priority": "draws",
    "negative_priority": "draws",
    "infinite_priority": "draws",
}
CONFORMANCE_WORKLOAD = "numbered"


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
    seen: str | None = None  # what came out where that is no number: a word, and what it stands on after a colon
    hazard: bool = False  # as promised, but dangerous to a user who does not know about it
    calls: int | None = None  # that the value stands on, where they may be too few for a rate

    def is_of(self, record: Record) -> bool:
        """A launch measures one peer; the run may know it by another name (the gate's base and head)."""
        mine = (self.benchmark, self.workload, self.params)
        return mine == (record.benchmark, record.workload, record.params)


@dataclass(frozen=True)
class SharingJob:
    """So many explorers add so many rows per call beside a learner; or one process does it alone (explorers 0)."""

    kind: str
    workload: str
    capacity: int
    batch: int
    explorers: int = 0

    @classmethod
    def parse(cls, text: str) -> SharingJob:
        """What `str` gave: "crowd:CartPole-v1:100000:1:8"."""
        kind, workload, *numbers = text.split(":")
        if kind not in SHARING:
            raise ValueError(f"unknown kind of job: {kind}")
        return cls(kind, workload, *map(int, numbers))

    def __str__(self) -> str:
        return f"{self.kind}:{self.workload}:{self.capacity}:{self.batch}:{self.explorers}"

    @property
    def params(self) -> dict[str, int]:
        crowd = {"explorers": self.explorers} if self.explorers else {}
        return {**crowd, "batch": self.batch, "capacity": self.capacity}

    @property
    def benchmarks(self) -> list[str]:
        """Among one explorer there is no slowest."""
        return [name for name in SHARING[self.kind] if not name.endswith("slowest") or self.explorers > 1]

    @property
    def prioritized(self) -> bool:
        return self.kind in ("prioritized_crowd", "step")

    def has(self, record: Record) -> bool:
        mine = record.benchmark in SHARING[self.kind], self.workload, self.params
        return mine == (True, record.workload, record.params)


def declare_throughput(run: Run, peer: str, jobs: Sequence[Job]) -> list[Record]:
    """The cells of one peer."""
    return [
        run.cell(
            suite="throughput",
            benchmark=job.benchmark,
            peer=peer,
            workload=job.workload,
            params=job.params,
            unit=THROUGHPUT[job.benchmark],
            better="lower",
        )
        for job in jobs
    ]


def memory_units(benchmark: str, row_bytes: int) -> dict[str, str]:
    """The figures of one memory launch and their units: the benchmark's own, and those beside it."""
    units = {benchmark: "B/transition"}
    if benchmark == "plain":
        units |= dict.fromkeys(FILLED, "B/transition")
        if row_bytes >= PEAK_FROM_BYTES:
            units[PEAK] = "B/row drawn"
    if benchmark in LEAKS:
        units[LEAKS[benchmark]] = "B/round"
    return units


def declare_memory(run: Run, peer: str, workload: str, benchmark: str, capacity: int, row_bytes: int) -> list[Record]:
    """The cells of one memory launch."""
    units = memory_units(benchmark, row_bytes)
    return _declare(run, "memory", units, peer, workload, {"capacity": capacity}, better="lower")


def declare_apex(run: Run, peer: str, explorers: int, capacity: int) -> list[Record]:
    """The cells of one apex launch: one learner beside that many explorers."""
    return _declare(run, "apex", APEX, peer, APEX_WORKLOAD, {"explorers": explorers, "capacity": capacity})


def declare_startup(run: Run, peer: str, capacity: int) -> list[Record]:
    """The cells of one start-up launch."""
    return _declare(
        run, "startup", dict.fromkeys(STARTUP, "s"), peer, STARTUP_WORKLOAD, {"capacity": capacity}, better="lower"
    )


def declare_latency(run: Run, peer: str, params: dict[str, int]) -> list[Record]:
    """The cells of one latency launch."""
    return _declare(run, "latency", dict.fromkeys(LATENCY, "s/call"), peer, LATENCY_WORKLOAD, params, better="lower")


def declare_integrity(run: Run, peer: str, params: dict[str, int]) -> list[Record]:
    """The cells of one integrity launch."""
    return _declare(run, "integrity", INTEGRITY, peer, INTEGRITY_WORKLOAD, params)


def declare_conformance(run: Run, peer: str, params: dict[str, int]) -> list[Record]:
    """The cells of one conformance launch."""
    return _declare(run, "conformance", CONFORMANCE, peer, CONFORMANCE_WORKLOAD, params)


def _declare(
    run: Run,
    suite: str,
    units: dict[str, str],
    peer: str,
    workload: str,
    params: dict[str, int],
    better: Better = "higher",
) -> list[Record]:
    named = {"suite": suite, "peer": peer, "workload": workload, "params": params, "better": better}
    return [run.cell(benchmark=benchmark, unit=unit, **named) for benchmark, unit in units.items()]


def is_finding_about_another(record: Record) -> bool:
    """What went wrong with a buffer that isn't this project's own: a result of the run, and no failure of it."""
    return record.status in ("wrong", "failed") and not is_ours(record.peer)


def declare_sharing(run: Run, peer: str, jobs: Sequence[SharingJob]) -> list[Record]:
    """The cells of one peer's launch."""
    return [
        run.cell(
            suite="sharing",
            benchmark=benchmark,
            peer=peer,
            workload=job.workload,
            params=job.params,
            unit=SHARING[job.kind][benchmark][0],
            better=SHARING[job.kind][benchmark][1],
        )
        for job in jobs
        for benchmark in job.benchmarks
    ]


def node_id(record: Record, peer: str) -> str:
    """The pytest node that measures this cell with the registry's `peer`."""
    sizes, capacity = Task.of_record(record).sizes_text, record.params["capacity"]
    return f"suites/throughput/measure.py::test_{record.benchmark}[{sizes}-{record.workload}-{capacity}-{peer}]"


def failure(error: BaseException) -> tuple[Outcome, str]:
    """What an exception means for a cell, and its reason on one line."""
    said = str(error).replace(f"{CHECKOUT}/", "").encode("utf-8", "replace").decode()  # a lone surrogate can't be saved
    text = " | ".join(line.strip() for line in said.splitlines() if line.strip())
    if len(text) > REASON_CHARACTERS:  # some begin with what happened, others, after a long way there, end with it
        text = f"{text[: REASON_CHARACTERS // 2]} ... {text[-REASON_CHARACTERS // 2 :]}"
    if isinstance(error, Unavailable) or _is_declined(error):
        return "skipped", text
    if isinstance(error, WrongAnswer):
        return "wrong", text
    if isinstance(error, PeerTrouble):
        return "failed", text
    return "broken" if _is_the_harness(error) else "failed", f"{type(error).__name__}: {text}"


class PeerTrouble(Exception):  # noqa: N818 (says whose it is)
    """What a suite finds about a peer that raises nothing itself: one of its processes died, say."""


class Stuck(PeerTrouble, TimeoutError):  # noqa: N818 (a state of things rather than an error)
    """A call of the peer's did not return in time, or a process was never let in."""


def _is_the_harness(error: BaseException) -> bool:
    """Whether this project is to blame rather than the peer: the peer is not installed as pinned, or the error was
    raised by code of the suites themselves."""
    return isinstance(error, ImportError | NotInstalled) or _raised_in(error, HARNESS)


def _is_declined(error: BaseException) -> bool:
    """Whether an adapter said that this is not its peer's job. A library that has not implemented what it is asked for
    has failed, our own included."""
    return isinstance(error, NotImplementedError) and _raised_in(error, ADAPTERS)


def _raised_in(error: BaseException, rooms: Iterable[Path]) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    file = Path(frames[-1].filename) if frames else CHECKOUT
    return any(file.is_relative_to(room) for room in rooms)


def append_result(file: Path, result: Result) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(result)) + "\n")


def hand_back(results: Iterable[Result], file: Path | None) -> int:
    """Each result as soon as it is there: a line of `file`, or printed without one. The exit status."""
    if file:  # a launch: without its runner, nothing would end it or read its results
        exit_with_parent(os.getppid())
    spoiled = False
    for result in results:
        spoiled |= result.outcome not in ("ok", "skipped")
        if file:
            append_result(file, result)
        else:
            print(json.dumps(asdict(result)), flush=True)
    return int(spoiled)


def read_results(file: Path) -> Iterator[Result]:
    """Every whole line; the last one may have been cut off by a kill."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            yield Result(**json.loads(line))
        except json.JSONDecodeError:
            return
