"""The adapter of another project, for comparing its buffer with other buffers, or two versions of its buffer.

The environment variable REPLAYBENCH_ADAPTER names the adapter's file, so that launches read it too. The adapter is then
a single-process peer. docs/gate-elsewhere.md says how to write one.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import cache
from pathlib import Path

from adapters import venvs
from adapters.base import Adapter

VARIABLE = "REPLAYBENCH_ADAPTER"


class BadAdapter(Exception):  # noqa: N818 (named like its siblings in base)
    """The file does not define exactly one usable adapter; the message says why."""


def adapters() -> dict[str, type[Adapter]]:
    """Return the adapter as {its name: its class}, or an empty dict if the variable is not set. Raises `BadAdapter`."""
    file = os.environ.get(VARIABLE)
    if not file:
        return {}
    found = _load(file)
    return {found.name: found}


def use(file: Path) -> type[Adapter]:
    """Make the adapter in this file a peer, here and in launches, with the venv that it needs."""
    os.environ[VARIABLE] = str(file.resolve())
    (mine,) = adapters().values()
    if mine.venv:
        if venvs.is_known(mine.venv):
            venvs.make(mine.venv)
        if trouble := venvs.trouble(mine.venv):
            raise BadAdapter(f"{file.name}: {trouble}")
    return mine


@cache
def _load(file: str) -> type[Adapter]:
    spec = importlib.util.spec_from_file_location("external_adapter", file)
    if spec is None or spec.loader is None or not Path(file).is_file():
        raise BadAdapter(f"no such Python file: {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look it up
    writes_nothing, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # write no files into the project's folder
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadAdapter(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.dont_write_bytecode = writes_nothing
    mine = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    found = [each for each in mine if issubclass(each, Adapter)]
    if len(found) != 1:
        names = ", ".join(each.__name__ for each in found) or "none"
        raise BadAdapter(f"{file} must define one subclass of adapters.base.Adapter, but defines: {names}")
    if lacking := [name for name in ("name", "distribution", "usage", "contract") if not hasattr(found[0], name)]:
        raise BadAdapter(f"{file}: {found[0].__name__} lacks {', '.join(lacking)}")
    if hasattr(found[0], "environment"):
        raise BadAdapter(f"{file}: {found[0].__name__}.environment must be named venv")
    return found[0]
