"""Control the failpoints, the numbered steps of docs/protocol.md, in a native module built with them (.ci/crash)."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import cpprb_impl._native as module

# Reached where a segment is made: making.py.
OF_MAKING = ("M0", "M1", "M2", "M3", "M4", "M5", "M6", "M7")
# Reached beside a learner that is far behind: late_learner.py.
OF_GIVING_WAY = ("E9",)

_library = ctypes.CDLL(module.__file__)


def are_built_in() -> bool:
    return hasattr(_library, "cpprb_impl_arm_failpoint")


def names() -> list[str]:
    """All that stand in the sources, which lie beside the package."""
    sources = Path(module.__file__).parent.rglob("*.?pp")
    return sorted(
        {name for file in sources for name in re.findall(r"RB_FAILPOINT\((\w+)\)", file.read_text())} - {"name"}
    )


def arm(failpoint: str, nth: int, signal: int) -> None:
    """This process raises `signal` on itself the `nth` time from now that it comes to `failpoint`."""
    _library.cpprb_impl_arm_failpoint(failpoint.encode(), ctypes.c_long(nth), ctypes.c_int(signal))
