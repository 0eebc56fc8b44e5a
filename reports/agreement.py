"""Compare two runs of the same revision.  python -m reports.agreement REFERENCE.json AGAIN.json

For each job that both runs measured for three peers or more, the table shows Spearman's rank correlation of the peers'
figures, the pairs of peers that the two runs rank in opposite orders although their intervals do not overlap in either
run, and how many ratios to the reference peer agree. A ratio agrees if the intervals of the two runs overlap. The table
also counts how often the second run's ratio lies within the first run's interval, which an interval does not guarantee.
Ratios from fewer than three launches have no interval and are not counted. Prints a Markdown table and exits with 0.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy import stats

from reports.figures.ratios import Ratio, figure_of, ratio_of
from results import BadRecord, Run, load
from results.jobs import Job, jobs_of, reference_name
from results.suites import SUITES, Kind
from results.words import counted

FEWEST_PEERS = 3  # a rank correlation of fewer is meaningless
COMPARED = [name for name, suite in SUITES.items() if suite.kind in (Kind.RANKS, Kind.RATIOS)]
WANTED_CORRELATION, WANTED_SHARE = 0.95, 0.95


@dataclass(frozen=True)
class Agreement:
    """One job in two runs."""

    label: str
    peers: int
    correlation: float
    opposite: Sequence[str]  # "one and another": ranked in opposite orders, without overlap of intervals in either run
    ratios: int
    within: int  # ratios whose value in the second run lies within the interval of the first
    apart: Sequence[str]  # "one 2.1x [2.0, 2.2] and 2.6x [2.5, 2.7]": ratios whose intervals do not overlap


def agreements(first: Run, second: Run) -> Iterator[Agreement]:
    """Yield an agreement for each job that both runs measured, in the order of the first run."""
    there = {_key(job): job for job in jobs_of(second)}
    for job in jobs_of(first):
        again = there.get(_key(job))
        if job.suite not in COMPARED or again is None:
            continue
        peers = [peer for peer in job.measured if peer in again.measured]
        if len(peers) < FEWEST_PEERS:
            continue
        figures = [[figure_of(each.measured[peer]).value for peer in peers] for each in (job, again)]
        reference = reference_name(first, SUITES[job.suite])  # of both runs
        pairs = [(peer, _ratio(job, peer, reference), _ratio(again, peer, reference)) for peer in peers]
        both = [(peer, one, two) for peer, one, two in pairs if _has_interval(one) and _has_interval(two)]
        yield Agreement(
            label=job.full_label,
            peers=len(peers),
            correlation=float(stats.spearmanr(*figures).statistic),
            opposite=_opposite(both),
            ratios=len(both),
            within=sum(_within(two, one) for _, one, two in both),
            apart=[f"{peer} {one.words} and {two.words}" for peer, one, two in both if not _overlap(one, two)],
        )


def _opposite(compared: Sequence[tuple[str, Ratio, Ratio]]) -> list[str]:
    """Return the pairs of peers whose intervals do not overlap in either run, and whose order differs."""
    return [
        f"{first} and {second}"
        for (first, *mine), (second, *theirs) in itertools.combinations(compared, 2)
        if not any(_overlap(one, two) for one, two in zip(mine, theirs, strict=True))
        and len({one.value < two.value for one, two in zip(mine, theirs, strict=True)}) == 2
    ]


def _key(job: Job) -> tuple:
    return job.suite, job.workload, job.benchmark, tuple(sorted(job.params.items()))


def _ratio(job: Job, peer: str, reference: str | None) -> Ratio | None:
    return ratio_of(job.measured[peer], job.measured.get(reference or ""))


def _has_interval(ratio: Ratio | None) -> bool:
    return ratio is not None and not ratio.figure.is_range


def _overlap(one: Ratio, two: Ratio) -> bool:
    """Return whether the intervals overlap. A figure and a lower bound agree if the figure is not below the bound."""
    if one.is_bound or two.is_bound:
        return one.figure.high >= two.value and two.figure.high >= one.value
    return one.figure.low <= two.figure.high and two.figure.low <= one.figure.high


def _within(value: Ratio, interval: Ratio) -> bool:
    if value.is_bound or interval.is_bound:
        return _overlap(value, interval)
    return interval.figure.low <= value.value <= interval.figure.high


def report(found: Sequence[Agreement]) -> str:
    """Return the table, worst jobs first, and a summary."""
    lines = [
        "| job | peers | rank correlation | ratios that agree | within the first interval | apart, or opposite |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for each in sorted(found, key=lambda each: each.correlation):
        agree = f"{each.ratios - len(each.apart)} of {each.ratios}"
        lines.append(
            f"| {each.label} | {each.peers} | {each.correlation:.3f} | {agree} | {each.within} of {each.ratios} "
            f"| {'; '.join([*each.apart, *each.opposite])} |"
        )
    ratios, apart = sum(each.ratios for each in found), sum(len(each.apart) for each in found)
    close = sum(each.correlation >= WANTED_CORRELATION for each in found)
    within, opposite = sum(each.within for each in found), sum(len(each.opposite) for each in found)
    share = f" ({100 * (1 - apart / ratios):.1f}%; wanted: {100 * WANTED_SHARE:.0f}%)" if ratios else ""
    lines += [
        "",
        f"{close} of {len(found)} jobs have a rank correlation of at least {WANTED_CORRELATION}. "
        f"{ratios - apart} of {ratios} ratios agree{share}; {within} ratios of the second run lie within the first "
        f"run's interval. {counted(opposite, 'pair')} of peers ranked in opposite orders, with intervals that do not "
        "overlap in either run.",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reports.agreement", description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs=2, type=Path, metavar="RUN.json")
    options = parser.parse_args(arguments)
    try:
        first, second = map(load, options.runs)
    except BadRecord as error:
        print(f"bad run file: {error}", file=sys.stderr)
        return 1
    if first.revision != second.revision:
        print(f"the runs have different revisions: {first.revision} and {second.revision}", file=sys.stderr)
    print(report(list(agreements(first, second))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
