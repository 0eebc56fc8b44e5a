"""What a run with a time budget still has to decide: which buffer is fastest at each job, and by how much?

Intervals are approximate here, since they are computed for all cells after every block: the notch of a box plot
(McGill, Tukey and Larsen 1978). The report computes its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from adapters.registry import REFERENCES
from results.record import Record
from results.verdicts import ENOUGH, MATTERS
from suites.suite import Launch

#: A peer that is this many times as slow as the fastest needs no exact figure.
FAR = 5.0
#: Launches of peers that are so slow.
FEW = 2


@dataclass(frozen=True)
class Contest:
    """One job, and the launches with a figure of it, the fastest first."""

    job: object
    entries: Sequence[tuple[Launch, Record]]

    def undecided(self) -> list[Launch]:
        """Return the launches to repeat: the fastest, and the runner-up or the reference if not yet told apart from it;
        empty if decided."""
        (leader, best), *others = self.entries
        rivals = [
            launch
            for place, (launch, record) in enumerate(others)
            if (place == 0 or launch.peer in REFERENCES) and not told_apart(best, record)
        ]
        return [leader, *rivals] if rivals else []

    def near(self) -> list[Launch]:
        """Return the launches that are at most `FAR` times as slow as the fastest."""
        best = _speed(self.entries[0][1])
        return [launch for launch, record in self.entries if best <= FAR * _speed(record)]


def contests_of(launches: Mapping[Launch, Collection[str] | None]) -> list[Contest]:
    """Return a contest for each job of which a launch has a figure; launches are given with the benchmarks that
    compare buffers (None: all)."""
    found: dict[object, list[tuple[Launch, Record]]] = {}
    for launch, compared in launches.items():
        for job, record in launch.by_job.items():
            if record.ok and record.samples and (compared is None or record.benchmark in compared):
                found.setdefault(job, []).append((launch, record))
    return [Contest(job, sorted(entries, key=lambda entry: -_speed(entry[1]))) for job, entries in found.items()]


def told_apart(one: Record, other: Record) -> bool:
    """Return whether one of two records of the same job is faster, or both are within `MATTERS`, in enough blocks.

    A figure of 0 has no ratio, and more samples would not change that.
    """
    mine, others = ({sample.block: sample.value for sample in record.samples} for record in (one, other))
    if not (all(mine.values()) and all(others.values())):
        return True
    ratios = [mine[block] / others[block] for block in mine.keys() & others.keys()]
    if len(ratios) < ENOUGH:
        return False
    logs = [math.log(ratio) for ratio in ratios]
    middle, half = median(logs), notch(logs) / 2
    return abs(middle) > half or abs(middle) + half < math.log(MATTERS)


def notch(values: Sequence[float]) -> float:
    """Return the approximate width of the 95% interval of the median: 2 x 1.57 IQR/sqrt(n)."""
    low, high = np.percentile(values, [25, 75])
    return 2 * 1.57 * float(high - low) / math.sqrt(len(values))


def _speed(record: Record) -> float:
    """Return the median as a speed: higher is better."""
    middle = median(sample.value for sample in record.samples)
    return middle if record.better == "higher" else 1 / middle if middle else math.inf
