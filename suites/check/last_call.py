"""The last call of a buffer, where the watching process can read it after the caller hung or died."""

from __future__ import annotations

import mmap
import os

BYTES, COUNT_BYTES = 256, 8
_page: mmap.mmap | None = None
_calls = 0


def shared() -> int:
    """Return a file descriptor for the call, which a child process inherits."""
    fd = os.memfd_create("last-call")
    os.ftruncate(fd, BYTES)
    return fd


def write_to(fd: int) -> None:
    """Make `note` write to this descriptor."""
    global _page
    _page = mmap.mmap(fd, BYTES)


def note(call: str) -> None:
    """Note that this call begins. Does nothing in a process that is not watched."""
    global _calls
    if _page is not None:
        _calls += 1
        _page[COUNT_BYTES:] = call.encode()[: BYTES - COUNT_BYTES - 1].ljust(BYTES - COUNT_BYTES, b"\0")
        _page[:COUNT_BYTES] = _calls.to_bytes(COUNT_BYTES, "little")


def read(fd: int) -> str:
    """Return the last call that was noted; "" if there is none."""
    return os.pread(fd, BYTES - COUNT_BYTES, COUNT_BYTES).rstrip(b"\0").decode(errors="replace")


def count(fd: int) -> int:
    """Return how many calls have begun."""
    return int.from_bytes(os.pread(fd, COUNT_BYTES, 0), "little")
