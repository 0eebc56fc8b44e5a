"""Thread locks that remain usable in a forked child."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from cpprb_impl._native import Ring


class ForkSafe:
    """An object with a lock, `_lock`, that a forked child never finds held by one of the parent's threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        # While rows are being added: the ring, its head before the call, and the function to call once they are stored.
        self._adding: tuple[Ring, int, Callable[[], None]] | None = None
        _all.add(self)

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in vars(self).items() if name not in ("_lock", "_adding")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ForkSafe.__init__(self)
        vars(self).update(state)

    def _add_then(self, ring: Ring, add: Callable[[], int], then: Callable[[], None]) -> int:
        """Add rows to `ring` by calling `add`, then call `then`; return the result of `add`. `_lock` must be held.

        If another thread forks meanwhile, the child calls `then` itself if the rows were stored.
        """
        self._adding = ring, ring._get_head(), then
        try:
            first = add()
            then()
        finally:
            self._adding = None
        return first

    def _finish(self) -> None:
        """In a forked child, finish or undo the call that held the lock, whose thread does not exist here."""
        if self._adding is None:
            return
        ring, head, then = self._adding
        self._adding = None
        if ring._get_head() != head:
            then()

    def _after_fork(self) -> None:
        if self._lock.acquire(blocking=False):  # free, or held by the forking thread, which continues
            self._lock.release()
        else:
            self._lock = threading.RLock()
            with contextlib.suppress(ValueError):  # the buffer is closed
                self._finish()


_all: weakref.WeakSet[ForkSafe] = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_all):
        each._after_fork()


os.register_at_fork(after_in_child=_after_fork)
