"""Explorer processes that run alongside a learner. They start together, are monitored, and always end, whatever the
buffer does."""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess

from adapters.child_process import exit_with_parent
from suites.runner.results import PeerTrouble, Stuck, failure

PATIENCE = 10.0  # seconds without any progress after which a launch is aborted
START_PATIENCE = 60.0  # the same for explorers that must first import a library or find a server
LOOK_SECONDS = 0.1
SLICE_SECONDS = 1e-4  # target time between a loop's readings of the clock, which take time themselves


class Shared:
    """The state that the learner and its explorers share in addition to the buffer. Each counter has one writer, so no
    lock is needed."""

    def __init__(self, context: multiprocessing.context.BaseContext, explorers: int) -> None:
        self.barrier = context.Barrier(explorers + 1)
        self.stop = context.RawValue(ctypes.c_bool, False)
        self.added = [
            context.RawValue(ctypes.c_int64, 0) for _ in range(explorers + 1)
        ]  # the last one is for the explorer that `recruit` starts
        self.errors = context.SimpleQueue()

    def start(self) -> None:
        """Wait until the learner and all explorers have called this."""
        self.barrier.wait(START_PATIENCE)


Work = Callable[[int, Shared], None]  # what an explorer does, given its number and what it shares with the learner


class Explorers:
    """The explorer processes, as seen by the learner."""

    def __init__(self, shared: Shared, make: Callable[[Work, int], BaseProcess], work: Work, number: int) -> None:
        self.shared, self._make, self.number = shared, make, number
        self.processes = {each: make(work, each) for each in range(number)}

    def added(self) -> list[int]:
        """Return the number of rows that each explorer has added."""
        return [counter.value for counter in self.shared.added[: self.number]]

    def look_after(self) -> None:
        if not self.shared.errors.empty():
            outcome, said = self.shared.errors.get()
            raise (RuntimeError if outcome == "broken" else PeerTrouble)(said)
        for number, process in self.processes.items():
            if not process.is_alive():
                raise PeerTrouble(f"explorer {number} died with exit code {process.exitcode}")

    @contextmanager
    def recruit(self, work: Work) -> Iterator[ctypes.c_int64]:
        """Start another explorer, whose `work` does not call `start`; it is killed when the block ends. Yields its
        counter of rows."""
        counter = self.shared.added[self.number]
        counter.value = 0
        process = self.processes[self.number] = self._make(work, self.number)
        process.start()
        try:
            yield counter
        finally:
            self.kill(self.number)

    def kill(self, number: int) -> None:
        process = self.processes.pop(number)
        process.kill()
        process.join()

    def wait_for(self, rows: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while (added := sum(self.added())) < rows:
            self.look_after()
            if time.monotonic() > deadline:
                raise Stuck(f"only {added} of {rows} rows were added in {PATIENCE:.0f} s")
            time.sleep(0.01)

    def learn(self, step: Callable[[], object], seconds: float) -> tuple[float, int]:
        """Call `step` repeatedly for this many seconds. Returns (seconds, calls). Must run inside `giving_up`."""
        calls, at_once = 0, 1
        begin = now = looked = time.perf_counter()
        while now < begin + seconds:
            # The alarm ends a step that blocks forever, for example on a lock that an explorer never releases.
            if now > looked + LOOK_SECONDS or now == begin:
                _alarm_in(PATIENCE)
                self.look_after()
                looked = now
            for _ in range(at_once):
                held = step()  # noqa: F841 (a learner holds one batch while it samples the next)
            calls += at_once
            before, now = now, time.perf_counter()
            at_once = next_slice(at_once, now - before)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return now - begin, calls


def next_slice(calls: int, took: float) -> int:
    """Return how many calls to make before reading the clock again, given that `calls` took `took` seconds."""
    return 2 * calls if took < SLICE_SECONDS else max(1, calls // 2)


def _explore(work: Work, number: int, shared: Shared, parent: int | None) -> None:
    exit_with_parent(parent or os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches explorers too, but the learner ends them
    try:
        work(number, shared)
    except BaseException as error:
        shared.errors.put((failure(error)[0], f"explorer {number}: {type(error).__name__}: {error}"))
        raise


def prepare(preload: Sequence[str]) -> None:
    """Make the fork server import these modules in advance, so that "forkserver" explorers start without delay."""
    if preload:
        multiprocessing.set_forkserver_preload(list(preload))
        forkserver.ensure_running()


@contextmanager
def exploring(
    work: Work, number: int, start_method: str = "fork", serve: Callable[[], None] = lambda: None
) -> Iterator[Explorers]:
    """Run `number` processes, each of which does `work` (which calls `start`, and ends soon after `stop` is set).

    No process remains when the block ends, however it ends. An explorer that is merely waiting when it is asked to stop
    can finish its call and end; the learner's process calls `serve` until then. An explorer that does not end
    is stuck in a call to the buffer, so the launch fails.
    """
    context = multiprocessing.get_context(start_method)
    shared = Shared(context, number)

    # A process forked by a server ends when the server does, and the server ends when this process does.
    parent = None if start_method == "forkserver" else os.getpid()

    def make(work: Work, each: int) -> BaseProcess:
        return context.Process(target=_explore, args=(work, each, shared, parent), daemon=True)

    explorers = Explorers(shared, make, work, number)
    hung = 0
    try:
        for process in explorers.processes.values():
            process.start()
        try:
            shared.start()
        except threading.BrokenBarrierError:
            explorers.look_after()
            raise
        yield explorers
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        shared.stop.value = True
        # A process that has to close a connection takes longer to end.
        deadline = time.monotonic() + (PATIENCE if start_method == "fork" else START_PATIENCE) / 2
        for process in explorers.processes.values():
            if process.pid is None:  # it could not be started, and that error is being raised
                continue
            while process.is_alive() and time.monotonic() < deadline:
                serve()
                process.join(0.01)
            if process.is_alive():
                hung += 1
                process.kill()
                process.join()
    if hung:
        raise Stuck(f"{hung} of {number} explorers hung in a call of the buffer")


@contextmanager
def giving_up(seconds: float) -> Iterator[None]:
    """If a call hangs inside the block, raise `Stuck` from it: in `learn` after `PATIENCE`, elsewhere after `seconds`
    plus some patience. For the learner's process.

    A signal does not interrupt native code that never returns to Python. In that case a watchdog aborts this process,
    and the launch, killed by a signal, counts as a finding about its peer."""
    faulthandler.enable()  # prints the traceback when the watchdog aborts
    wait = f"sleep {4 * PATIENCE + seconds}; kill -ABRT {os.getpid()}"
    watchdog = subprocess.Popen(["/bin/sh", "-c", wait], process_group=0)
    _alarm_in(3 * PATIENCE + seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        os.killpg(watchdog.pid, signal.SIGKILL)  # including its `sleep`
        watchdog.wait()


def _alarm_in(seconds: float) -> None:
    def stuck(_signal: int, _frame: object) -> None:
        raise Stuck(f"the learner was stuck for {seconds:.0f} s")

    signal.signal(signal.SIGALRM, stuck)
    signal.setitimer(signal.ITIMER_REAL, seconds)
