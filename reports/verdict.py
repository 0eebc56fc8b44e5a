"""The gate's verdict: is "head" slower than "base"?  python -m reports.verdict RUN.json

A benchmark is a regression if head is slower by at least the minimal effect *and* the difference is significant in a
one-sided sign-flip test on within-block log ratios, Holm-corrected over the benchmarks. An unchanged tree is therefore
called a regression at most once in 1/alpha runs, however many benchmarks there are.
It passes if a slow-down as large as the minimal effect can be excluded: the upper end of the interval that the same
test gives at alpha is below the effect. Anything in between is "can't tell": these launches on this machine are not
enough to decide. A benchmark that base lacks is not judged.

Exit status: 0 pass, 1 a regression, 2 can't tell, 3 harness error.
"""

from __future__ import annotations

import argparse
import math
import statistics as plain_statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from reports.figures import formatting
from reports.figures.jobs import Job
from reports.figures.statistics import by_block, holm, log_slow_downs, middle_and_bounds, p_above
from reports.sections import jobs_of
from results import BadRecord, Run, load

BASE, HEAD = "base", "head"
FEWEST_LAUNCHES = 8
EFFECT = 0.10  # the minimal slow-down that matters: 10% more time, or correspondingly less throughput
ALPHA = 0.05

PASS, REGRESSION, CANT_TELL, HARNESS_ERROR = 0, 1, 2, 3


class HarnessError(Exception):
    """The run cannot be judged."""


@dataclass(frozen=True)
class Verdict:
    """One benchmark judged. Slow-downs are fractions: 0.3 means that head takes 30% longer."""

    job: Job
    base: float  # median over launches, in the job's unit
    head: float
    slow_down: float
    low: float
    high: float
    p: float  # Holm-corrected
    word: Literal["pass", "regression", "can't tell"]
    note: str


def judge(run: Run, effect: float = EFFECT, alpha: float = ALPHA) -> list[Verdict]:
    """A verdict for each benchmark. Raises `HarnessError` if the run is incomplete."""
    jobs = _checked_jobs(run, alpha)
    differences = [log_slow_downs(by_block(job.cells[BASE]), by_block(job.cells[HEAD]), job.better) for job in jobs]
    p_values = holm([p_above(difference) for difference in differences])
    verdicts = []
    for job, difference, p in zip(jobs, differences, p_values, strict=True):
        slow_down, low, high = (math.expm1(value) for value in middle_and_bounds(difference, alpha))
        word, note = _decide(slow_down, low, high, p, effect, alpha)
        base, head = (
            plain_statistics.median(sample.value for sample in job.cells[side].samples) for side in (BASE, HEAD)
        )
        verdicts.append(Verdict(job, base, head, slow_down, low, high, p, word, note))
    return verdicts


def _decide(
    slow_down: float, low: float, high: float, p: float, effect: float, alpha: float
) -> tuple[Literal["pass", "regression", "can't tell"], str]:
    if p <= alpha and slow_down >= effect:
        return "regression", ""
    if high < effect:
        if high < 0 and slow_down <= -effect:
            return "pass", "improvement"
        return "pass", "slower, but within the limit" if p <= alpha else ""
    if slow_down >= effect:
        return "can't tell", "seems slower"
    return "can't tell", "slower, perhaps by more than the limit" if low > 0 else "too noisy"


def launches_needed(benchmarks: int, alpha: float = ALPHA) -> int:
    """Return how many launches per side are needed for even a large slow-down to be significant: p is at least 2^-n."""
    return max(FEWEST_LAUNCHES, math.ceil(math.log2(max(1, benchmarks) / alpha)))


def _checked_jobs(run: Run, alpha: float) -> list[Job]:
    if run.kind != "gate":
        raise HarnessError(f"this is a {run.kind} run, not a gate run")
    names = sorted(peer.name for peer in run.peers)
    if names != [BASE, HEAD]:
        raise HarnessError(f'the peers must be "base" and "head", not: {", ".join(names) or "none"}')
    for peer in run.peers:
        if peer.reason:
            raise HarnessError(f"{peer.name} could not be measured: {peer.reason}")
    every = jobs_of(run)
    jobs = [job for job in every if BASE not in job.cells or job.cells[BASE].status != "skipped"]
    lost = [job.cells[HEAD] for job in jobs if HEAD in job.cells and job.cells[HEAD].status == "skipped"]
    problems = run.problems() + [f"{record.label} was skipped: {record.reason}" for record in lost]
    if problems:
        raise HarnessError("the run is incomplete:\n  " + "\n  ".join(problems))
    if run.finished is None:
        raise HarnessError("the run never finished")

    needed = launches_needed(len(jobs), alpha)
    for job in jobs:
        for side in (BASE, HEAD):
            if side not in job.cells:
                raise HarnessError(f"{job.full_label}: no record for {side}")
        base, head = (set(by_block(job.cells[side])) for side in (BASE, HEAD))
        if base != head:
            lost = ", ".join(str(block) for block in sorted(base ^ head))
            raise HarnessError(f"{job.full_label}: only one side was launched in block {lost}")
        if len(base) < needed:
            why = "" if needed == FEWEST_LAUNCHES else f" for any significance over {len(jobs)} benchmarks"
            raise HarnessError(f"{job.full_label}: {len(base)} launches per side; at least {needed} are needed{why}")
    return jobs


