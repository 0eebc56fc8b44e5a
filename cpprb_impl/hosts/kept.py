"""Segments that outlive their maker, so that a shard that is started again finds its rows.

A segment's own name disappears with its maker. Therefore it gets a second one, a hard link in /dev/shm, which names the
buffer, the host and the shard's number. The servers of the shard keep the memory alive, and remove that name if no new
shard has taken it over some seconds after the old one died. If they are killed, too, it is removed when the next buffer
is made on this host, as for any buffer.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cpprb_impl.shared import MPPrioritizedReplayBuffer

FOLDER = Path("/dev/shm")
PREFIX = "/cpprb_impl-shard-"  # with the beginning by which abandoned segments are found
WAIT_SECONDS = 20.0  # for a new shard to take a name over
LOOK_SECONDS = 0.2


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


def make(buffer: str, host: str, number: int, options: Mapping[str, Any]) -> Kept:
    """Make the segment of a shard. Raises what the buffer's constructor raises."""
    made, name = MPPrioritizedReplayBuffer(**options), _name(buffer, host, number)
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


def keep(name: str) -> None:
    """Wait until the name has been taken over; after `WAIT_SECONDS`, remove it."""
    end = time.monotonic() + WAIT_SECONDS
    while exists(name) and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    remove(name)
