"""The names of dtypes in untrusted files and segments."""

from __future__ import annotations

import re

import numpy as np

DTYPE = re.compile(r"[<>|][biufcmMSUVO][0-9]{0,10}(\[[0-9]{0,10}[A-Za-z]{1,7}\])?")


def dtype_named(name: str) -> np.dtype:
    """Return the dtype whose `str` is `name`. Raises ValueError if there is none."""
    if not DTYPE.fullmatch(name):
        raise ValueError(f"dtype must be a plain NumPy type string such as '<f4', got {name[:40]!r}")
    dtype = np.dtype(name)
    if dtype.str != name:  # NumPy's own size arithmetic can overflow
        raise ValueError(f"dtype must be a plain NumPy type string such as '<f4', got {name!r}")
    return dtype
