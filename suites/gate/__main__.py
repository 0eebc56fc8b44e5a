"""The gate's measurement: the native package at a base revision against the working tree, or another revision.

    python -m suites.gate --base REV [--head REV] [--minutes 10] [--only BENCHMARK] [--out FILE]

Builds each into its own environment under .gate/, and launches what the suites' profile "gate" measures on both, again
and again, until the verdict on each benchmark is known or the time is over. Benchmarks that are decided are not
measured again. Writes a run file with the peers "base" and "head", which `reports.gate` judges in the same way.

Exit status: 0 measured, 3 harness error (nothing to judge), 130 interrupted.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import NoReturn

from adapters import registry
from reports.gate.verdict import HarnessError
from results import files
from suites.gate.builds import WORKING_TREE, Side
from suites.gate.measure import PEERS, Gate, only_one
from suites.runner.command_line import minutes, names
from suites.runner.driver import Interrupt

HARNESS_ERROR = 3


def measure(args: argparse.Namespace) -> int:
    sides = [Side.parse("base", args.base), Side.parse("head", args.head)]
    with only_one(), Interrupt() as interrupt:
        gate = Gate(sides, args.minutes, args.peers, args.only)
        out: Path = args.out or files.new_path(gate.run)
        gate.build(interrupt)
        gate.measure(out, interrupt)
    if args.only:
        for pair in gate.pairs:
            print(f"to profile it: perf record --call-graph=dwarf -- {shlex.join(pair.by_hand(sides[1]))}")
    print(f"saved in {out}")
    return 0


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise HarnessError(message)  # argparse would exit with 2, which is the verdict "can't tell"


def main() -> int:
    parser = Parser(prog="python -m suites.gate", description=__doc__.partition("\n")[0])
    parser.add_argument("--base", required=True, metavar="REV", help="the revision to compare with")
    parser.add_argument("--head", default=WORKING_TREE, metavar="REV", help="default: the working tree as it is")
    parser.add_argument("--minutes", type=minutes, default=10.0, help="at most; builds not counted (default: 10)")
    parser.add_argument(
        "--only", default="", metavar="BENCHMARK", help="measure this one only, as the verdict's table names it"
    )
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
