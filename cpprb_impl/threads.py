"""What the threads of a process share in Python, and what a forked child makes of it."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref


class Locked:
    """An object with a lock, `_lock`, that no forked child finds held by a thread that it has not."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _all.add(self)

    def _finish(self) -> None:
        """In a forked child: finish or undo what the thread had begun that held the lock, and never goes on here."""

    def _after_fork(self) -> None:
        if self._lock.acquire(blocking=False):  # free, or of the thread that forked: that one goes on
            self._lock.release()
        else:
            self._lock = threading.RLock()
            with contextlib.suppress(ValueError):  # of a buffer that is closed
                self._finish()


_all: weakref.WeakSet[Locked] = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_all):
        each._after_fork()


os.register_at_fork(after_in_child=_after_fork)
