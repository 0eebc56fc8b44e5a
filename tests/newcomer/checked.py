"""Check the newest bench:  python -m tests.newcomer.checked [NAMED PEERS ...]

No throughput cell may be left out, broken or interrupted, at least one must have a figure, and the launches together
must spend at most half of their time outside filling, checking and measuring. Failed and wrong cells are allowed: they
are findings. How many calls have a verdict is printed: two buffers that are equal need more launches than a busy
machine makes in two minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from reports.figures.ranking import answers_of
from reports.sections import context_of
from results import RUNS, Run, latest, load

#: Status of a cell whose figure is missing for a reason other than the buffer.
LACKING = ("left_out", "broken", "interrupted")
MOST_OTHER_SHARE = 1 / 2


def missing(run: Run, named: Sequence[str] = ()) -> list[str]:
    """Return a line for each missing figure, of only the named peers if there are any."""
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
    """Return how many timed calls have a verdict (clear, likely, or within 10%), and how many there are."""
    jobs = context_of(run).ranking.get("throughput", [])
    answers = [each for each in answers_of(run, jobs, None) if each.runner_up]
    return sum(each.clear or each.likely or each.is_equal for each in answers), len(answers)


def main(named: Sequence[str]) -> int:
    newest = latest(folders=(RUNS,))  # ignores committed runs
    if newest is None:
        print(f"there is no run in {RUNS}")
        return 1
    run = load(newest)
    lines, (decided, asked) = missing(run, named), verdicts(run)
    if not run.spent:
        print(f"{newest.name}: no launch reported how it spent its time")
        return 1
    seconds = sum(each.seconds for each in run.spent)
    # For all launches together, since a launch that repeats only open cells is short, and half of it is start-up.
    share = sum(each.other_share * each.seconds for each in run.spent) / seconds
    print("\n".join(lines) or f"{newest.name} has all figures")
    print(f"verdicts on the fastest: {decided} of {asked}")
    print(f"time of launches outside fill, check and measure: {share:.0%} of {seconds:.0f} s")
    return int(bool(lines) or share > MOST_OTHER_SHARE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
