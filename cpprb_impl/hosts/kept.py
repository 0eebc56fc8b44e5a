"""Segments that outlive their maker, so that a shard that is started again finds its rows.

A segment's own name disappears with its maker. Therefore it gets a second one, a hard link in /dev/shm, which names the
buffer, the host and the shard's number. A `Keeper` removes that name if no new shard has taken it over some seconds
after the old one died. If the keeper is killed, too, the name is removed when the next buffer is made on this host, as
for any buffer.
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
PREFIX = "/cpprb_impl-shard-"  # with the beginning by which abandoned segments are found
WAIT_SECONDS = 20  # for a new shard to take a name over
# $0: path of the name; $1: seconds. Descriptor 3 passes the pipe on: a background command otherwise reads /dev/null.
KEEPER = """
exec 3<&0
(read -r closed || { sleep "$1"; rm -f -- "$0"; }) <&3 3<&- &
"""


class Kept(NamedTuple):
    """A segment, attached, and the name by which the shard's next supervisor finds it."""

    buffer: MPPrioritizedReplayBuffer
    name: str
    number: int  # of the shard


def _path(name: str) -> Path:
    return FOLDER / name.lstrip("/")


def _names(buffer: str, host: str) -> str:
    """Return the beginning of the names of a buffer's shards on a host."""
    return f"{PREFIX}{buffer}-{re.sub('[^0-9A-Za-z]', '_', host)}-"


def _name(buffer: str, host: str, number: int) -> str:
    return f"{_names(buffer, host)}{number}-{secrets.token_hex(4)}"


def exists(name: str) -> bool:
    """Return whether a segment has this name."""
    return _path(name).exists()


def make(buffer: str, host: str, number: int, layout: Layout) -> Kept:
    """Make the segment of a shard. Raises OSError if there is no room for it."""
    made, name = MPPrioritizedReplayBuffer._of(layout), _name(buffer, host, number)
    os.link(_path(made.segment), _path(name))
    return Kept(made, name, number)


def take_over(buffer: str, host: str) -> Kept | None:
    """Attach to the segment of a shard that died here, and give it another name. Return None if there is none."""
    for path in FOLDER.glob(_names(buffer, host).lstrip("/") + "*"):
        number = int(path.name.split("-")[-2])
        name = _name(buffer, host, number)
        with suppress(FileNotFoundError):
            found = MPPrioritizedReplayBuffer.attach(f"/{path.name}")
            path.rename(_path(name))  # a server of the dead shard removes the old name only
            return Kept(found, name, number)
    return None


def remove(name: str) -> None:
    """Remove a name, if it still exists."""
    with suppress(FileNotFoundError):
        _path(name).unlink()


class Keeper:
    """A shell that removes a name `WAIT_SECONDS` after this process has ended, in whatever way.

    Ray kills the children of a process that it ends, but not this shell, which is an orphan in a session of its own.
    Until it ends, it has a lock on the segment, without which the next buffer on this host would remove the name
    (`core/base/memory.cpp`).
    """

    def __init__(self, name: str) -> None:
        with _path(name).open("rb") as segment:
            fcntl.flock(segment, fcntl.LOCK_SH)
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", KEEPER, str(_path(name)), str(WAIT_SECONDS)],
                stdin=subprocess.PIPE,
                stdout=segment,  # nothing is written: the shell thus inherits the lock
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        self._shell.wait()  # for the outer shell, which starts the one that stays

    def close(self) -> None:
        """End the shell. It removes nothing."""
        self._shell.communicate(b"closed\n")
