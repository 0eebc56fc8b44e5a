"""The questions that a run with a time budget still has to decide: which buffer is fastest at each job, and by how
much?

Intervals are computed as in the report. A contest does not end when an interval excludes 1, but only when the
difference is clear. If the fastest buffer keeps references to the caller's arrays, the fastest of the buffers that copy
them is also determined. Variants of one library are not compared with each other: a job's answer is the fastest buffer
and the best buffer of another library.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from adapters.registry import REFERENCES
from results.facts import Facts
from results.record import Record
from results.statistics import speed_up
from results.verdicts import ENOUGH, MATTERS, rivals
from suites.suite import Launch

#: A peer that is this many times as slow as the fastest needs no exact figure.
FAR = 5.0
#: Number of launches of such slow peers.
FEW = 2
#: A peer that is at most this many times as slow as the second fastest may be the runner-up, since launches differ by
#: that much.
CLOSE = 1.25
#: Samples after which a job that is still undecided yields to launches with too few samples, since its difference is
#: small.
LONG = 3 * ENOUGH


@dataclass(frozen=True)
class Contest:
    """One job, and the launches that have a figure for it, fastest first."""

    job: object
    entries: Sequence[tuple[Launch, Record]]

    @cached_property
    def undecided(self) -> Sequence[Launch]:
        """The launches to repeat: the fastest one and, unless they already clearly differ from it, other libraries'
        possible runners-up and the reference. Empty if the contest is decided."""
        (leader, best), *others = self.entries
        names = rivals(leader.peer, [launch.peer for launch, _ in others])
        compared = [(launch, record) for launch, record in others if launch.peer in names]
        undecided = [
            launch
            for launch, record in compared
            if (CLOSE * _speed(record) >= _speed(compared[0][1]) or launch.peer in REFERENCES)
            and not told_apart(best, record)
        ]
        return [leader, *undecided] if undecided else []

    @property
    def samples(self) -> int:
        """The smallest number of samples that an undecided launch has for this job."""
        return min(len(record.samples) for launch, record in self.entries if launch in self.undecided)

    @property
    def is_long(self) -> bool:
        """Whether the contest remained undecided for `LONG` samples."""
        return bool(self.undecided) and self.samples >= LONG

    def near(self) -> list[Launch]:
        """Return the launches that are at most `FAR` times as slow as the fastest."""
        best = _speed(self.entries[0][1])
        return [launch for launch, record in self.entries if best <= FAR * _speed(record)]


def contests_of(
    launches: Mapping[Launch, Collection[str] | None], facts: Mapping[str, Facts] | None = None
) -> list[Contest]:
    """Return the contests for the jobs that have a figure; `launches` maps each launch to the benchmarks that compare
    buffers (None: all). `facts` maps peers to their facts."""
    found: dict[object, list[tuple[Launch, Record]]] = {}
    for launch, compared in launches.items():
        for job, record in launch.by_job.items():
            if record.ok and record.samples and (compared is None or record.benchmark in compared):
                found.setdefault(job, []).append((launch, record))
    contests = []
    for job, unsorted in found.items():
        entries = sorted(unsorted, key=lambda entry: -_speed(entry[1]))
        contests.append(Contest(job, entries))
        copying = [entry for entry in entries if not _keeps(entry[1], facts or {})]
        if copying and copying[0] is not entries[0]:
            contests.append(Contest(job, copying))
    return contests


def _keeps(record: Record, facts: Mapping[str, Facts]) -> bool:
    known = facts.get(record.peer)
    return known is not None and known.keeps(record.benchmark, record.params)


def told_apart(best: Record, other: Record) -> bool:
    """Return whether the better of two records of the same job is clearly faster, or both are within `MATTERS`, in
    enough blocks.

    An interval above 1 is not enough: if repetitions ended as soon as one appeared, it would too often be due to
    chance. A figure of 0 has no ratio, and more samples would not change that.
    """
    if not all(sample.value for record in (best, other) for sample in record.samples):
        return True
    ratio = speed_up(best, other)
    if ratio is None or ratio.launches < ENOUGH:
        return False
    return ratio.low > MATTERS or (ratio.low > 1 / MATTERS and ratio.high < MATTERS)


def _speed(record: Record) -> float:
    """Return the median as a speed: higher is better."""
    middle = median(sample.value for sample in record.samples)
    return middle if record.better == "higher" else 1 / middle if middle else math.inf
