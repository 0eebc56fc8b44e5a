"""Warnings in the name of the user's code, whatever functions of this package call each other."""

from __future__ import annotations

import sys
import warnings

# Stable-Baselines3's classes and ours call each other's methods.
OURS = frozenset({"cpprb_impl", "stable_baselines3"})


def warn(text: str) -> None:
    """Issue a UserWarning that names the caller's line.

    Python shows a warning once for each line. If it named a line of this package, only the first buffer of a process
    would cause one.
    """
    warnings.warn(text, UserWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return `stacklevel`, in `warn`, for the first frame outside this package; the outermost if all are in it."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        level, frame = level + 1, frame.f_back
    return level
