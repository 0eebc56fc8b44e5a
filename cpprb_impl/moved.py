"""Modules under the names that version 0.1's pickles use for them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

MOVED = {
    "autoreset": "ring.autoreset",
    "copies": "buffers.copying",
    "description": "layout.layout",
    "environments": "layout.spaces",
    "hindsight": "strategies.hindsight",
    "host": "processes.host",
    "large_batch": "strategies.large_batch",
    "nstep": "ring.nstep",
    "objects": "ring.objects",
    "order": "ring.order",
    "pieces": "contents.pieces",
    "reverse": "strategies.reverse",
    "row_reader": "ring.row_reader",
    "selective": "strategies.selective",
    "shared": "buffers.shared",
    "state": "contents.state",
    "step_state": "integrations.step_state",
    "steps": "integrations.steps",
}


class MovedModules:
    """Imports a moved module under its former name, as the same module.

    A finder and a loader, without their base classes in importlib.abc, whose import takes 2 ms.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return a spec for importing `name`, if it is a module's former name."""
        package, _, former = name.rpartition(".")
        return ModuleSpec(name, cast("Any", self)) if package == "cpprb_impl" and former in MOVED else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, so that Python creates an ordinary module, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Import the module under its present name, and register it under its former name."""
        package, _, former = module.__name__.rpartition(".")
        # The import statement returns the entry of sys.modules once this has run.
        sys.modules[module.__name__] = importlib.import_module(f"{package}.{MOVED[former]}")


sys.meta_path.append(MovedModules())  # last, so that it hides nothing
