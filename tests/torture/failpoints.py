"""Control the failpoints, the numbered steps of docs/protocol.md, in a native module built with them (.ci/crash)."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import cpprb_impl._native as module

# Reached while a segment is made: making.py.
OF_MAKING = ("M0", "M1", "M2", "M3", "M4", "M5", "M6", "M7")
# Reached by explorers while a learner is far behind: late_learner.py.
OF_GIVING_WAY = ("E9",)

_library = ctypes.CDLL(module.__file__)


def are_built_in() -> bool:
    return hasattr(_library, "cpprb_impl_arm_failpoint")


def names() -> list[str]:
    """Return all failpoints in the sources, which are in the folder of the package."""
    sources = Path(module.__file__).parent.rglob("*.?pp")
    return sorted(
        {name for file in sources for name in re.findall(r"RB_FAILPOINT\((\w+)\)", file.read_text())} - {"name"}
    )


def arm(failpoint: str, nth: int, signal: int) -> None:
    """Let this process raise `signal` on itself when it reaches `failpoint` for the `nth` time from now."""
    _library.cpprb_impl_arm_failpoint(failpoint.encode(), ctypes.c_long(nth), ctypes.c_int(signal))