def exit_status(verdicts: Sequence[Verdict]) -> int:
    words = {verdict.word for verdict in verdicts}
    return REGRESSION if "regression" in words else CANT_TELL if "can't tell" in words else PASS


def table(verdicts: Sequence[Verdict], alpha: float) -> str:
    """Return the verdicts as aligned text; the figures are in the unit of their row."""
    sure = f"{100 * (1 - 2 * alpha):g}% interval"
    rows = [["benchmark", "base", "head", "unit", "slow-down", sure, "p (Holm)", "verdict", ""]]
    for verdict in verdicts:
        scale = formatting.scale_for(verdict.job.unit, [verdict.base, verdict.head])
        rows.append(
            [
                verdict.job.full_label,
                scale.number(verdict.base),
                scale.number(verdict.head),
                scale.unit,
                formatting.percent(verdict.slow_down),
                f"{formatting.percent(verdict.low)} to {formatting.percent(verdict.high)}",
                f"{verdict.p:.4f}",
                verdict.word,
                verdict.note,
            ]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    to_the_right = {1, 2, 4, 5, 6}
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in to_the_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def closing_line(verdicts: Sequence[Verdict], effect: float) -> str:
    regressions = [verdict for verdict in verdicts if verdict.word == "regression"]
    open_ones = sum(verdict.word == "can't tell" for verdict in verdicts)
    limit = f"limit: {effect:.0%} slower"
    match exit_status(verdicts):
        case 1:  # REGRESSION
            worst = max(regressions, key=lambda verdict: verdict.slow_down)
            return (
                f"REGRESSION in {len(regressions)} of {formatting.counted(len(verdicts), 'benchmark')}, "
                f"worst {worst.job.full_label}: {formatting.percent(worst.slow_down)} ({limit})"
            )
        case 2:  # CANT_TELL
            of_all = formatting.counted(len(verdicts), "benchmark")
            return (
                f"CAN'T TELL for {open_ones} of {of_all}, no regression in the others ({limit}); "
                "measure again with more launches or on a quieter machine"
            )
    return f"PASS: {formatting.counted(len(verdicts), 'benchmark')}, none slower by as much as the limit ({limit})"


def _left_out(run: Run) -> str:
    new = sum(record.peer == BASE and record.status == "skipped" for record in run.records)
    return f"; not judged because base lacks it: {formatting.counted(new, 'benchmark')}" if new else ""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with HARNESS_ERROR: argparse's 2 would mean "can't tell"."""
        self.exit(HARNESS_ERROR, f"{self.prog}: {message}\n")


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 < value < 0.5:
        raise argparse.ArgumentTypeError(f"must be between 0 and 0.5, got {text}")
    return value


def _effect(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be above 0, got {text}")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _Parser(prog="python -m reports.verdict", description="Judge whether head is slower than base.")
    parser.add_argument("run", help="a gate run file")
    parser.add_argument("--effect", type=_effect, default=EFFECT, help="slow-down that matters (default %(default)s)")
    parser.add_argument("--alpha", type=_fraction, default=ALPHA, help="chance of a false alarm (default %(default)s)")
    options = parser.parse_args(arguments)
    try:
        run = load(options.run)
        verdicts = judge(run, options.effect, options.alpha)
        print(table(verdicts, options.alpha))
        print(closing_line(verdicts, options.effect) + _left_out(run))
        return exit_status(verdicts)
    except (HarnessError, BadRecord) as error:
        print(f"HARNESS ERROR: {error}", file=sys.stderr)
    except Exception as error:  # Python would exit with 1, which here means "regression"
        print(f"HARNESS ERROR: {type(error).__name__}: {error}", file=sys.stderr)
    return HARNESS_ERROR


if __name__ == "__main__":
    sys.exit(main())
