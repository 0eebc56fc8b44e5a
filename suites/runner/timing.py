"""Times calls that are too short to be timed individually: the median over rounds of many calls."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

from suites.runner.spent import SPENT

ROUND_SECONDS = 0.002  # long enough that the timer's own cost is below a ten-thousandth
FEWEST_ROUNDS = 3
WARM_SHARE = 0.1  # of the time is spent on warm-up calls, which also determine the number of calls and rounds


class Stopwatch:
    """Spends about `seconds` on each figure.

    The number of rounds is fixed before the first one. If it depended on their duration, a busy machine would allow
    only a few rounds, and a median over few rounds does not protect against slow ones.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    @SPENT.on("measure")
    def per_call(self, run: Callable[[int], object]) -> float:
        """Return the median seconds per call; `run(n)` makes n calls."""
        run(1)
        calls, spent = 1, 0.0
        while spent < WARM_SHARE * self.seconds or not spent:
            calls = 2 * calls if spent else 1
            spent = _seconds(lambda: run(calls))  # noqa: B023 (called at once)
        per_call = spent / calls
        calls = max(1, round(ROUND_SECONDS / per_call))
        return self.per_round(lambda: run(calls), self.rounds(per_call * calls, FEWEST_ROUNDS)) / calls

    def rounds(self, seconds: float, fewest: int) -> int:
        """Return the number of rounds of this many seconds for which there is time, at least `fewest`."""
        return max(fewest, round(self.seconds / seconds))

    @SPENT.on("measure")
    def per_round(self, run: Callable[[], object], rounds: int) -> float:
        """Return the median seconds per round, which is one call of `run`.

        Garbage is collected between rounds. Collections within a round, at random moments, would be noise from the
        harness rather than a cost of the peer.
        """
        took = []
        for _ in range(rounds):
            gc.disable()
            try:
                took.append(_seconds(run))
            finally:
                gc.enable()
        return statistics.median(took)

    def end(self) -> None:
        """End a figure, whether or not it was measured."""


def _seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin
