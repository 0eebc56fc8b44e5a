"""A gate: two builds, measured as pairs until the verdict on each benchmark is known."""

from __future__ import annotations

import difflib
import fcntl
import itertools
import shlex
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from tqdm import tqdm

from adapters import registry
from adapters.base import PeerInfo
from results import machine
from results.analysis.verdict import HarnessError, Verdict, judge
from results.record import Record, Run, save
from suites import workloads
from suites.gate import sources
from suites.gate.builds import Side
from suites.gate.launches import PROFILE, Pair, declare, record_key
from suites.gate.room import check_room
from suites.runner.driver import Interrupt

#: Each suite measures the first of these that it supports.
PEERS = ("cpprb_impl[lock=none]", "cpprb_impl[sequences]", "cpprb_impl")


class GateProgress:
    """Shows what is running and how much is done: as a bar on a terminal, otherwise as one line per launch."""

    def __init__(self, total: int, done: str, deadline: float | None) -> None:
        self.total, self.done, self.deadline = total, done, deadline
        self.terminal = sys.stderr.isatty()
        self.bar = tqdm(
            total=total,
            disable=not self.terminal,
            bar_format=f"{{n_fmt}}/{{total_fmt}} {done}|{{bar:20}}| {{elapsed}} {{desc}}",
            dynamic_ncols=True,
        )

    def begin(self, block: int, pair: Pair) -> None:
        self.said = f"pair {block + 1} of {pair.name}"
        if self.deadline is not None:
            self.said += f", at most {max(0.0, self.deadline - time.monotonic()) / 60:.1f} min left"
        self.bar.set_description_str(self.said)

    def end(self, count: int) -> None:
        self.bar.n = count
        self.bar.refresh()
        if not self.terminal:
            print(f"{count} of {self.total} {self.done}: {self.said}", flush=True)


@contextmanager
def only_one() -> Iterator[None]:
    """Hold the checkout's lock: two gates would overwrite each other's builds."""
    sources.FOLDER.mkdir(exist_ok=True)
    with open(sources.FOLDER / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HarnessError("another gate is running in this checkout") from None
        yield


class Gate:
    """Two builds and the pairs that are measured on them. `run` is the record, which is saved after each pair."""

    def __init__(
        self,
        sides: Sequence[Side],
        minutes: float | None,
        peers: Sequence[str] = PEERS,
        only: str = "",
        command: str = "",
    ) -> None:
        self.sides = sides
        command = command or shlex.join(["python", "-m", "suites.gate", *sys.argv[1:]])
        self.run = empty_run(sides, minutes, registry.describe(peers[-1]), command)
        self.pairs = declare(self.run, sides, peers)
        for name in dict.fromkeys(record.workload for record in self.run.records):
            self.run.add_workload(**workloads.load(name).describe())
        if only:
            self.keep(restrict(self.run, self.pairs, only))

    def keep(self, pairs: Sequence[Pair]) -> None:
        """Keep only these pairs and their records."""
        keys = set().union(*(pair.keys for pair in pairs))
        self.pairs = list(pairs)
        self.run.records = [record for record in self.run.records if record_key(record) in keys]
        self.run.declared = len(self.run.records)

    def build(self, interrupt: Interrupt) -> None:
        check_room()
        for side in self.sides:
            side.build(interrupt)
            interrupt.check()
        if len(packages := {side.package for side in self.sides}) > 1:
            raise HarnessError(f"base and head contain different packages: {', '.join(sorted(packages))}")

    def measure(self, out: Path, interrupt: Interrupt, pool: int = 0) -> None:
        """Measure until each benchmark is decided or time runs out, or measure `pool` pairs of each benchmark."""
        for _ in self.launches(out, interrupt, pool):
            pass

    def launches(self, out: Path, interrupt: Interrupt, pool: int = 0) -> Iterator[None]:
        """Measure as `measure` does, but yield after each launch, so that the gates of a study can take turns."""
        save(out, self.run)
        whole = False
        try:
            for undecided in self._pairs(interrupt, pool):
                save(out, self.run)
                if not undecided:
                    break
                yield
            whole = not interrupt.seen
        finally:
            self.run.finish(interrupted=not whole)
            save(out, self.run)

    def _pairs(self, interrupt: Interrupt, pool: int) -> Iterator[int]:
        """Measure one pair after the other, and yield the number of undecided benchmarks after each pair."""
        deadline = None if pool else time.monotonic() + 60 * float(self.run.minutes or 0)
        everything = set().union(*(pair.keys for pair in self.pairs))
        wanted = everything if pool else open_benchmarks(self.run) & everything
        if not wanted:
            raise HarnessError("base and head support none of the benchmarks to be measured")

        def tick() -> None:
            interrupt.check()
            check_room()

        total, done = (pool * len(self.pairs), "launched") if pool else (len(everything), "decided")
        progress = GateProgress(total, done, deadline)
        with tempfile.TemporaryDirectory() as folder, progress.bar:
            for block in range(pool) if pool else itertools.count():
                for number, pair in enumerate(self.pairs, block * len(self.pairs) + 1):
                    if deadline is not None and time.monotonic() >= deadline:
                        return
                    progress.begin(block, pair)
                    if pair.measure(wanted, block, Path(folder), tick):
                        wanted = everything if pool else open_benchmarks(self.run) & everything
                        progress.end(number if pool else len(everything) - len(wanted))
                        lost = not pool and any(verdict.is_lost for verdict in judge(self.run))
                        yield 0 if lost else len(wanted)  # a wrong answer needs no further pair


def restrict(run: Run, pairs: Sequence[Pair], label: str) -> list[Pair]:
    """Return pairs with only the benchmark that has this label in the verdict's table."""
    known = {verdict.job.full_label: record_key(_any_record(verdict)) for verdict in judge(run)}
    if label not in known:
        near = "; ".join(_near(label, known)) or "; ".join(known)
        raise HarnessError(f"there is no benchmark {label!r}; choose from: {near}")
    kept = [
        replace(
            pair,
            sides={
                side: [each for each in records if record_key(each) == known[label]]
                for side, records in pair.sides.items()
            },
        )
        for pair in pairs
    ]
    return [pair for pair in kept if any(pair.sides.values())]


def _near(label: str, known: Collection[str]) -> list[str]:
    """Return the labels that were most likely meant: those that contain or resemble this one."""
    return [each for each in known if label.lower() in each.lower()] or difflib.get_close_matches(label, known, 3, 0.4)


def empty_run(sides: Sequence[Side], limit: float | None, about: PeerInfo, command: str) -> Run:
    source = sides[1].source
    revision = source.version if source.is_ours else machine.revision(sources.CHECKOUT)
    run = Run("gate", PROFILE, revision, command, machine.describe(), minutes=limit)
    for side in sides:
        run.add_peer(**asdict(replace(about, name=side.name, version=side.version, reason=None)))
    return run


def open_benchmarks(run: Run) -> set[tuple[object, ...]]:
    return {record_key(_any_record(verdict)) for verdict in judge(run) if verdict.is_open}


def _any_record(verdict: Verdict) -> Record:
    return next(iter(verdict.job.cells.values()))
