"""Going on with a run that was interrupted: its file keeps what was measured, and only the rest is measured."""

from __future__ import annotations

from pathlib import Path

from results import BadRecord, Run, load, machine
from results.record import now


def resumed(path: Path, new: Run) -> Run:
    """Return the run in this file, to go on with it as `new`, the run that the same command would begin.

    Raises `BadRecord` if the two would differ in more than their time: in command, machine or measured code.
    """
    run = load(path)
    if run.is_whole:
        raise BadRecord(f"{path}: the run is complete: there is nothing to go on with")
    if run.command != new.command:
        raise BadRecord(f"{path}: was measured by `{run.command}`, got `{new.command}`")
    for name, value in new.machine.items():
        if run.machine[name] != value:
            raise BadRecord(f"{path}: {name} of the machine was {run.machine[name]}, but is {value}")
    for revision in (run.revision, new.revision):
        if revision == "unknown" or revision.endswith("+dirty"):
            raise BadRecord(f"{path}: the measured code must be a commit, got revision {revision}")
    if changed := machine.changed_since(run.revision):
        raise BadRecord(f"{path}: the measured code has changed since then: {', '.join(changed[:3])}")
    run.finished, run.interrupted = None, False
    run.resumed.append(now())
    return run
