"""Helper processes that never outlive the process they serve, not even when that one is SIGKILLed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

POLL_SECONDS = 0.5


def exit_with_parent(parent_pid: int, before_exit: Callable[[], None] | None = None) -> None:
    """Called in a helper process: end it soon after `parent_pid` is gone.

    A thread watches the parent's id rather than PR_SET_PDEATHSIG, because the kernel sends that signal
    when the parent's *thread* that forked ends, which kills a helper that was started from a worker
    thread. The id also tells of a parent that died before this call, and a pipe would not: forked
    explorers inherit its other end and hold it open.
    """

    def watch() -> None:
        while os.getppid() == parent_pid:
            time.sleep(POLL_SECONDS)
        if before_exit is not None:
            before_exit()
        os._exit(1)

    threading.Thread(target=watch, name="exit-with-parent", daemon=True).start()
