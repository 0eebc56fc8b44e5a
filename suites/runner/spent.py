"""How a launch spends its time: filling buffers, checking answers, measuring, or anything else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

Work = Literal["fill", "check", "measure"]
KINDS: tuple[Work, ...] = get_args(Work)


class WorkClock:
    """Counts the seconds of this process by kind of work. Nested work counts as the innermost kind only."""

    def __init__(self) -> None:
        self.seconds: dict[Work, float] = {}
        self._within: list[Work] = []
        self._since = 0.0

    @contextmanager
    def on(self, work: Work) -> Iterator[None]:
        """Count the time of the block as this kind of work. Also usable as a decorator."""
        self._count()
        self._within.append(work)
        try:
            yield
        finally:
            self._count()
            self._within.pop()

    def _count(self) -> None:
        now = time.perf_counter()
        if self._within:
            work = self._within[-1]
            self.seconds[work] = self.seconds.get(work, 0.0) + now - self._since
        self._since = now


#: The clock of this launch.
SPENT = WorkClock()
