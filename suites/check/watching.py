"""Runs parts of a check in a worker process, which may hang, die or allocate without end, and watches it.

The worker runs all parts in order and reports each one as a line of JSON. If it ends, or has to be ended, another
worker goes on with the next part.
"""

from __future__ import annotations

import json
import math
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from suites.check import last_call

RISK = "risk"  # a worker's announcement of a call that may never return
EXIT_SECONDS = 0.5
LOOK_SECONDS = 0.1  # between two looks at the worker's memory
Reports = Mapping[str, dict[str, Any]]  # check -> the fields of a `Seen`, or an outcome and its reason


@dataclass(frozen=True)
class Limits:
    patience: float  # seconds without a new call after an announced one, which then counts as blocked forever
    part: float  # seconds of a part
    start: float  # seconds until the first report, as a library may take long to import
    stall: float = math.inf  # seconds without a new call (`last_call`), after which the last one counts as blocked
    memory: int = 1 << 62  # bytes that a worker may have beside those it had at its first report
    again: float = 0.5  # as `stall`, for a function that has blocked before

    def exceeded_by(self, error: Exception) -> str:
        """Return what a worker took too much of, if it was ended for that."""
        return f"more than {self.memory / 2**30:g} GiB of memory" if isinstance(error, MemoryError) else ""


@dataclass(frozen=True)
class Ended:
    """How a worker ended that did not finish a part."""

    hung: bool  # a call did not return
    slow: bool  # the part took too long, although its calls returned
    announced: bool  # during an announced call
    how: str  # "signal 11 (SIGSEGV)", "exit status 1", or what it took too much of
    last_call: str
    before: str = ""  # the calls before the last one
    within: bool = False  # whether it ended before the last call returned
    seconds: float = 0.0  # for which it did not return, if it hung without an announcement
    again: bool = False  # whether it hung in a function that had hung before

    @property
    def function(self) -> str:
        return _function(self.last_call)


class Stalled(TimeoutError):  # noqa: N818 (what the worker has done)
    """No call of the buffer began for a long time."""


