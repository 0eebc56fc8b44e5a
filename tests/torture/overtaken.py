"""Stop a learner between checking a row (L1) and copying it (L2) while the row's frames are reused.

    .ci/crash  builds the native module with failpoints, and runs this first

The explorer that has claimed the row's slot is stopped before it marks the slot, so only the row's number shows that
its frames are gone (L4 in docs/protocol.md).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import numpy as np

from cpprb_impl import MPReplayBuffer

from . import failpoints
from .certified import FRAMED, env_dict, ids, options, rows, torn

CAPACITY = 64
GONE, WHOLE, TORN = range(3)


def add(buffer: MPReplayBuffer, writer: int, first: int, count: int) -> None:
    for number in range(first, first + count):
        buffer.add(**{name: column[0] for name, column in rows(ids(writer, number, 1), FRAMED).items()})


def stopped_at(failpoint: str, job: Callable[[], int | None], nth: int = 1) -> int:
    """Return the id of a child that runs `job`, and stops itself when it reaches `failpoint` for the `nth` time."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            failpoints.arm(failpoint, nth, signal.SIGSTOP)
            code = job() or 0
        finally:
            os._exit(code)
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]), f"no process reached {failpoint}"
    return pid


def go_on(pid: int) -> int:
    os.kill(pid, signal.SIGCONT)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def read(buffer: MPReplayBuffer, slot: int) -> int:
    try:
        batch = buffer.get(np.array([slot]))
    except IndexError:
        return GONE
    return TORN if torn(batch).any() else WHOLE


def main() -> int:
    buffer = MPReplayBuffer(CAPACITY, env_dict(FRAMED), lock="none", **options(FRAMED))
    children = []
    try:
        add(buffer, 1, 1, CAPACITY)
        assert read(buffer, 0) == WHOLE
        learner = stopped_at("L2", lambda: read(buffer, 0))
        children.append(learner)
        explorer = stopped_at("E4", lambda: add(buffer, 2, 1, 1))
        children.append(explorer)
        add(buffer, 1, CAPACITY + 1, CAPACITY - 1)  # up to just before that slot
        answer = go_on(children.pop(0))
        status = go_on(children.pop(0))
        everything = buffer.get_all_transitions()
        good = (answer, status, len(everything["id"]), int(torn(everything).sum())) == (GONE, 0, CAPACITY, 0)
        print("a row whose frames were used again while it was read:", ("gone", "WHOLE?", "TORN")[answer])
        return 0 if good else 1
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        buffer.close()


if __name__ == "__main__":
    sys.exit(main())
