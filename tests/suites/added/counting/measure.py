"""Count how many of the added rows a buffer contains.  python -m suites.counting.measure --peer NAME [--rows N]"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from adapters import registry
from adapters.base import Spec
from suites import workloads
from suites.runner import entry
from suites.runner.results import Result, failure

from .spec import SUITE, WORKLOAD


def measure(args: argparse.Namespace) -> Iterator[Result]:
    result = Result("stored", args.peer, WORKLOAD, {"rows": args.rows}, "ok")
    recording = workloads.load(WORKLOAD)
    try:
        with closing(registry.adapter_class(args.peer).make(Spec(args.rows, recording.fields))) as adapter:
            adapter.add_batch({name: column[: args.rows] for name, column in recording.columns.items()})
            yield replace(result, value=len(adapter))
    except Exception as error:
        outcome, reason = failure(error)
        yield replace(result, outcome=outcome, reason=reason)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=100, help="default: %(default)s")


if __name__ == "__main__":
    sys.exit(entry.main(SUITE, __doc__, options, measure))
