"""Checks that the newest bench answers a newcomer's question:  python -m tests.newcomer.checked [NAMED PEERS ...]

Each buffer that can hold the rows must have a figure for each timed call that it supports.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import median

from results import Run, latest, load

#: A figure is missing, and the buffer is not the reason.
LACKING = ("left_out", "broken", "interrupted")


def missing(run: Run, named: Sequence[str] = ()) -> list[str]:
    """Return what is missing, one line each, only of the named peers if there are any."""
    calls = [record for record in run.records if record.suite == "throughput"]
    lines = [
        f"{record.label}: {record.status}: {record.reason}"
        for record in calls
        if record.status in LACKING and (not named or record.peer in named)
    ]
    if not any(record.ok for record in calls):
        lines.append("no call has a figure")
    return lines


def main(named: Sequence[str]) -> int:
    newest = latest()
    if newest is None:
        print("there is no run")
        return 1
    run = load(newest)
    lines = missing(run, named)
    print("\n".join(lines) or f"{newest.name} answers the question")
    shares = [spent.other_share for spent in run.spent]
    print(f"time of launches outside fill, check and measure: {median(shares):.0%} (median of {len(shares)})")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
