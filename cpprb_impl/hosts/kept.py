"""Segments that outlive their creator, so that a restarted shard finds its rows.

A segment's own name disappears with its creator. It therefore gets a second name, a hard link in /dev/shm, composed of
the buffer, the host and the shard's number. A `Keeper` removes that name if no new shard takes it over within some
seconds after the old shard died. If the keeper is also killed, the name is removed when the next buffer is created on
this host, as for any buffer.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cpprb_impl.buffers.shared import MPPrioritizedReplayBuffer
from cpprb_impl.layout.layout import Layout

FOLDER = Path("/dev/shm")
PREFIX = "/cpprb_impl-shard-"  # starts with the prefix by which abandoned segments are found
WAIT_SECONDS = 20  # time for a new shard to take over a name
# $0: path of the name; $1: seconds. Descriptor 3 passes the pipe on: a background command otherwise reads /dev/null.
KEEPER = """
exec 3<&0
(read -r closed || { sleep "$1"; rm -f -- "$0"; }) <&3 3<&- &
"""


class Kept(NamedTuple):
    """An attached segment, and the name by which the shard's next supervisor finds it."""

    buffer: MPPrioritizedReplayBuffer
    name: str
    number: int  # of the shard


def _path(name: str) -> Path:
    return FOLDER / name.lstrip("/")


def _names(buffer: str, host: str) -> str:
    """Return the prefix of the names of a buffer's shards on a host."""
    return f"{PREFIX}{buffer}-{re.sub('[^0-9A-Za-z]', '_', host)}-"


def _name(buffer: str, host: str, number: int) -> str:
    return f"{_names(buffer, host)}{number}-{secrets.token_hex(4)}"


def exists(name: str) -> bool:
    """Return whether a segment has this name."""
    return _path(name).exists()


def make(buffer: str, host: str, number: int, layout: Layout) -> Kept:
    """Create a shard's segment. Raises OSError if there is no room for it."""
    made, name = MPPrioritizedReplayBuffer._of(layout), _name(buffer, host, number)
    os.link(_path(made.segment), _path(name))
    return Kept(made, name, number)


def take_over(buffer: str, host: str) -> Kept | None:
    """Attach to the segment of a shard that died on this host, and rename it. Return None if there is none."""
    for path in FOLDER.glob(_names(buffer, host).lstrip("/") + "*"):
        number = int(path.name.split("-")[-2])
        name = _name(buffer, host, number)
        with suppress(FileNotFoundError):
            found = MPPrioritizedReplayBuffer.attach(f"/{path.name}")
            path.rename(_path(name))  # a server of the dead shard removes only the old name
            return Kept(found, name, number)
    return None


def remove(name: str) -> None:
    """Remove a name, if it still exists."""
    with suppress(FileNotFoundError):
        _path(name).unlink()


class Keeper:
    """A shell that removes a name `WAIT_SECONDS` after this process has ended for any reason.

    When Ray ends a process, it kills the process's children, but not this shell, an orphan in its own session. The
    shell holds a lock on the segment until it ends; otherwise the next buffer on this host would remove the name
    (`core/base/memory.cpp`).
    """

    def __init__(self, name: str) -> None:
        with _path(name).open("rb") as segment:
            fcntl.flock(segment, fcntl.LOCK_SH)
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", KEEPER, str(_path(name)), str(WAIT_SECONDS)],
                stdin=subprocess.PIPE,
                stdout=segment,  # nothing is written: this is how the shell inherits the lock
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        self._shell.wait()  # for the outer shell, which starts the one that remains

    def close(self) -> None:
        """End the shell without removing the name."""
        self._shell.communicate(b"closed\n")
