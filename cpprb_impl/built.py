"""Raise an error that says what to do if the package is imported from a source tree without a built native module."""

from __future__ import annotations

import sysconfig
from pathlib import Path

try:
    import cpprb_impl._native  # noqa: F401 - checks that it exists
except ModuleNotFoundError as error:
    if error.name != "cpprb_impl._native":
        raise
    _folder = Path(__file__).resolve().parent
    _others = ", ".join(sorted(path.name for path in _folder.glob("_native.*.so")))
    raise ModuleNotFoundError(
        f"cpprb_impl must be built before it is imported, and {_folder} has "
        f"{f'{_others}, which is for a different Python, but ' if _others else ''}"
        f"no _native{sysconfig.get_config_var('EXT_SUFFIX')}: run `make setup` in {_folder.parent} and use its "
        "`.venv/bin/python`, or run `pip install .` there and then start Python in a different folder",
        name=error.name,
    ) from None
