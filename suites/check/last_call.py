"""The last calls of a buffer, where the watching process can read them after the caller hung or died."""

from __future__ import annotations

import mmap
import os

BYTES, COUNT_BYTES = 512, 8
TEXT = COUNT_BYTES + 1  # where the calls begin: after the count, and a byte that is 1 if the last one has returned
KEPT = 6  # entries: a call with the number of its repetitions, or a gap; the oldest made the buffer
MAKE, GAP = "make(", "..."  # the beginning of a call that makes a buffer; a placeholder for calls that are not kept
TIMES = "{times} x {call}"
_page: mmap.mmap | None = None
_calls = 0
_runs: list[tuple[int, str]] = []  # how often a call was repeated, and the call; the newest first


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
    global _calls, _runs
    if _page is not None:
        _calls += 1
        before = [] if call.startswith(MAKE) else _runs
        times = before[0][0] if before and before[0][1] == call else 0
        _runs = [(times + 1, call), *before[times > 0 :]]
        if len(_runs) > KEPT:
            _runs[KEPT - 2 : -1] = [(1, GAP)]
        text = "\n".join(f"{times} {call}" for times, call in _runs)
        _page[COUNT_BYTES:] = b"\0" + text.encode()[: BYTES - TEXT - 1].ljust(BYTES - TEXT, b"\0")
        _page[:COUNT_BYTES] = _calls.to_bytes(COUNT_BYTES, "little")


def returned() -> None:
    """Note that the last call has returned, or raised. Does nothing in a process that is not watched."""
    if _page is not None:
        _page[COUNT_BYTES] = 1


def read(fd: int) -> str:
    """Return the last call that was noted; "" if there is none."""
    return next(iter(_noted(fd)), (0, ""))[1]


def before(fd: int) -> str:
    """Return the calls before the last one, in the order in which they were made."""
    (times, call), *earlier = _noted(fd) or [(0, "")]
    runs = [*reversed(earlier), *([(times - 1, call)] if times > 1 else [])]
    return "; ".join(TIMES.format(times=times, call=call) if times > 1 else call for times, call in runs)


def _noted(fd: int) -> list[tuple[int, str]]:
    text = os.pread(fd, BYTES - TEXT, TEXT).rstrip(b"\0").decode(errors="replace")
    runs = [line.partition(" ") for line in text.splitlines()]
    return [(int(times), call) for times, _, call in runs if times.isdigit()]


def count(fd: int) -> int:
    """Return how many calls have begun."""
    return int.from_bytes(os.pread(fd, COUNT_BYTES, 0), "little")


def in_progress(fd: int) -> bool:
    """Return whether the last call has not returned."""
    return os.pread(fd, 1, COUNT_BYTES) == b"\0"
