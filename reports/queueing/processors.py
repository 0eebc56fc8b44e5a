"""Processes that share the cores of a machine, for simulations in SimPy: they take slices of a core in turn."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

SLICE = 0.001  # seconds that a process runs before another ready process takes its core


class Cores:
    """The cores of one machine."""

    def __init__(self, environment: simpy.Environment, number: int) -> None:
        self.environment = environment
        self.queue = simpy.PriorityResource(environment, number)
        self.least = 0.0  # every ready process has run for at least this many seconds


class Process:
    """A process that keeps its core until its slice is over and another process is ready, or until it has to wait. As
    in Linux, the next process to run is the one that has run for the shortest time. A process that wakes up is treated
    as if it had run for as long as the others."""

    def __init__(self, cores: Cores) -> None:
        self._cores = cores
        self._core: Any = None
        self._left = self._used = 0.0

    def run(self, seconds: float) -> Generator[Any, Any, None]:
        """Use a core for this long."""
        cores = self._cores
        while seconds > 0:
            if self._core is None:
                self._used = max(self._used, cores.least - SLICE)
                self._core, self._left = cores.queue.request(self._used), SLICE
                yield self._core
                cores.least = max(cores.least, self._used)
            spent = min(seconds, self._left)
            yield cores.environment.timeout(spent)
            seconds, self._left, self._used = seconds - spent, self._left - spent, self._used + spent
            if self._left <= 0:
                if cores.queue.queue:
                    self.sleep()
                else:
                    self._left = SLICE

    def sleep(self) -> None:
        """Release the core, unless it was released at the end of a slice."""
        if self._core is not None:
            self._cores.queue.release(self._core)
            self._core = None
