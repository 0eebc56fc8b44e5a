"""Imports modules of unpacked releases without what they require and their buffers do not use.

Needs Python 3.7, as old releases are imported in the Python of their time.
"""

from __future__ import annotations

import collections
import collections.abc
import importlib
import importlib.util
import os
import sys
import types
from unittest.mock import MagicMock

import numpy as np

for _name, _type in {"int": int, "float": float, "bool": bool, "object": object, "str": str}.items():
    if _name not in vars(np):  # removed in NumPy 1.24
        setattr(np, _name, _type)
for _name in ("Iterable", "Sequence", "Mapping", "Callable", "Sized"):
    if not hasattr(collections, _name):  # removed in Python 3.10
        setattr(collections, _name, getattr(collections.abc, _name))


def hollow(*packages: str) -> None:
    """Replace packages by modules that have submodules, but do not run the package's own code."""
    for name in packages:
        if name in sys.modules:
            continue
        parent, _, last = name.rpartition(".")
        if parent:
            folders = [os.path.join(each, last) for each in sys.modules[parent].__path__]
        else:
            folders = [os.path.dirname(importlib.util.find_spec(name).origin)]  # type: ignore[union-attr, type-var, list-item]
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = folders
        if parent:
            setattr(sys.modules[parent], last, module)


def mock(*modules: str) -> None:
    """Replace modules that cannot be imported by mocks."""
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception:
            module = MagicMock(name=name)
            module.__spec__, module.__path__ = None, []
            sys.modules[name] = module


def box(spaces, shape, dtype):  # type: ignore[no-untyped-def]
    """Return a space of Gym or Gymnasium with all values of a dtype."""
    low, high = (-np.inf, np.inf) if np.dtype(dtype).kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return spaces.Box(low, high, shape, dtype)
