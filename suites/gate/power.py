"""Measures how often the gate raises a false alarm, and which slow-downs it detects: `make gate-power`.

    python -m suites.gate.power [--folder DIR] [--only NAME,...] [--pairs 60] [--gates 30] [--slowed 5]

Builds the working tree twice, with CMake's option SLOWED, and writes these records into DIR:

pool.json           pairs of equal builds, from which `reports.gate.power` draws gates again and again
equal-1.json ...    gates of equal builds
slowed-20-1.json    gates in which head's add, sample and update take 20% longer. At 50%, gates measure everything
                    that is timed; at other levels, only what is timed in one process, since changes in fleets matter
                    only from 25%.
work-1.json         gates of work counts, in which each of these calls executes some more instructions
neighbour-...       the same while another process uses one core all the time; neighbours-...: two other processes
noise-....json      pools of what is timed in one process, measured together, each without one of the rules against
                    noise

Existing records are not measured again, so an interrupted study continues. The whole study takes about five hours on
two cores.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from results.analysis.studies import COUNTED, LEVELS, NEIGHBOUR, POWER, WAYS
from results.analysis.verdict import HarnessError, Status
from results.record import load
from suites.gate.builds import Side
from suites.gate.launches import Pair
from suites.gate.measure import Gate, only_one
from suites.gate.sources import WORKING_TREE, Checkout
from suites.runner.driver import Interrupt

MINUTES = 10.0  # per gate, the default
SLOWED_CALLS = ("add", "sample", "update")
LOOPS = 100  # about 5% of the instructions of adding a row of CartPole
SLOWS_FLEETS = 50  # percent: the smallest level that is also measured where processes compete
ROUNDS = 5  # each has gates of every kind, so that a study that ends early has some of each kind
BUSY = "import numpy as np; a = np.ones(4_000_000)\nwhile True: a *= 1.0000001"


@dataclass(frozen=True)
class Study:
    """A record to be measured."""

    name: str
    pairs: int = 0  # per benchmark; 0: a gate
    level: int = 0  # percent by which head's calls are slowed
    loops: int = 0  # turns of an empty loop in each of head's calls
    beside: int = 0  # processes that use one core each
    way: str = ""  # how the pairs are measured: shows how much each rule against noise gains

    def gate(self, base: Side, head: Side) -> Gate:
        """Return the gate of these builds that measures this record."""
        without = (f"REPLAYBENCH_WITHOUT={self.way}",)  # read by suites.runner.turns
        sides = [replace(base, variables=without), replace(head, variables=(*without, self.slowed))]
        if self.way == "orders":
            sides = [replace(side, order=seed) for seed, side in enumerate(sides)]  # base's and head's differ
        gate = Gate(sides, MINUTES, command=f"python -m suites.gate.power --only {self.name}")
        gate.keep([pair for pair in gate.pairs if self.measures(pair)])
        if self.way == "turns":
            gate.pairs = [replace(pair, launch=replace(pair.launch, turns=False)) for pair in gate.pairs]
        return gate

    def measures(self, pair: Pair) -> bool:
        if self.loops:
            return pair.suite == "counts"
        if self.way or (self.level and self.level < SLOWS_FLEETS):
            return pair.launch.turns
        return not (self.level or self.pairs) or not pair.is_counted

    @property
    def slowed(self) -> str:
        """Return the variable that slows head's calls: see cpprb_impl/bindings/slowed.hpp."""
        amounts = {**dict.fromkeys(SLOWED_CALLS, self.level / 100), "loops": self.loops}
        return "RB_SLOWED=" + ",".join(f"{name}={amount:g}" for name, amount in amounts.items())


def studies(pairs: int, gates: int, slowed: int) -> Iterator[list[Study]]:
    """Yield all studies, in lists of studies that are measured together."""
    yield [Study("pool", pairs=pairs)]
    yield [Study(f"{NEIGHBOUR}-pool", pairs=pairs // 2, beside=1)]
    for beside in (0, 1, 2):
        ways = [way for way in WAYS if way.beside == beside]
        yield [Study(way.record, pairs=pairs // 2, beside=beside, way=way.name) for way in ways]
    for part in range(ROUNDS):
        for number in range(part, gates, ROUNDS):
            yield [Study(f"equal-{number + 1}")]
        for number in range(part, slowed, ROUNDS):
            yield [Study(f"{COUNTED}-{number + 1}", loops=LOOPS)]
            for level in LEVELS:
                yield [Study(f"slowed-{level}-{number + 1}", level=level)]
        for number in range(part, gates // 3, ROUNDS):
            yield [Study(f"{NEIGHBOUR}-equal-{number + 1}", beside=1)]


def measure(folder: Path, wanted: Sequence[Sequence[Study]]) -> None:
    """Measure these groups of studies. The studies of a group take turns after each launch, since a machine's noise
    changes over time.
    """
    base, head = (Side(name, Checkout(WORKING_TREE), options=("SLOWED=ON",)) for name in ("base", "head"))
    folder.mkdir(parents=True, exist_ok=True)
    with only_one(), Interrupt() as interrupt:
        Gate([base, head], MINUTES).build(interrupt)
        for group in wanted:
            outs = [folder / f"{study.name}.json" for study in group]
            if all(out.exists() and load(out).is_whole for out in outs):
                continue
            print(f"== {', '.join(study.name for study in group)}", flush=True)
            with neighbours(group[0].beside):
                running = [
                    study.gate(base, head).launches(out, interrupt, study.pairs)
                    for study, out in zip(group, outs, strict=True)
                ]
                deque(zip_longest(*running), maxlen=0)
            interrupt.check()


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Run this many processes, each using one core."""
    with ExitStack() as running:
        for _ in range(count):
            process = running.enter_context(subprocess.Popen([sys.executable, "-c", BUSY]))
            running.callback(process.kill)
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.gate.power", description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=POWER)
    parser.add_argument("--only", default="", metavar="NAME,...", help="only records whose names begin with NAME")
    parser.add_argument("--pairs", type=int, default=60, help="pairs in the pool (default: %(default)s)")
    parser.add_argument("--gates", type=int, default=30, help="gates of equal builds (default: %(default)s)")
    parser.add_argument("--slowed", type=int, default=5, help="gates per level (default: %(default)s)")
    args = parser.parse_args(arguments)
    begins = tuple(args.only.split(","))
    every = studies(args.pairs, args.gates, args.slowed)
    wanted = [group for group in every if any(study.name.startswith(begins) for study in group)]
    if not wanted:
        parser.error(f"no record has a name that begins with {args.only}")
    try:
        measure(args.folder, wanted)
    except HarnessError as error:
        print(f"gate-power: {error}", file=sys.stderr)
        return Status.HARNESS_ERROR
    except KeyboardInterrupt:
        print("gate-power: interrupted; the next call continues", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
