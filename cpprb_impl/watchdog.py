"""Whoever is killed can't tidy up: a shell that removes the names of this process's segments when it has ended.

It waits at a pipe that this process alone holds open, so that the kernel tells it of any end there is, SIGKILL
included. Nothing is told through the pipe: all segments of a process have names that begin alike, and the shell knows
the beginning before the first is made. It is no child of this process, for whom `os.wait` would wait, and in a session
of its own, where no Ctrl-C reaches it. Where it is killed too, as when a container is, or where there is no shell,
what is left goes when the next segment is made (`core/memory.cpp`).
"""

from __future__ import annotations

import os
import select
import threading

from cpprb_impl._native import _segment_prefix

SHELL = "/bin/sh"
# The outer shell ends at once, and the inner one is nobody's child. It would be given /dev/null as its input, but for
# the detour.
SCRIPT = """
trap '' INT TERM HUP QUIT
exec 3<&0
( read -r end; rm -f -- /dev/shm"$0"* ) <&3 3<&- &
"""

_lock = threading.RLock()
# Our end, and which pipe that is: other code may have closed it, and have another file under that number.
_pipe: tuple[int, os.stat_result] | None = None


def watch() -> None:
    """Make sure that this process's segments go with it: before the first is made, and any time later."""
    global _pipe
    with _lock:
        if _is_open() and _has_reader():
            return
        _let_go()
        _pipe = _start()


def _is_open() -> bool:
    if _pipe is None:
        return False
    try:
        return os.path.samestat(os.fstat(_pipe[0]), _pipe[1])
    except OSError:
        return False


def _has_reader() -> bool:
    poll = select.poll()
    poll.register(_pipe[0], 0)
    return not poll.poll(0)


def _start() -> tuple[int, os.stat_result] | None:
    import subprocess  # only where segments are made

    reading, writing = os.pipe()
    try:
        subprocess.run(
            [SHELL, "-c", SCRIPT, _segment_prefix()],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath},
            start_new_session=True,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        os.close(writing)
        return None
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return writing, os.fstat(writing)


def _let_go() -> None:
    global _pipe
    if _is_open():
        os.close(_pipe[0])
    _pipe = None


def _in_forked_child() -> None:
    # The shell must see the end of the process that it watches, whoever lives on.
    _let_go()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_forked_child)
