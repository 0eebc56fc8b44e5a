"""`cpprb.multiprocessing` by its own name, without its shared arrays: here all state is in one segment."""

from __future__ import annotations

from typing import Any

__all__ = ["try_start"]


def try_start(ctx: Any) -> None:
    """Start `ctx` if it is a SyncManager that has not been started; do nothing for any other context.

    Raises ProcessError for a manager that has shut down.
    """
    if ctx is None:
        return
    from multiprocessing import ProcessError, managers  # late: few buffers are made with a manager

    if not isinstance(ctx, managers.SyncManager):
        return
    # The standard library's stubs know neither of the two.
    state, known = ctx._state.value, managers.State  # type: ignore[attr-defined]
    if state == known.SHUTDOWN:
        raise ProcessError("ctx must be a manager that runs or can be started, got one that has shut down")
    if state == known.INITIAL:
        ctx.start()
