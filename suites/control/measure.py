"""The control: measures the throughput of one side, in a launch like any other.

    python -m suites.control --peer NAME --side first|second [--job JOB ...] [--seconds S]

`suites/control/spec.py` explains its purpose.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace

from suites.control.spec import PROFILES, SIDES, SUITE
from suites.runner import entry
from suites.runner.results import Result
from suites.runner.timing import Stopwatch
from suites.throughput import measure as throughput
from suites.throughput.tasks import ThroughputJob


def options(parser: argparse.ArgumentParser) -> None:
    entry.add_jobs(parser, ThroughputJob, "those of the profile quick")
    entry.add_seconds(parser)
    parser.add_argument("--side", choices=SIDES, required=True)


def measure(args: argparse.Namespace) -> Iterator[Result]:
    jobs = args.jobs or PROFILES["quick"].jobs
    for result in throughput.measure(args.peer, jobs, Stopwatch(args.seconds)):
        yield replace(result, params={**result.params, "side": args.side})


def main() -> int:
    return entry.main(SUITE, __doc__, options, measure, counts_time=True)


if __name__ == "__main__":
    sys.exit(main())
