"""Seconds per call of something too short to be timed alone: the median over rounds of many calls."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

ROUND_SECONDS = 0.002  # the timer's own cost is then below a ten-thousandth
FEWEST_ROUNDS = 3
WARM_SHARE = 0.1  # of the time: calls that are not counted, from which the number of calls and rounds follows


class Stopwatch:
    """Spends about so many seconds on each figure.

    The number of rounds is fixed before the first: if it followed from the time that they take, a busy machine would
    leave few of them, and a median over few is no protection from the slow ones.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def per_call(self, run: Callable[[int], object]) -> float:
        """Median seconds of one call, where `run(n)` makes n of them."""
        run(1)
        calls, spent = 1, 0.0
        while spent < WARM_SHARE * self.seconds or not spent:
            calls = 2 * calls if spent else 1
            spent = _seconds(lambda: run(calls))  # noqa: B023 (called at once)
        per_call = spent / calls
        calls = max(1, round(ROUND_SECONDS / per_call))
        return self.per_round(lambda: run(calls), self.rounds(per_call * calls, FEWEST_ROUNDS)) / calls

    def rounds(self, seconds: float, fewest: int) -> int:
        """How many rounds, of so many seconds each, there is time for."""
        return max(fewest, round(self.seconds / seconds))

    def per_round(self, run: Callable[[], object], rounds: int) -> float:
        """Median seconds of a round, which is one call of `run`.

        Garbage is collected between rounds: inside them, at random moments, it would be the harness's noise more than a
        peer's cost.
        """
        took = []
        for _ in range(rounds):
            gc.disable()
            try:
                took.append(_seconds(run))
            finally:
                gc.enable()
        return statistics.median(took)


def _seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin
