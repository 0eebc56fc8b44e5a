"""Warn of buffers that will not fit, since the system grants any amount of memory, and fails only once it is used."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cpprb_impl.layout.caller import warn
from cpprb_impl.layout.fields import LARGEST, NativeField

SMALL = 1 << 26  # bytes: smaller buffers fit anywhere, and determining the available room takes about 0.1 ms
SHM = "/dev/shm"
UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"))
GROUPS, MOUNTED = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
ADVICE = (
    "a smaller size, smaller dtypes (uint8 for images), and frames that are stored once (next_of, stack_compress) "
    "need less"
)


def warn_if_too_large(
    size: int,
    fields: Sequence[NativeField],
    stacked: Mapping[str, int],
    *,
    compressed: bool = False,
    prefix: str | None = None,
    shared: bool = False,
) -> None:
    """Warn if `size` transitions exceed memory or, with the `prefix` of their files, disk space.

    Parameters
    ----------
    size : int
    fields : sequence of (name, dtype, shape)
        The stored fields, without next_* of `next_of`.
    stacked : mapping of str to int
        The axis of each field's frames. Each transition stores at least one frame.
    compressed : bool
        Whether frames of `stacked` are compressed: their size is then unknown, and not counted.
    """
    needed = sum(size * _row_bytes(field, stacked, compressed) for field in fields)
    if not SMALL <= needed <= LARGEST:  # the native ring rejects larger buffers
        return
    if prefix:
        what, rooms, advice = "disk space", _room_on_disk(prefix, fields), ADVICE
    else:
        what, rooms, advice = "memory", _room_in_memory(shared), f"{ADVICE}; mmap_prefix keeps the fields in files"
    where = min(rooms, key=rooms.__getitem__, default=None)
    if where is not None and needed > rooms[where]:
        if where == SHM:
            advice = f"{advice}; a container gets more with docker run --shm-size=8g"
        text = f"the buffer needs {_amount(needed)} of {what} when it is full, but {where} has {_amount(rooms[where])}"
        warn(f"{text}: {advice}")


def _row_bytes(field: NativeField, stacked: Mapping[str, int], compressed: bool) -> int:
    name, dtype, shape = field
    row = dtype.itemsize * math.prod(shape)
    if name not in stacked or not shape:
        return row
    return 0 if compressed else row // max(shape[stacked[name]], 1)


def _room_in_memory(shared: bool) -> dict[str, int]:
    rooms = {"this machine": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}
    if limits := list(group_limits()):
        rooms["this process's cgroup"] = min(limits)
    if shared:
        with suppress(OSError):
            disk = os.statvfs(SHM)
            rooms[SHM] = disk.f_blocks * disk.f_frsize
    return rooms


def _room_on_disk(prefix: str, fields: Sequence[NativeField]) -> dict[str, int]:
    """Return the free space once the files that the buffer replaces are gone; nothing if that is unknown."""
    folder = os.path.dirname(prefix) or "."
    with suppress(OSError):
        disk = os.statvfs(folder)
        room = disk.f_bavail * disk.f_frsize
        for name, *_ in fields:
            with suppress(OSError):
                room += os.stat(f"{prefix}_{name}.dat").st_blocks * 512
        if disk.f_blocks:
            return {f"the disk of {folder}": room}
    return {}


def group_limits(groups: Path = GROUPS, mounted: Path = MOUNTED) -> Iterator[int]:
    """Yield the memory limits, in bytes, of this process's control groups, version 1 or 2."""
    with suppress(OSError):
        for line in groups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                top, name = mounted, "memory.max"
            elif controllers == "memory":
                top, name = mounted / "memory", "memory.limit_in_bytes"
            else:
                continue
            group = top / path.lstrip("/")  # in a container, it may exist only on the host
            for folder in (group, *group.parents):
                with suppress(OSError, ValueError):  # there is no file, or the limit is "max"
                    yield int((folder / name).read_text())
                if folder == top:
                    break


def _amount(number: int) -> str:
    unit, name = next(((unit, name) for unit, name in UNITS if number >= unit), (1 << 10, "KiB"))
    return f"{number / unit:,.1f} {name}"
