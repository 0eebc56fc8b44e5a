"""Check that explorers yield the processor to a learner that is far behind (E9), only then, and not for too long.

.ci/crash  builds the native module with failpoints, and runs this too
"""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

from cpprb_impl import MPPrioritizedReplayBuffer

from . import failpoints

(E9,) = failpoints.OF_GIVING_WAY
CAPACITY = 65_536
FAR_BEHIND, ROWS_PER_SAMPLE = 16_384, 256  # kFarBehind and kRowsPerSample in core/priority_view.hpp


def yields(buffer: MPPrioritizedReplayBuffer, rows: int) -> bool:
    """Whether another process yields after it has added so many rows in one call."""
    pid = os.fork()
    if pid == 0:
        failpoints.arm(E9, 1, signal.SIGKILL)
        buffer.add(a=np.arange(rows))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def main() -> int:
    buffer = MPPrioritizedReplayBuffer(CAPACITY, {"a": {"dtype": np.int64}}, lock="none")
    wrong = []

    def expect(wanted: bool, rows: int, when: str) -> None:
        if yields(buffer, rows) != wanted:
            wrong.append(f"an explorer {'does not yield' if wanted else 'yields'} {when}")

    try:
        expect(False, FAR_BEHIND + 1, "although no learner has sampled")
        buffer.sample(1)
        expect(False, FAR_BEHIND, "to a learner that has just joined")
        buffer.sample(1)
        expect(False, FAR_BEHIND + 1, "to a learner that was not far behind")
        buffer.sample(1)
        expect(True, 1, "to a learner that was far behind")
        failpoints.arm(E9, 1, signal.SIGKILL)
        buffer.add(a=np.arange(1))  # in the learner's own process: would kill this one
        for _ in range(FAR_BEHIND // ROWS_PER_SAMPLE - 1):
            buffer.sample(1)
        expect(True, 1, "to a learner that has not yet taken its samples")
        buffer.sample(1)
        expect(False, 1, "to a learner that has taken its samples")
        expect(False, FAR_BEHIND + 1, "to a learner that no longer samples, because none is far behind")
        buffer.sample(1)
        expect(True, 1, "to a learner that is far behind again")
        expect(False, CAPACITY, "to a learner that no longer samples, after one lap of the ring")
        print(
            "explorers beside a learner that is far behind:",
            "WRONG" if wrong else "yield until it has taken its samples",
        )
        print("\n".join(wrong))
        return 1 if wrong else 0
    finally:
        buffer.close()


if __name__ == "__main__":
    sys.exit(main())
