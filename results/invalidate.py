"""Withdraw records that turned out to be wrong.

python -m results.invalidate RUN.json --suite memory [--benchmark B] [--peer P] [--workload W] --reason "..."

The records stay in the file with their samples, with the status "invalidated", the reason and this checkout's revision.
No report takes a figure from them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from results.machine import revision
from results.record import Record, Run, load, save
from results.validation import BadRecord

FIELDS = ("suite", "benchmark", "peer", "workload")


def withdraw(run: Run, reason: str, at: str, **wanted: str | None) -> list[Record]:
    """Invalidate the records whose fields match `wanted` (None: any), and return them. Skip invalidated ones."""
    asked = {name: value for name, value in wanted.items() if value is not None}
    found = [
        record
        for record in run.records
        if record.status != "invalidated" and all(getattr(record, name) == value for name, value in asked.items())
    ]
    if not found:
        raise BadRecord(
            f"no record to withdraw matches {', '.join(f'{name} {value!r}' for name, value in asked.items())}"
        )
    for record in found:
        record.status, record.reason, record.invalidated_at = "invalidated", reason, at
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m results.invalidate", description="Withdraw wrong records.")
    parser.add_argument("run", help="a run file, which is rewritten in place")
    for name in FIELDS:
        parser.add_argument(f"--{name}", required=name == "suite", help=f"only records of this {name}")
    parser.add_argument("--reason", required=True, help="what is wrong with them")
    options = parser.parse_args(arguments)
    if not options.reason.strip():
        parser.error("--reason must say what is wrong with the records, got an empty text")
    try:
        run = load(options.run)
        found = withdraw(run, options.reason.strip(), revision(), **{name: getattr(options, name) for name in FIELDS})
        save(options.run, run)
    except BadRecord as error:
        print(f"nothing was withdrawn: {error}", file=sys.stderr)
        return 1
    for record in found:
        print(f"withdrawn: {record.label}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
