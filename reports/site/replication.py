"""Whether another record of the same kind of machine agrees with a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from results import Run, frames
from results.frames import Agreement
from results.machine import kind


@dataclass(frozen=True)
class Replication:
    by: str  # the other record
    agreement: Agreement


def replications(runs: Mapping[str, Run]) -> dict[str, Replication | None]:
    """Return, for each record, the replication with the most ratios in common, or None if there is none."""
    ratios, found = frames.ratios(frames.table(runs)), {}
    for name, run in runs.items():
        alike = [other for other in runs if other != name and kind(runs[other].machine) == kind(run.machine)]
        each = [Replication(other, frames.agreement(ratios, name, other)) for other in alike]
        common = [one for one in each if one.agreement.compared]
        found[name] = max(common, key=lambda one: one.agreement.compared, default=None)
    return found
