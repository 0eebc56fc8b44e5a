"""The gate's measurement: the native package at a base revision against the working tree, or another revision.

    python -m suites.gate --base REV [--head REV] [--minutes 10] [--only BENCHMARK] [--out FILE]
                          [--adapter FILE [--project DIR]]

REV is a revision, a wheel's path, or a release such as name==1.0. With --adapter, the buffer is another project's
and is used through the adapter in FILE; revisions are then those of the project's checkout DIR.

Builds each into its own venv under .gate/, and repeats the launches of the suites' profile "gate" on both until the
verdict on each benchmark is known or time runs out. Benchmarks that are decided are not measured again. Writes a run
file with the peers "base" and "head", which `reports.gate` judges in the same way.

Exit status: 0 if the builds were measured or are identical, 3 after a harness error (nothing to judge), 130 if
interrupted. Identical builds are not measured: instead of a run file, the verdict is written as Markdown.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from adapters import external, registry
from results import files
from results.analysis.verdict import HarnessError
from suites.gate import sources
from suites.gate.builds import Side, identical
from suites.gate.measure import PEERS, Gate, only_one
from suites.runner.command_line import minutes, names
from suites.runner.driver import Interrupt

HARNESS_ERROR = 3
IDENTICAL = "PASS: what is installed is identical, so nothing was measured"


def measure(args: argparse.Namespace) -> int:
    peers, project, options = args.peers, sources.CHECKOUT, {}
    if args.adapter:
        mine = external.use(args.adapter)
        peers = (mine.name,)
        options = {"venv": mine.venv, "variables": (f"{external.VARIABLE}={args.adapter.resolve()}",)}
    if args.project:
        project = project_at(args.project, args.adapter)
    named = {"base": sources.parse(args.base, project), "head": sources.parse(args.head, project)}
    if args.adapter and any(source.is_ours for source in named.values()):
        raise HarnessError("with --adapter, also give --project, or a wheel or a release as base and as head")
    sides = [Side(name, source, **options) for name, source in named.items()]
    with only_one(), Interrupt() as interrupt:
        gate = Gate(sides, args.minutes, peers, args.only)
        out: Path = args.out or files.new_path(gate.run)
        gate.build(interrupt)
        if identical(sides):
            out.parent.mkdir(parents=True, exist_ok=True)
            out.with_suffix(".md").write_text(f"**{IDENTICAL}**\n", encoding="utf-8")
            print(IDENTICAL)
            return 0
        gate.measure(out, interrupt)
    if args.only:
        for pair in gate.pairs:
            print(f"to profile it: perf record --call-graph=dwarf -- {shlex.join(pair.by_hand(sides[1]))}")
    print(f"saved in {out}")
    return 0


def project_at(folder: Path, adapter: Path | None) -> Path:
    if not adapter:
        raise HarnessError("--project needs --adapter: the file that shows how to use the project's buffer")
    top = folder.resolve()
    if not (top / ".git").exists():
        raise HarnessError(f"{folder} is not the top folder of a git checkout")
    return top


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise HarnessError(message)  # argparse would exit with 2, which is the verdict "can't tell"


def make_parser() -> Parser:
    parser = Parser(prog="python -m suites.gate", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--base", required=True, metavar="REV", help="what to compare with: a revision, a wheel or NAME==VERSION"
    )
    parser.add_argument(
        "--head", default=sources.WORKING_TREE, metavar="REV", help="default: the working tree as it is"
    )
    parser.add_argument("--minutes", type=minutes, default=10.0, help="at most, without the builds (default: 10)")
    parser.add_argument(
        "--only", default="", metavar="BENCHMARK", help="measure only this benchmark, named as in the verdict's table"
    )
    about = "another project's adapter: a Python file (docs/gate-elsewhere.md)"
    parser.add_argument("--adapter", type=Path, metavar="FILE", help=about)
    parser.add_argument("--project", type=Path, metavar="DIR", help="with --adapter: the checkout of that project")
    parser.add_argument("--peers", type=names("peer", registry.every()), default=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: a dated file in results/runs/")
    return parser


def main() -> int:
    try:
        return measure(make_parser().parse_args())
    except (HarnessError, external.BadAdapter) as error:
        print(f"gate: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("gate: interrupted", file=sys.stderr)
        return 130
    except OSError as error:  # a full disk, for instance
        print(f"gate: cannot continue: {error}", file=sys.stderr)
    except Exception:  # Python would exit with 1, which means "regression"
        traceback.print_exc()
    return HARNESS_ERROR


if __name__ == "__main__":
    sys.exit(main())
