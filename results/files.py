"""The location of run files.

The user's own runs are in results/runs/ (ignored by git), this project's runs are in results/reference/, and runs from
other people's machines are in results/machines/.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from results.record import Run, today

HERE = Path(__file__).resolve().parent
RUNS = HERE / "runs"
REFERENCE = HERE / "reference"
MACHINES = HERE / "machines"


def new_path(run: Run, folder: Path = RUNS) -> Path:
    """Return a new, dated file name for this run, such as runs/bench-quick-20261120T063000Z.json."""
    started = run.started.replace("-", "").replace(":", "")
    stem = f"{run.kind}-{run.profile}-{started}"
    names = (stem if number == 1 else f"{stem}-{number}" for number in range(1, 1_000_000))
    return next(path for path in (folder / f"{name}.json" for name in names) if not path.exists())


def latest(
    kind: str = "bench", folders: tuple[Path, ...] = (RUNS, REFERENCE), profile: str | None = None
) -> Path | None:
    """Return the newest run file (of this profile) of the first folder that has one, or None if there is none.

    The start time in the file decides which is newest, since git sets every file's modification time to that of the
    checkout. If a file is too broken to have a start time, its modification time is used, so that the caller sees the
    error instead of silently reporting an older run.
    """
    for folder in folders:
        found = [
            (started, path) for path in folder.glob("*.json") if (started := _started(path, kind, profile)) is not None
        ]
        if found:
            return max(found)[1]
    return None


def _started(path: Path, kind: str, profile: str | None) -> str | None:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))["run"]
        wanted = about["kind"] == kind and profile in (None, today(about["profile"]))
        return str(about["started"]) if wanted else None
    except (OSError, ValueError, LookupError, TypeError):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
