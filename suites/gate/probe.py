"""How much processor time other programs use while a launch runs.

Two launches that each use all cores are comparable only if the rest of the machine was equally busy during both.
Whether it was does not depend on which launch is head's, so excluding the other pairs favours neither side.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

UNEVEN_CORES = 0.15  # from this difference on, a pair does not count


@dataclass
class Others:
    """The average number of cores that other programs used, and that other virtual machines took ("steal")."""

    cores: float = 0.0


@contextmanager
def others() -> Iterator[Others]:
    """Watch the machine while this process waits for its children, whose own use does not count."""
    seen = Others()
    begin, busy, own = time.monotonic(), _busy_seconds(), _own_seconds()
    yield seen
    spent = time.monotonic() - begin
    seen.cores = max(0.0, (_busy_seconds() - busy) - (_own_seconds() - own)) / spent


def unevenness(sides: Sequence[Others]) -> float:
    """Return the difference in the number of cores that other programs used during the two launches."""
    cores = [each.cores for each in sides]
    return max(cores) - min(cores)


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
