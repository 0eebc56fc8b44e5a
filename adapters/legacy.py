"""OpenAI Baselines and ChainerRL, the released code itself, without the dead frameworks that they import."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Sequence
from pathlib import Path

#: Where both are installed, with the NumPy of their time and without what else they ask for.
ENVIRONMENT = "legacy"


def load(module: str, hollow: Sequence[str]) -> types.ModuleType:
    """A module of theirs. The packages in `hollow` are left empty but for their submodules: what they would import
    brings in TensorFlow 1 or Chainer, of which the buffers use nothing."""
    if module not in sys.modules:
        found = importlib.util.find_spec(module.partition(".")[0])
        if found is None or found.origin is None:
            raise ModuleNotFoundError(f"No module named {module!r}")
        site = Path(found.origin).parent.parent
        for name in hollow:
            stub = sys.modules[name] = types.ModuleType(name)
            stub.__path__ = [str(site.joinpath(*name.split(".")))]
    return importlib.import_module(module)
