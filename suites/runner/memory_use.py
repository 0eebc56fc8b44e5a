"""The memory of a launch's processes."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import psutil


def in_use() -> int:
    """Return the proportional set size of this process and its descendants, in bytes."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)  # return freed memory, which must not count, to the system
    return sum(_own(process) for process in family())


def family() -> list[int]:
    me = psutil.Process()
    return [process.pid for process in [me, *me.children(recursive=True)]]


def _own(process: int) -> int:
    """Return the anonymous and shared memory of a process. File-backed pages are excluded: the share of a library's
    pages that counts depends on how many other processes have mapped it."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    kibibytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines[1:])}
    return 1024 * (kibibytes["Pss_Anon"] + kibibytes["Pss_Shmem"])
