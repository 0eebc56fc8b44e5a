"""How a process spends its time: the durations of its calls, its CPU time, and the time for which it is blocked."""

from __future__ import annotations

import ctypes
import multiprocessing
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

LAST_CALLS = 1 << 16  # calls whose durations are kept


class Durations:
    """The durations of a process's last calls, in nanoseconds, which other processes can read."""

    def __init__(self) -> None:
        self._calls = multiprocessing.RawValue(ctypes.c_int64, 0)
        self._last = multiprocessing.RawArray(ctypes.c_int64, LAST_CALLS)

    def add(self, nanoseconds: int) -> None:
        calls = self._calls.value
        self._last[calls % LAST_CALLS] = nanoseconds
        self._calls.value = calls + 1

    @property
    def calls(self) -> int:
        return int(self._calls.value)

    def since(self, calls: int) -> np.ndarray:
        """Return the durations of the calls after the first `calls`. Only the durations of the last LAST_CALLS calls
        are known."""
        end = self.calls
        numbers = np.arange(max(calls, end - LAST_CALLS), end)
        return np.frombuffer(self._last, np.int64)[numbers % LAST_CALLS]


class ThreadTimes(NamedTuple):
    """How long a process's main thread has run and has waited for a processor, in seconds, and when this was read."""

    running: float
    waiting: float
    at: float

    @classmethod
    def by(cls, process: int) -> ThreadTimes:
        """Read the times from /proc/PID/schedstat. Raises RuntimeError if that fails: some kernels lack this file."""
        try:
            running, waiting, _ = Path(f"/proc/{process}/schedstat").read_text().split()
        except OSError as error:  # raised here, so that the harness is blamed and not the peer
            raise RuntimeError(f"it is unknown how long a process was blocked: {error}") from error
        return cls(int(running) / 1e9, int(waiting) / 1e9, time.perf_counter())


def blocked(before: ThreadTimes, after: ThreadTimes) -> float:
    """Return the share of the time between two readings in which the process neither ran nor was ready to run, but
    slept: it waited for a lock or for another process's answer."""
    awake = after.running - before.running + after.waiting - before.waiting
    return min(1.0, max(0.0, 1 - awake / (after.at - before.at)))


class CpuTime(NamedTuple):
    """The CPU time that this process and all its descendants have used so far, in seconds, and when this was read."""

    used: float
    at: float

    @classmethod
    def now(cls) -> CpuTime:
        me = psutil.Process()
        times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
        return cls(sum(each.user + each.system for each in times), time.perf_counter())

    def cores_since(self, before: CpuTime) -> float:
        """Return how many processors were in use on average."""
        return (self.used - before.used) / (self.at - before.at)


def work(seconds: float) -> None:
    """Use this much CPU time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
