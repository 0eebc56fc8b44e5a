"""Check that explorers yield the processor to learners that are far behind (E9), but only then and not for long.

.ci/crash  builds the native module with failpoints, and runs this too
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from cpprb_impl import MPPrioritizedReplayBuffer

from . import failpoints

(E9,) = failpoints.OF_GIVING_WAY
CAPACITY = 65_536
FAR_BEHIND, ROWS_PER_SAMPLE = 16_384, 256  # kFarBehind and kRowsPerSample in core/shared/priority_view.hpp
GIVES_WAY_FOR = 0.02  # seconds: kGivesWayNanoseconds in core/shared/shared_store.hpp


def yields(buffer: MPPrioritizedReplayBuffer, rows: int) -> bool:
    """Return whether another process yields after it has added this many rows in one call."""
    pid = os.fork()
    if pid == 0:
        failpoints.arm(E9, 1, signal.SIGKILL)
        buffer.add(a=np.arange(rows))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def yields_for_long(buffer: MPPrioritizedReplayBuffer) -> bool:
    """Return whether another process yields after two calls, the second of them much later."""
    pid = os.fork()
    if pid == 0:
        failpoints.arm(E9, 1, signal.SIGSTOP)
        buffer.add(a=0)
        failpoints.arm(E9, 1, signal.SIGKILL)
        buffer.add(a=0)
        os._exit(0)
    while os.WIFSTOPPED(status := os.waitpid(pid, os.WUNTRACED)[1]):
        time.sleep(10 * GIVES_WAY_FOR)
        os.kill(pid, signal.SIGCONT)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


@contextlib.contextmanager
def another_learner(buffer: MPPrioritizedReplayBuffer) -> Iterator[Callable[[int], None]]:
    """Yield a function that draws this many samples in another process, which closes its buffer at the end."""
    samples, their_samples = multiprocessing.Pipe()

    def learn() -> None:
        samples.close()
        with contextlib.suppress(EOFError):
            while True:
                for _ in range(their_samples.recv()):
                    buffer.sample(1)
                their_samples.send(None)
        buffer.close()

    def draw(count: int) -> None:
        samples.send(count)
        samples.recv()

    learner = multiprocessing.get_context("fork").Process(target=learn)
    learner.start()
    their_samples.close()
    try:
        yield draw
    finally:
        samples.close()
        learner.join()


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
        buffer.add(a=np.arange(1))  # in the learner's own process: reaching E9 would kill this process
        for _ in range(FAR_BEHIND // ROWS_PER_SAMPLE - 1):
            buffer.sample(1)
        expect(True, 1, "to a learner that has not yet taken its samples")
        buffer.sample(1)
        expect(False, 1, "to a learner that has taken its samples")
        expect(False, FAR_BEHIND + 1, "to a learner that no longer samples, because none is far behind")
        buffer.sample(1)
        expect(True, 1, "to a learner that is far behind again")
        if yields_for_long(buffer):
            wrong.append("an explorer yields to the same request for long")
        expect(True, 1, "to a request that it has not seen before")
        expect(False, CAPACITY, "to a learner that no longer samples, after one lap of the ring")
        buffer.sample(1)
        with another_learner(buffer) as sample_there:
            sample_there(1)
            buffer.add(a=np.arange(FAR_BEHIND + 1))
            buffer.sample(1)
            buffer.add(a=0)
            sample_there(1)
            for _ in range(CAPACITY // ROWS_PER_SAMPLE):
                buffer.sample(1)
            expect(True, 1, "to a second learner, once the first has taken its samples")
        expect(False, 1, "to a learner that has closed its buffer")
        with another_learner(buffer) as sample_there:
            sample_there(1)
            for _ in range(CAPACITY // FAR_BEHIND):  # enough changes to fill the journal, which evicts it
                indexes = buffer.sample(FAR_BEHIND)["indexes"]
                buffer.update_priorities(indexes, np.ones(FAR_BEHIND))
            buffer.add(a=np.arange(FAR_BEHIND + 1))
            sample_there(1)
            expect(True, 1, "to a learner that is far behind and was evicted")
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
