"""Checks that the newest bench answers a newcomer's question:  python -m tests.newcomer.checked [NAMED PEERS ...]

Each buffer that can hold the rows must have a figure for each timed call that it supports, and launches must spend two
thirds of their time on filling, checking and measuring. How many calls have a verdict is printed: two buffers that are
equal need more launches than a busy machine makes in two minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import median

from reports.figures.ranking import answers_of
from reports.sections import context_of
from results import Run, latest, load

#: A figure is missing, and the buffer is not the reason.
LACKING = ("left_out", "broken", "interrupted")
STARTING = 1 / 3


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


def verdicts(run: Run) -> tuple[int, int]:
    """Return for how many timed calls the fastest is known, or known to be within 10% of the next; and of how many."""
    jobs = context_of(run).ranking.get("throughput", [])
    answers = [each for each in answers_of(run, jobs, None) if each.runner_up]
    return sum(each.clear or each.likely or each.is_equal for each in answers), len(answers)


def main(named: Sequence[str]) -> int:
    newest = latest()
    if newest is None:
        print("there is no run")
        return 1
    run = load(newest)
    lines, (decided, asked) = missing(run, named), verdicts(run)
    share = median(spent.other_share for spent in run.spent)
    print("\n".join(lines) or f"{newest.name} has all figures")
    print(f"verdicts on the fastest: {decided} of {asked}")
    print(f"time of launches outside fill, check and measure: {share:.0%} (median of {len(run.spent)})")
    return int(bool(lines) or share > STARTING)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
