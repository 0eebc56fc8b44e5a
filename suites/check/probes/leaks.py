"""A probe of what is left after buffers were discarded: memory, file descriptors and shared segments."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from adapters.behaviours import FAULT, Behaviour
from suites.check.functions import OPTIONS
from suites.check.probes.probing import Seen, times
from suites.check.probes.tracked import kinds, seen
from suites.check.reproduction import added, made
from suites.check.subject import Subject

CAPACITY, SHAPE = 256, (1_024,)  # 2 MB of observations and next observations
WARM, BUFFERS = 6, 12  # more in a long check, which therefore finds smaller leaks
SEGMENTS = "/dev/shm/"


class Leaks(Behaviour):
    """What is left of discarded buffers."""

    NOTHING = "nothing"
    DESCRIPTORS = "file descriptors", FAULT
    SEGMENTS = "shared segments", FAULT
    MEMORY = "memory", FAULT


def leak(subject: Subject) -> dict[str, Seen]:
    """Make, fill and discard buffers."""
    asked = dict(list(kinds(subject).values())[-1])
    if subject.can(obs_shape=None):
        asked["obs_shape"] = SHAPE
    others, segments = _segments(), set[str]()  # others: of buffers that live on, such as those of other probes
    for _ in range(WARM):
        segments |= _used(subject, asked)
    descriptors, memory = len(_descriptors()), own_memory()
    buffers = BUFFERS * times(subject.setting)
    for _ in range(buffers):
        segments |= _used(subject, asked)
    more, grown = len(_descriptors()) - descriptors, own_memory() - memory
    bytes_each = 2 * CAPACITY * int(np.prod(asked.get("obs_shape", OPTIONS["obs_shape"]))) * 4
    left = [each for each in segments - others if Path(each).exists()]
    after = f"after {buffers} buffers were discarded"
    if more >= BUFFERS:
        word, about, check = Leaks.DESCRIPTORS, f"{more} more descriptors {after}", _OPEN
    elif left:
        word, about, check = Leaks.SEGMENTS, f"{len(left)} segments in {SEGMENTS} {after}", _OPEN
    elif "obs_shape" in asked and grown > BUFFERS * bytes_each / 2:
        about = f"{grown / 2**20:.0f} MB more {after}, which held {buffers * bytes_each / 2**20:.0f} MB of observations"
        word, check = Leaks.MEMORY, _GROWN
    else:
        word, about, check = Leaks.NOTHING, f"{buffers} buffers were filled and discarded", ()
    return {"leaks": seen(word, about, buffers, _script(subject, asked, buffers, check))}


def _used(subject: Subject, asked: Mapping[str, Any]) -> set[str]:
    """Make, fill and discard a buffer. Return the segments that this process then knew."""
    obs = np.ones(asked.get("obs_shape", OPTIONS["obs_shape"]), OPTIONS["obs_dtype"])
    buffer = subject.make(CAPACITY, **asked)
    for i in range(CAPACITY):
        buffer.add(obs=obs, act=i % 5, rew=float(i), next_obs=obs, first=i == 0)
    segments = _segments()
    del buffer
    gc.collect()
    return segments


def _descriptors() -> dict[str, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the listing itself
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return found


def _segments() -> set[str]:
    mapped = [line.split(None, 5)[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line]
    names = [*_descriptors().values(), *mapped]
    return {name for name in names if name.startswith(SEGMENTS) and Path(name).exists()}


def own_memory() -> int:
    """Return the memory of this process in bytes, without what its allocator keeps for later, and without the pages of
    files, which the system loads when they are used and drops when it needs memory."""
    with suppress(AttributeError, OSError):  # not of glibc
        ctypes.CDLL(None).malloc_trim(0)
    lines = (line.partition(":") for line in Path("/proc/self/status").read_text().splitlines())
    return sum(1024 * int(value.split()[0]) for name, _, value in lines if name in ("RssAnon", "RssShmem", "VmSwap"))


#: For scripts: what is looked at before (x) and after (y) the buffers, and what must hold.
_OPEN = ('os.listdir("/proc/self/fd") + os.listdir("/dev/shm")', f"len({{*y}} - {{*x}}) < {BUFFERS}")
_GROWN = ('int(open("/proc/self/statm").read().split()[1])', f"y - x < {BUFFERS * CAPACITY * SHAPE[0] * 4 // 4096}")


def _script(subject: Subject, asked: Mapping[str, Any], buffers: int, check: tuple[str, ...]) -> list[str]:
    if not check:
        return []
    shape = asked.get("obs_shape", OPTIONS["obs_shape"])
    row = added(subject, obs=f"np.ones({shape}, 'f4')", next_obs=f"np.ones({shape}, 'f4')")
    return [
        "import gc, os\ndef use(buffers):\n    for _ in range(buffers):",
        f"        b = {made(subject, CAPACITY, **asked)}",
        f"        for i in range({CAPACITY}): {row}",
        f"    del b; gc.collect(); return {check[0]}",
        f"x = use({WARM}); y = use({buffers}); assert {check[1]}, (x, y)",
    ]


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {leak: ("leaks",)}
CHECKS: Mapping[str, type[Behaviour]] = {"leaks": Leaks}
