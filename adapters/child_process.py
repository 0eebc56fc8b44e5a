"""Child processes that never outlive their parent, even if it is killed by SIGKILL."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

POLL_SECONDS = 0.5


def exit_with_parent(parent_pid: int, before_exit: Callable[[], None] | None = None) -> None:
    """Called in a child process: exit soon after the process `parent_pid` has.

    A thread polls the parent's id. PR_SET_PDEATHSIG is no alternative: the kernel sends that signal when the *thread*
    that forked ends, which would kill a child that was started by a worker thread. The id also reveals a parent that
    exited before this call. A pipe is no alternative either: forked explorers inherit its other end and keep it open.
    """

    def watch() -> None:
        while os.getppid() == parent_pid:
            time.sleep(POLL_SECONDS)
        if before_exit is not None:
            before_exit()
        os._exit(1)

    threading.Thread(target=watch, name="exit-with-parent", daemon=True).start()
