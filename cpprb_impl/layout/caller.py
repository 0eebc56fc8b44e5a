"""Warnings that name the line in the user's code, however deep the calls within this package are."""

from __future__ import annotations

import sys
import warnings

# Stable-Baselines3's classes and ours call each other's methods.
OURS = frozenset({"cpprb_impl", "stable_baselines3"})


def warn(text: str) -> None:
    """Issue a UserWarning that names the caller's line.

    Python shows a warning once per line. If a warning named a line in this package, only a process's first buffer would
    cause a warning.
    """
    warnings.warn(text, UserWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return the `stacklevel`, in `warn`, of the first frame outside this package, or else of the outermost frame."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        level, frame = level + 1, frame.f_back
    return level
