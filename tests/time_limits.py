"""One thread that ends any test of this process that takes too long.

pytest-timeout starts a thread for each test, and joins it afterwards, which takes longer than most of our tests.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable


class Watch:
    """Calls a function when the time of the current test is up. A test without a function has no limit."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ends = self._wakes = math.inf  # in the time of time.monotonic
        self._expire: Callable[[], object] = lambda: None

    def start(self, seconds: float, expire: Callable[[], object]) -> None:
        with self._changed:
            self._ends, self._expire = time.monotonic() + seconds, expire
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="time limit of tests", daemon=True)
                self._thread.start()
            elif self._ends < self._wakes:  # otherwise the thread wakes up early enough, and sleeps again
                self._changed.notify()

    def cancel(self) -> None:
        """Lift the limit. If the function is already running, wait for it: it ends the process."""
        with self._changed:
            self._ends = math.inf

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                if now >= self._ends:
                    self._ends = math.inf
                    self._expire()
                self._wakes = self._ends
                self._changed.wait(None if math.isinf(self._wakes) else self._wakes - now)
