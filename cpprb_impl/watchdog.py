"""Whoever is killed can't tidy up: a shell that removes the names of this process's segments when it has ended.

It waits at a pipe that this process alone holds open, so that the kernel tells it of any end there is, SIGKILL
included. Nothing is told through the pipe: all segments of a process have names that begin alike, and the shell knows
the beginning before the first is made. It is no child of this process, for whom `os.wait` would wait, and in a session
of its own, where no Ctrl-C reaches it. Other code may close this process's end, as daemons do with all that they find
open: so the shell waits until the process is gone, too.

A process that orphans are given to has no shell, which would become its child: PID 1 of a container, with which the
shell would be killed in any case, and subreapers. There, where the shell is killed too, as when a container is, or
where there is none, what is left goes when the next segment is made (`core/memory.cpp`).
"""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

from cpprb_impl._native import _adopts_orphans, _segment_prefix

SHELL = "/bin/sh"
# $0: what the names begin with; $1, $2: this process and when it was started, of /proc/$1/stat the fields 3 (state) and
# 22. The outer shell ends at once, and the inner one is nobody's child. It would be given /dev/null as its input, but
# for the detour.
SCRIPT = """
trap '' INT TERM HUP QUIT
lives() {
  started=$2
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  set -- ${stat##*) }
  [ "$1" != Z ] && [ "$1" != X ] && [ "${20}" = "$started" ]
}
exec 3<&0
( read -r end; while lives "$1" "$2"; do sleep 1; done; rm -f -- /dev/shm"$0"* ) <&3 3<&- &
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
        _pipe = None if _adopts_orphans() else _start()


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
            [SHELL, "-c", SCRIPT, _segment_prefix(), str(os.getpid()), _started()],
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


def _started() -> str:
    try:
        return Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return ""


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
