"""A shell that removes this process's shared segments after the process has ended for any reason.

The shell waits on a pipe whose other end only this process holds, so the kernel wakes the shell however the process
ends. Nothing is written to the pipe: the names of a process's segments share a prefix, which the shell knows before the
first segment is created. The shell is not a child of this process, so that `os.wait` does not wait for it, and it has
its own session, so that Ctrl-C does not reach it. Other code may close this process's end of the pipe, for example when
a daemon closes all its descriptors, so the shell also waits until the process is gone.

A process that adopts orphans (a subreaper, or PID 1 of a container) starts no shell, because the shell would become its
child. The end of a container's PID 1 would kill the shell anyway. If there is no shell, or it is also killed, the names
are removed when the next segment is created (`core/base/memory.cpp`).
"""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

from cpprb_impl._native import _adopts_orphans, _segment_prefix

SHELL = "/bin/sh"
# $0: prefix of the names; $1, $2: this process's id and its start time, field 22 of /proc/$1/stat (field 3 is the
# state). The outer shell exits immediately, which makes the inner shell an orphan. Descriptor 3 passes the pipe on,
# since a background command otherwise reads /dev/null. A process that ends closes its pipe slightly before it
# disappears, so the first pause is short. A process that closed its descriptors but is still running is polled every
# second.
SCRIPT = """
trap '' INT TERM HUP QUIT
lives() {
  started=$2
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  set -- ${stat##*) }
  [ "$1" != Z ] && [ "$1" != X ] && [ "${20}" = "$started" ]
}
exec 3<&0
(
  read -r end
  pause=0.05
  while lives "$1" "$2"; do sleep "$pause" 2>/dev/null || sleep 1; pause=1; done
  rm -f -- /dev/shm"$0"*
) <&3 3<&- &
"""

_lock = threading.RLock()
# Our end of the pipe, and the pipe's identity: other code may have closed it and reused its number for another file.
_pipe: tuple[int, os.stat_result] | None = None


def watch() -> None:
    """Start the shell unless it is running. Must be called before the first segment is created; may be called again."""
    global _pipe
    with _lock:
        if _pipe is not None and _is_open(*_pipe) and _has_reader(_pipe[0]):
            return
        _close_pipe()
        _pipe = None if _adopts_orphans() else _start()


def _is_open(end: int, known: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(end), known)
    except OSError:
        return False


def _has_reader(end: int) -> bool:
    poll = select.poll()
    poll.register(end, 0)
    return not poll.poll(0)


def _start() -> tuple[int, os.stat_result] | None:
    import subprocess  # needed only where segments are created

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


def _close_pipe() -> None:
    global _pipe
    if _pipe is not None and _is_open(*_pipe):
        os.close(_pipe[0])
    _pipe = None


def _in_forked_child() -> None:
    # The shell must notice when its process ends, even if forked children are still running.
    _close_pipe()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_forked_child)
