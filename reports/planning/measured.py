"""The cells of the hosts suite, in the form that a plan needs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from results import BadRecord, Run

SUITE = "hosts"
UNLIMITED = "none"
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
COMMAND = "make bench PROFILE=hosts"
#: A variant of the first peer that sends rows uncompressed. If it was measured, its figures are used for plans, since
#: not all rows can be compressed.
UNCOMPRESSED = "uncompressed"


class Unmeasured(BadRecord):
    """The record lacks cells that a plan needs."""


@dataclass(frozen=True)
class Cell:
    """One learner and one explorer on a host, and rows on `data` other hosts. All hosts share the cores of one
    machine."""

    workload: str
    row_bytes: int
    data: int
    link: float  # bytes per second of each host's link
    batch: int
    figures: Mapping[str, Sequence[float]]  # by benchmark: one value per launch

    def figure(self, benchmark: str) -> float:
        """Return the median over launches."""
        return median(self.figures[benchmark])


def link_speed(text: str) -> float:
    """Convert a speed such as "10gbit" to bytes per second; "none" is unlimited. Raises ValueError."""
    if text == UNLIMITED:
        return math.inf
    for unit, bits in UNITS.items():
        if (found := re.fullmatch(rf"(\d+\.?\d*){unit}", text)) and float(found[1]) > 0:
            return float(found[1]) * bits / 8
    raise ValueError(f"{text!r} is not the speed of a link")


def cells_of(run: Run, needed: Sequence[str]) -> list[Cell]:
    """Return the cells of `UNCOMPRESSED`, or else of the first peer, in which all needed benchmarks have samples.

    Raises `Unmeasured` if there are none.
    """
    measured = {record.peer for record in run.records if record.suite == SUITE}
    first = next((peer.name for peer in run.peers if peer.name in measured), "")
    uncompressed = f"{first.removesuffix(']')}, {UNCOMPRESSED}]"
    peer = uncompressed if uncompressed in measured else first
    row_bytes = {workload.name: workload.row_bytes for workload in run.workloads}
    found: dict[tuple[str, int, str, int], dict[str, list[float]]] = {}
    for record in run.records:
        if (record.suite, record.peer, record.ok) == (SUITE, peer, True):
            params = record.params
            key = record.workload, int(params["data_hosts"]), str(params["link"]), int(params["batch"])
            found.setdefault(key, {})[record.benchmark] = [sample.value for sample in record.samples]
    cells = [
        Cell(workload, row_bytes[workload], data, link_speed(link), batch, figures)
        for (workload, data, link, batch), figures in found.items()
        if figures.keys() >= set(needed)
    ]
    if not cells:
        raise Unmeasured(
            f"the record has no figures of {peer or 'any buffer'} in the suite {SUITE}; measure them: {COMMAND}"
        )
    return sorted(cells, key=lambda cell: (cell.workload, cell.data, cell.link, cell.batch))
