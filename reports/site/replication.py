"""Whether another record of the same kind of machine agrees with a contributed one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from results import Run, frames


@dataclass(frozen=True)
class Replication:
    """How many ratios of the record `by` lie within the intervals of the contributed one, of those that both have."""

    by: str
    within: int
    compared: int


def replications(runs: Mapping[str, Run], contributed: Collection[str]) -> dict[str, Replication | None]:
    """Return for each contributed record the one that has most ratios in common with it; None if there is none."""
    found = {}
    for name in contributed:
        alike = [other for other, run in runs.items() if other != name and _kind(run) == _kind(runs[name])]
        each = [Replication(other, *_agreement(runs, name, other)) for other in alike]
        found[name] = max((one for one in each if one.compared), key=lambda one: one.compared, default=None)
    return found


def _kind(run: Run) -> tuple[str, int, str]:
    return run.machine["cpu"], run.machine["cores"], run.profile


def _agreement(runs: Mapping[str, Run], name: str, other: str) -> tuple[int, int]:
    return frames.agreement(frames.ratios(frames.table({each: runs[each] for each in (name, other)})), name, other)
