"""Check a replay buffer: `make check BUFFER=module:Class`, or `check(Class)` from Python (docs/check.md)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suites.check.run import Report


def check(
    buffer: type | str,
    *,
    like: str | None = None,
    project: str | os.PathLike[str] | None = None,
    only: tuple[str, ...] = (),
    **settings: float,
) -> Report:
    """Check a replay buffer, and return a report, which is true if no fault was found.

    `buffer` is a class, "module:Class", or the path of a file with functions (`suites.check.functions`); `like` is an
    API family, for a class that does not show its own; `project` is the folder from which the module is imported;
    `only` names checks; `settings` are those of `suites.check.subject.CheckSettings`, such as `draws` and `seconds`.

    Raises `suites.check.run.CouldNotCheck` if the buffer cannot be called at all or a check is unknown, and ValueError
    for a class that cannot be imported by its name.
    """
    from suites.check import run  # needs NumPy, which suites.check.venv does without

    return run.check(buffer, like, project, only, settings)
