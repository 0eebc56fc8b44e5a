"""The processes of a training run, and what they share in addition to transitions. Here, all of them are on this
machine."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from suites.apex_dqn.interrupt import SIGNALS
from suites.apex_dqn.progress import Counters
from suites.apex_dqn.weights import NetworkWeights, SharedWeights

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15


class TrainingProcess(Protocol):
    """A process of a training run, with the interface of `multiprocessing`'s processes."""

    @property
    def exitcode(self) -> int | None: ...

    def is_alive(self) -> bool: ...

    def join(self, timeout: float | None = None) -> None: ...

    def kill(self) -> None: ...


class ProcessStarter(Protocol):
    """Starts processes."""

    @property
    def progress(self) -> Counters: ...

    @property
    def weights(self) -> NetworkWeights: ...

    def start(self, work: Callable[..., None], *args: Any, beside: bool = False) -> TrainingProcess:
        """Start a process that calls `work(*args)`; if `beside` is true, start it on the supervisor's host."""

    def close(self) -> None:
        """Kill the processes that are still running. May be called more than once."""


class Forked:
    """Processes on this machine."""

    def __init__(self, explorers: int, weights: int) -> None:
        self._context, self._pid = multiprocessing.get_context("fork"), os.getpid()
        self.progress, self.weights = Counters(explorers), SharedWeights(weights)
        self._processes: list[BaseProcess] = []  # all that were started

    def start(self, work: Callable[..., None], *args: Any, beside: bool = False) -> TrainingProcess:
        signals = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until the child ignores them
        try:
            process = self._context.Process(target=_run, args=(self._pid, signals, work, args), daemon=True)
            process.start()
            self._processes.append(process)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        return process

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        self.progress.close()
        self.weights.close()


def _run(supervisor: int, signals: set[signal.Signals], work: Callable[..., None], args: tuple[Any, ...]) -> None:
    # Unlike a thread that polls the supervisor's id, this signal also ends a stopped process. Children are forked by
    # the thread that supervises them until they end, and the kernel sends the signal when that thread ends.
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(PR_SET_NAME, f"apex {work.__name__}".encode())  # shown by ps and top
    if os.getppid() != supervisor:
        os._exit(1)
    for number in SIGNALS:  # Ctrl-C reaches all processes, but only the supervisor may end its children
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    work(*args)
