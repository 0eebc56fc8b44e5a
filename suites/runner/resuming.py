"""Resumes an interrupted run: its file keeps the measured cells, and only the others are measured."""

from __future__ import annotations

from pathlib import Path

from results import BadRecord, Run, load, machine
from results.record import now


def resumed(path: Path, new: Run) -> Run:
    """Return the run in this file, to be continued as `new`, the run that the same command would begin.

    Raises `BadRecord` if the two runs would differ in command, machine or measured code.
    """
    run = load(path)
    if run.is_whole:
        raise BadRecord(f"{path}: the run is complete; nothing is left to measure")
    if run.command != new.command:
        raise BadRecord(f"{path}: the command must be `{run.command}`, got `{new.command}`")
    for name, value in new.machine.items():
        if (was := run.machine.get(name, "unknown")) != value:
            raise BadRecord(f"{path}: the machine's {name} must be {was}, got {value}")
    if run.revision == "unknown" or new.revision == "unknown":
        raise BadRecord(f"{path}: only a run in a git checkout can be resumed, since the measured code must not change")
    if run.revision.endswith("+dirty"):
        raise BadRecord(f"{path} was measured with uncommitted changes ({run.revision}), so it cannot be resumed")
    if new.revision.endswith("+dirty"):
        raise BadRecord(f"commit or stash your changes before resuming {path}: this checkout is at {new.revision}")
    if changed := machine.changed_since(run.revision):
        raise BadRecord(f"{path}: the measured code has changed since then: {', '.join(changed[:3])}")
    run.finished, run.interrupted = None, False
    run.resumed.append(now())
    return run
