"""Check that the stored size counts exactly the readable rows while an explorer is stopped in its first lap.

    .ci/crash  builds the native module with failpoints, and runs this too

If it is stopped at E3, its claim is announced but not yet made, so other explorers add those rows. At E7, all of its
rows can be read; at steps in between, some of them.
"""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

from cpprb_impl import MPReplayBuffer

from .overtaken import stopped_at

CAPACITY, CHUNK = 16_384, 256


def faults(failpoint: str, nth: int, others: int) -> list[str]:
    buffer = MPReplayBuffer(CAPACITY, {"a": {"dtype": np.int64}}, lock="none")
    stopped = stopped_at(failpoint, lambda: buffer.add(a=np.arange(CHUNK)), nth)
    try:
        found = []
        for rows in (*[others // 10] * 10, CAPACITY):  # the last call begins a second lap
            buffer.add(a=np.arange(rows))
            stored, readable = buffer.get_stored_size(), len(buffer.get_all_transitions()["a"])
            if stored != readable:
                found.append(
                    f"stopped at {failpoint} ({nth}): {stored} rows are said to be stored, {readable} are there"
                )
        return found
    finally:
        os.kill(stopped, signal.SIGKILL)
        os.waitpid(stopped, 0)
        buffer.close()


def main() -> int:
    bad = []
    for failpoint, nth in (("E2", 1), ("E3", 1), ("E4", 1), ("E4", 100), ("E6", 1), ("E6", 100), ("E7", 1)):
        for others in (300, CAPACITY - CHUNK, CAPACITY):
            bad += faults(failpoint, nth, others)
    print(
        "rows that are stored, beside an explorer that is stopped in the first lap:", "MISCOUNTED" if bad else "counted"
    )
    print("\n".join(bad[:10]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
