"""Checks free space on disk and in shared memory: launches that are killed for lack of space would look like
regressions."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from results.analysis.verdict import HarnessError
from suites.gate.sources import FOLDER
from suites.runner.segments import SHARED_MEMORY

NEEDED = 20 * 2**20  # bytes in each folder


def check_room() -> None:
    """Raise HarnessError unless there is room for builds, figures and shared buffers."""
    for folder in (FOLDER, Path(tempfile.gettempdir()), SHARED_MEMORY):
        free = shutil.disk_usage(folder).free if folder.exists() else NEEDED
        if free < NEEDED:
            amounts = f"{NEEDED / 2**20:.0f} MiB free, got {free / 2**20:.1f} MiB"
            raise HarnessError(f"{folder} must have {amounts}: make room there, and run the gate again")
