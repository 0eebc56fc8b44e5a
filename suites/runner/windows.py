"""The window in which a learner and its explorers are measured, and the work that they do in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from suites.runner.explorers import Explorers

WARM_SECONDS = 0.25
PART_SECONDS = 0.1  # length of a part of a window; each part has its own rate
ENOUGH_CALLS = 1_000  # of the learner
STARVED_SECONDS = 5.0  # an explorer that adds nothing for this long has starved


@dataclass(frozen=True)
class Window:
    """For how long a fleet is measured: at least `least` and at most `most` seconds. In between, the measurement ends
    once the learner has made `ENOUGH_CALLS` calls."""

    least: float  # seconds
    most: float

    @property
    def longest(self) -> float:
        """The upper limit in seconds, even if an explorer has added nothing."""
        return max(self.most, STARVED_SECONDS)


@dataclass(frozen=True)
class WindowPart:
    """The work done in a part of the window."""

    seconds: float
    calls: int  # of the learner
    added: int


@dataclass(frozen=True)
class Work:
    """The work that explorers and learner did in a window."""

    parts: list[WindowPart]
    added: list[int]  # by explorer

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.parts)

    @property
    def calls(self) -> int:
        return sum(part.calls for part in self.parts)

    def usual(self, count: Callable[[WindowPart], int]) -> float:
        """The median rate per second over the parts, weighted by their duration.

        This is not the mean: if another program takes a core for a moment, a learner that was starved before can get
        access to the buffer, and a few such parts would dominate the mean (docs/measuring/sharing.md).
        """
        by_rate = sorted(self.parts, key=lambda part: count(part) / part.seconds)
        spent = itertools.accumulate(part.seconds for part in by_rate)
        middle = next(part for part, sofar in zip(by_rate, spent, strict=True) if 2 * sofar >= self.seconds)
        return count(middle) / middle.seconds


def watch_window(explorers: Explorers, learn: Callable[[], object], window: Window) -> Work:
    """Measure one window, which is extended if the learner has made few calls or an explorer has added nothing."""
    parts: list[WindowPart] = []
    first = before = explorers.added()
    while True:
        took, calls = explorers.learn(learn, PART_SECONDS)
        now = explorers.added()
        parts.append(WindowPart(took, calls, sum(now) - sum(before)))
        before = now
        work = Work(parts, [late - early for late, early in zip(now, first, strict=True)])
        enough = work.calls >= ENOUGH_CALLS or work.seconds >= window.most
        if work.seconds >= window.least and enough and min(work.added):
            return work
        if work.seconds >= window.longest:
            return work
