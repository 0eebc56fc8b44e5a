"""Import the released code of OpenAI Baselines and ChainerRL without the discontinued frameworks that they depend
on."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Sequence
from pathlib import Path

#: The venv for both libraries and DreamerV3. It has a NumPy version from their time, and none of their other
#: requirements.
VENV = "legacy"


def load(module: str, hollow: Sequence[str]) -> types.ModuleType:
    """Import a module of either library. Each package in `hollow` is replaced by a stub that only has submodules,
    because its own code imports TensorFlow 1 or Chainer, which the buffers do not use."""
    if module not in sys.modules:
        found = importlib.util.find_spec(module.partition(".")[0])
        if found is None or found.origin is None:
            raise ModuleNotFoundError(f"No module named {module!r}")
        site = Path(found.origin).parent.parent
        for name in hollow:
            stub = sys.modules[name] = types.ModuleType(name)
            stub.__path__ = [str(site.joinpath(*name.split(".")))]
    return importlib.import_module(module)
