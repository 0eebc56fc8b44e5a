"""Segments that outlive their maker, so that a shard that is started again finds its rows.

A segment's own name disappears with its maker. Therefore it gets a second one, a hard link in /dev/shm. The servers of
the shard keep the memory alive, and remove that name if no new shard has taken it over some seconds after the old one
died. If they are killed, too, it is removed when the next buffer is made on this host, as for any buffer.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cpprb_impl.shared import MPPrioritizedReplayBuffer

FOLDER = Path("/dev/shm")
WAIT_SECONDS = 20.0  # for a new shard to take a name over
LOOK_SECONDS = 0.2


def new_name() -> str:
    """Return a name that no segment has. Its prefix lets abandoned segments be found."""
    return f"/cpprb_impl-shard-{secrets.token_hex(8)}"


def _path(name: str) -> Path:
    return FOLDER / name.lstrip("/")


def exists(name: str) -> bool:
    """Return whether a segment has this name."""
    return _path(name).exists()


def make(name: str, options: Mapping[str, Any]) -> MPPrioritizedReplayBuffer:
    """Make a buffer whose segment also has this name. Raises what the constructor raises."""
    buffer = MPPrioritizedReplayBuffer(**options)
    os.link(_path(buffer.segment), _path(name))
    return buffer


def take_over(old: str, new: str) -> MPPrioritizedReplayBuffer | None:
    """Attach to the segment with this name, and give it another one. Return None if it is gone."""
    try:
        buffer = MPPrioritizedReplayBuffer.attach(old)
        _path(old).rename(_path(new))  # from now on, nobody removes it
    except FileNotFoundError:
        return None
    return buffer


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
