"""Child processes that exit with their parent, even if the parent is killed by SIGKILL."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

POLL_SECONDS = 0.5


def exit_with_parent(parent_pid: int, before_exit: Callable[[], None] | None = None) -> None:
    """Make this child process exit soon after its parent, the process `parent_pid`, has exited.

    A thread polls the parent's id. PR_SET_PDEATHSIG is no alternative: the kernel sends that signal when the *thread*
    that forked ends, so a child started by a worker thread would be killed. Polling also detects a parent that exited
    before this call. A pipe is no alternative either: forked explorers inherit its other end and keep it open.
    """

    def watch() -> None:
        while os.getppid() == parent_pid:
            time.sleep(POLL_SECONDS)
        if before_exit is not None:
            before_exit()
        os._exit(1)

    threading.Thread(target=watch, name="exit-with-parent", daemon=True).start()
