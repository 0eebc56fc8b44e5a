"""The gate's measurement: the native package at a base revision against the working tree, or another revision.

    python -m suites.gate --base REV [--head REV] [--minutes 10] [--only BENCHMARK] [--out FILE]

Builds each into its own environment under .gate/, and launches what the suites' profile "gate" measures on both, again
and again, until the verdict on each benchmark is known or the time is over. Benchmarks that are decided are not
measured again. Writes a run file with the peers "base" and "head", which `reports.gate` judges in the same way.

Exit status: 0 measured, 3 harness error (nothing to judge), 130 interrupted.
"""

from __future__ import annotations

import argparse
import difflib
import fcntl
import itertools
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

from adapters import registry
from reports.gate.verdict import HarnessError, Verdict, judge
from results import files, machine
from results.record import Record, Run, save
from suites import workloads
from suites.gate.builds import FOLDER, PACKAGE, WORKING_TREE, Side
from suites.gate.launches import PROFILE, Pair, declare, record_key
from suites.runner.command_line import minutes, names
from suites.runner.driver import Interrupt

HARNESS_ERROR = 3
PEERS = ["cpprb_impl[lock=none]", PACKAGE]


class Progress:
    """Shows what is running, and how much is decided: a bar on a terminal, otherwise a line per launch."""

    def __init__(self, benchmarks: int, deadline: float) -> None:
        self.benchmarks, self.deadline = benchmarks, deadline
        self.terminal = sys.stderr.isatty()
        self.bar = tqdm(
            total=benchmarks,
            disable=not self.terminal,
            bar_format="{n_fmt}/{total_fmt} decided|{bar:20}| {elapsed} {desc}",
            dynamic_ncols=True,
        )

    def begin(self, block: int, pair: Pair) -> None:
        left = max(0.0, self.deadline - time.monotonic())
        self.said = f"pair {block + 1} of {pair.name}, at most {left / 60:.1f} min left"
        self.bar.set_description_str(self.said)

    def end(self, open_benchmarks: int) -> None:
        decided = self.benchmarks - open_benchmarks
        self.bar.n = decided
        self.bar.refresh()
        if not self.terminal:
            print(f"{decided} of {self.benchmarks} decided: {self.said}", flush=True)


@contextmanager
def only_one() -> Iterator[None]:
    """Hold the checkout's lock: two gates would overwrite each other's builds."""
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HarnessError("another gate is running in this checkout") from None
        yield


def measure(args: argparse.Namespace) -> int:
    sides = [Side.parse("base", args.base), Side.parse("head", args.head)]
    run = empty_run(sides, args.minutes)
    out: Path = args.out or files.new_path(run)
    with only_one(), Interrupt() as interrupt:
        pairs = declare(run, sides, args.peers)
        for name in dict.fromkeys(record.workload for record in run.records):
            run.add_workload(**workloads.load(name).describe())
        if args.only:
            pairs = restrict(run, pairs, args.only)
        for side in sides:
            side.build(interrupt)
            interrupt.check()
        save(out, run)
        try:
            measure_until_decided(run, pairs, out, time.monotonic() + 60 * args.minutes, interrupt)
        finally:
            run.finish(interrupted=interrupt.seen)
            save(out, run)
    if args.only:
        for pair in pairs:
            print(f"to profile it: perf record --call-graph=dwarf -- {shlex.join(pair.by_hand(sides[1]))}")
    print(f"saved in {out}")
    return 0


def restrict(run: Run, pairs: Sequence[Pair], label: str) -> list[Pair]:
    """Keep only the benchmark with this label, as the verdict's table shows it."""
    known = {verdict.job.full_label: record_key(_any_record(verdict)) for verdict in judge(run)}
    if label not in known:
        near = "; ".join(difflib.get_close_matches(label, known, 3)) or "; ".join(known)
        raise HarnessError(f"there is no benchmark {label!r}; there are: {near}")
    run.records = [record for record in run.records if record_key(record) == known[label]]
    run.declared = len(run.records)
    kept = [
        replace(
            pair,
            sides={side: [each for each in records if each in run.records] for side, records in pair.sides.items()},
        )
        for pair in pairs
    ]
    return [pair for pair in kept if any(pair.sides.values())]


def empty_run(sides: Sequence[Side], limit: float) -> Run:
    command = shlex.join(["python", "-m", "suites.gate", *sys.argv[1:]])
    run = Run("gate", PROFILE, sides[1].version, command, machine.describe(), minutes=limit)
    about = registry.describe(PACKAGE)
    for side in sides:
        run.add_peer(**asdict(replace(about, name=side.name, version=side.version)))
    return run


def measure_until_decided(run: Run, pairs: Sequence[Pair], out: Path, deadline: float, interrupt: Interrupt) -> None:
    undecided = open_benchmarks(run)
    progress = Progress(len({record_key(record) for record in run.records}), deadline)
    with tempfile.TemporaryDirectory() as folder:
        for block in itertools.count():
            for pair in pairs:
                if not undecided or time.monotonic() >= deadline:
                    progress.bar.close()
                    return
                progress.begin(block, pair)
                is_open = lambda record: record_key(record) in undecided  # noqa: B023, E731 (called at once)
                if pair.measure(is_open, block, Path(folder), interrupt.check):
                    save(out, run)
                    undecided = open_benchmarks(run)
                    progress.end(len(undecided))


def open_benchmarks(run: Run) -> set[tuple[object, ...]]:
    return {record_key(_any_record(verdict)) for verdict in judge(run) if verdict.is_open}


def _any_record(verdict: Verdict) -> Record:
    return next(iter(verdict.job.cells.values()))


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise HarnessError(message)  # argparse would exit with 2, which is the verdict "can't tell"


def main() -> int:
    parser = Parser(prog="python -m suites.gate", description=__doc__.partition("\n")[0])
    parser.add_argument("--base", required=True, metavar="REV", help="the revision to compare with")
    parser.add_argument("--head", default=WORKING_TREE, metavar="REV", help="default: the working tree as it is")
    parser.add_argument("--minutes", type=minutes, default=10.0, help="at most; builds not counted (default: 10)")
    parser.add_argument("--only", metavar="BENCHMARK", help="measure this one only, as the verdict's table names it")
    parser.add_argument("--peers", type=names("peer", registry.every()), default=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: a dated file in results/runs/")
    try:
        return measure(parser.parse_args())
    except HarnessError as error:
        print(f"gate: {error}", file=sys.stderr)
        return HARNESS_ERROR
    except KeyboardInterrupt:
        print("gate: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
