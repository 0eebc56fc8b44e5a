"""`multiprocessing` managers, which a shared buffer accepts as `ctx`."""

from __future__ import annotations

from typing import Any


def try_start(ctx: Any) -> None:
    """Start `ctx` if it is a SyncManager that has not been started; do nothing for any other context.

    Raises ProcessError if the manager has been shut down.
    """
    if ctx is None:
        return
    from multiprocessing import ProcessError, managers  # imported late: few buffers use a manager

    if not isinstance(ctx, managers.SyncManager):
        return
    # The type stubs of the standard library contain neither of these attributes.
    state, known = ctx._state.value, managers.State  # type: ignore[attr-defined]
    if state == known.SHUTDOWN:
        raise ProcessError("ctx must be a manager that is running or can be started, got one that has shut down")
    if state == known.INITIAL:
        ctx.start()
