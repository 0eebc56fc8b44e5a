"""Estimates how long launches take, for plans."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

from suites.suite import Launch


class LaunchCosts:
    """How long each launch takes: the mean of its last two durations. The first duration counts only if there is no
    other, since that launch may have compiled code, and later launches measure less."""

    def __init__(self) -> None:
        self._took: dict[str, dict[str, list[float]]] = {}  # peer -> launch -> seconds

    def __bool__(self) -> bool:
        return bool(self._took)

    def add(self, launch: Launch, seconds: float) -> None:
        self._took.setdefault(launch.peer, {}).setdefault(launch.name, []).append(seconds)

    def of(self, launch: Launch) -> float:
        """Return the seconds. For a launch that has not run yet, this is the median of the peer's other launches, or
        else of all launches."""
        of_peer = self._took.get(launch.peer, {})
        if took := of_peer.get(launch.name):
            return _usual(took)
        known = of_peer.values() or [took for each in self._took.values() for took in each.values()]
        return median(map(_usual, known)) if known else 0.0


def _usual(took: Sequence[float]) -> float:
    return mean(took[1:][-2:] or took)