class Worker:
    """A worker process, as seen by its watcher."""

    def __init__(
        self,
        command: Sequence[str],
        limits: Limits,
        log: IO[bytes] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._reads, writes = os.pipe()
        self._page, self._limits, self._allowed = last_call.shared(), limits, limits.memory
        options = [f"--worker={writes}", f"--last-call={self._page}"]
        self._process = subprocess.Popen(
            [*command, *options],
            stdin=subprocess.DEVNULL,
            stdout=log or sys.stderr,
            stderr=log,
            pass_fds=[writes, self._page],
            start_new_session=True,
            env=environment,
        )
        os.close(writes)
        self._rest, self._first = b"", None

    def line(self, seconds: float, stall: float = math.inf, blocked: Collection[str] = ()) -> Any:
        """Return the worker's next message. Raises TimeoutError if it is late, `Stalled` if no call began for `stall`
        seconds, or fewer (`Limits.again`) in one of the functions `blocked`, EOFError if the worker ended, and
        MemoryError if it takes too much memory."""
        began = time.monotonic()
        deadline, calls = began + seconds, last_call.count(self._page)
        with selectors.DefaultSelector() as selector:
            selector.register(self._reads, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                left = deadline - time.monotonic()
                if not selector.select(max(0.0, min(left, LOOK_SECONDS))):
                    if left <= 0:
                        raise TimeoutError
                    if self._resident() > self._allowed:
                        raise MemoryError
                    if (now := last_call.count(self._page)) != calls:
                        began, calls = time.monotonic(), now
                    elif time.monotonic() - began > self._patience(stall, blocked):
                        raise Stalled
                    continue
                part = os.read(self._reads, 1 << 16)
                if not part:
                    raise EOFError
                self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def _patience(self, stall: float, blocked: Collection[str]) -> float:
        """Return for how long the call in progress may take, or the probe after its last call."""
        is_known = last_call.in_progress(self._page) and _function(last_call.read(self._page)) in blocked
        return min(stall, self._limits.again) if is_known else stall

    def ready(self) -> Any:
        """Return the worker's first message, and count memory from then on. Raises the exceptions of `line`."""
        if self._first is None:
            self._first = self.line(self._limits.start)
            self._allowed = self._resident() + self._limits.memory
        return self._first

    def _resident(self) -> int:
        """Return the bytes of the worker and its children. Pages that several of them share count once, which is looked
        up only if it decides."""
        pids = [self._process.pid, *_children(self._process.pid)]
        resident = sum(map(_resident, pids))
        return sum(map(_proportional, pids)) if resident > self._allowed and len(pids) > 1 else resident

    def end(self, hung: bool = False, slow: bool = False, announced: bool = False, too_much: str = "") -> Ended:
        """End the worker and its children, and return how it ended."""
        if not hung and not slow and not too_much:
            with suppress(subprocess.TimeoutExpired):  # it closed its pipe, and may be about to exit
                self._process.wait(EXIT_SECONDS)
        self._process.kill()
        status = self._process.wait()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # children that outlived it
        calls = last_call.read(self._page), last_call.before(self._page), last_call.in_progress(self._page)
        os.close(self._reads)
        os.close(self._page)
        how = f"signal {-status} ({signal.Signals(-status).name})" if status < 0 else f"exit status {status}"
        return Ended(hung, slow, announced, too_much or how, *calls)


def _function(call: str) -> str:
    """Return the name of the function that a noted call calls."""
    return re.split(r"\W", call, maxsplit=1)[0]


def _children(pid: int) -> Iterator[int]:
    """Yield the children of a process, and theirs."""
    with suppress(OSError):  # one of them may have ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from _children(child)


def _resident(pid: int) -> int:
    with suppress(OSError):  # it may have ended
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _proportional(pid: int) -> int:
    """Return a process's part of the pages that it has, in bytes: half of a page that it shares with another one."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return 0


def watch(
    start: Callable[[int], Worker],
    parts: Sequence[Sequence[str]],
    limits: Limits,
    silent: Callable[[str, Ended], dict[str, Any]],
) -> Iterator[Reports]:
    """Yield the reports of each part. `start` starts a worker at a part; `silent` words what is reported for a check
    whose part did not finish."""
    worker, ended, blocked = start(0), False, set[str]()
    try:
        for number, checks in enumerate(parts):
            if ended:
                worker = start(number)
            reports, ended = observe(worker, checks, limits, silent, blocked)
            yield reports
    finally:
        if not ended:
            worker.end()


def observe(
    worker: Worker,
    checks: Sequence[str],
    limits: Limits,
    silent: Callable[[str, Ended], dict[str, Any]],
    blocked: set[str] | None = None,
) -> tuple[Reports, bool]:
    """Return the reports of the worker's next part, and whether the worker ended or had to be ended. A function that
    does not return although no such call was announced is added to `blocked`; it gets less time if it is there."""
    announced, blocked = False, set() if blocked is None else blocked
    try:
        worker.ready()
        stall, known = limits.stall, blocked
        while (said := worker.line(limits.part, stall, known)) == RISK:
            announced, stall, known = True, limits.patience, set()
    except (TimeoutError, EOFError, MemoryError) as error:
        late = isinstance(error, TimeoutError)
        hung = isinstance(error, Stalled) or (late and (announced or limits.stall == math.inf))
        ended = worker.end(hung, late and not hung, announced, limits.exceeded_by(error))
        if hung and not announced and ended.within and ended.function:
            again = ended.function in blocked
            ended = replace(ended, seconds=limits.again if again else min(limits.stall, limits.part), again=again)
            blocked.add(ended.function)
        return {check: silent(check, ended) for check in checks}, True
    return said, False
