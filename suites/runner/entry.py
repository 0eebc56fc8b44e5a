"""The shared `main` of all launches: parses the options, measures, and outputs the results."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from adapters.child_process import exit_with_parent
from suites.runner import heap, jobs
from suites.runner.results import Result, append_result, append_spent
from suites.runner.spent import SPENT
from suites.runner.timing import Stopwatch
from suites.runner.turns import Turns
from suites.suite import S, Suite, SuiteSettings


def main(
    suite: Suite,
    about: str,
    add_options: Callable[[argparse.ArgumentParser], None],
    measure: Callable[[argparse.Namespace], Iterable[Result]],
    peers: Sequence[str] | None = None,
    counts_time: bool = False,
) -> int:
    """Measure one peer; return the exit status. `about` is the module's docstring, `peers` the allowed names;
    `counts_time` says whether `SPENT` counts all filling, checking and measuring."""
    parser = argparse.ArgumentParser(prog=f"python -m suites.{suite.name}", description=about.partition("\n")[0])
    parser.add_argument("--peer", required=True, choices=peers or suite.peers(), metavar="NAME")
    add_options(parser)
    parser.add_argument("--cells", type=Path, help="append one JSON line per figure here instead of printing it")
    parser.add_argument(
        "--package-at", metavar="MODULE=DIR", help="refuse to measure unless MODULE is imported from within DIR"
    )
    args = parser.parse_args()
    if args.package_at:
        _check_package(parser, *args.package_at.split("=", 1))
    if args.cells:  # this is a launch: without its runner, nothing would end it or read its results
        exit_with_parent(os.getppid())
    heap.settle()
    return _output(measure(args), args.cells, counts_time)


def add_jobs(parser: argparse.ArgumentParser, kind: type, default: str = "") -> None:
    """Add the option of a suite whose launches measure jobs of this dataclass; without a default, it is required."""

    def parsed(line: str) -> object:
        try:
            return jobs.decoded(kind, line)
        except ValueError as error:  # argparse would not show its message
            raise argparse.ArgumentTypeError(str(error)) from None

    about = "as JSON; may be repeated" + (f"; default: {default}" if default else "")
    parser.add_argument(
        "--job", action="append", type=parsed, required=not default, metavar="JOB", dest="jobs", help=about
    )


def add_seconds(parser: argparse.ArgumentParser, default: float = 1.0) -> None:
    parser.add_argument("--seconds", type=float, default=default, help="of each timed window; default: %(default)s")


def add_turns(parser: argparse.ArgumentParser) -> None:
    """Add the options of a suite whose figures can be timed in turns with another process, which the gate does."""
    parser.add_argument(
        "--turns", type=int, metavar="FD", help="take turns with the process at the other end of this socket"
    )
    parser.add_argument("--begins", action="store_true", help="with --turns: take the first turn")


def stopwatch(args: argparse.Namespace) -> Stopwatch:
    """Return the stopwatch that the options of `add_turns` and the option `seconds` ask for."""
    if args.turns is None:
        return Stopwatch(args.seconds)
    return Turns(socket.socket(fileno=args.turns), args.begins)


def add_settings(settings: SuiteSettings, parser: argparse.ArgumentParser) -> None:
    """Add an option for each of the suite's own settings."""
    for name, value in settings.options().items():
        parser.add_argument(f"--{name}", type=type(value), default=value, help="default: %(default)s")


def settings_of(kind: type[S], args: argparse.Namespace) -> S:
    """Return the settings from the options that `add_settings` added."""
    return kind(**{name: getattr(args, name) for name in kind().options()})


def _check_package(parser: argparse.ArgumentParser, module: str, folder: str) -> None:
    spec = importlib.util.find_spec(module)  # not imported, since the start-up suite times the import
    found = spec.origin if spec else None
    if not found or not Path(found).resolve().is_relative_to(Path(folder).resolve()):
        parser.error(f"{module} would be imported from {found}, not from {folder}")


def _output(results: Iterable[Result], file: Path | None, counts_time: bool) -> int:
    """Append each result to `file` as soon as it arrives, or print it if `file` is None. Returns the exit status."""
    spoiled = False
    for result in results:
        spoiled |= result.outcome not in ("ok", "skipped")
        if file:
            append_result(file, result)
        else:
            print(json.dumps(asdict(result)), flush=True)
    if file and counts_time:
        append_spent(file, SPENT.seconds)
    return int(spoiled)
