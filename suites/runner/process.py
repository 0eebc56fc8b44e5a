"""Makes one launch, a fresh process that measures within a time limit, and removes everything that it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

import psutil

from suites.runner.results import CHECKOUT
from suites.runner.segments import PAGE_BYTES, Segments

GRACE_SECONDS = 3.0  # between asking a process to end and killing it
LAST_WORDS = 400  # characters
#: An environment variable that all processes of a launch inherit. It identifies processes that have left the launch's
#: session.
MARK = "REPLAYBENCH_LAUNCH"

# One math thread per peer: with two, each small operation becomes many times slower when the second core is busy.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "TF_NUM_INTRAOP_THREADS",
        "TF_NUM_INTEROP_THREADS",
        "PJRT_NPROC",  # the size of JAX's thread pool
    ),
    "1",
)


@dataclass(frozen=True)
class Ending:
    """How a launch ended."""

    trouble: str | None  # None: it exited 0
    left: str = ""  # what it left behind although it exited 0: "1 process, 2 segments of 8.0 MiB"
    timed_out: bool = False
    killed: bool = False  # by a signal that we did not send, such as SIGSEGV in native code

    @property
    def is_the_peers(self) -> bool:
        """Whether the peer is to blame for a missing result. It is not to blame if the launch could not be started, or
        exited without a result."""
        return self.timed_out or self.killed


def run(command: list[str], limit_seconds: float, tick: Callable[[], None] = lambda: None) -> Ending:
    """Run `command` in the checkout, in its own session, for at most `limit_seconds`.

    `tick` is called about twice per second, and may raise to end the launch. However the launch ends, its processes are
    gone when this returns, and their shared-memory segments are removed. Leftovers of a launch that exited by itself
    are reported, because a user of the peer would have to remove them.
    """
    begin = time.monotonic()
    mark = uuid.uuid4().hex
    # Temporary files go to a folder that is removed with the launch, since a killed process does not remove its own.
    scratch = tempfile.TemporaryDirectory(prefix="rb-", ignore_cleanup_errors=True)
    with tempfile.TemporaryFile() as output, scratch as folder:
        try:
            process = subprocess.Popen(
                command,
                cwd=CHECKOUT,
                env={**os.environ, **ONE_THREAD, MARK: mark, "TMPDIR": folder},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:  # an incomplete venv, which concerns only this peer and must not end the run
            return Ending(f"could not be started: {error}")
        trouble, segments = None, Segments(lambda maker: _is_member(maker, process.pid, mark))
        try:
            while process.poll() is None:
                if time.monotonic() > begin + limit_seconds:
                    trouble = f"timed out after {limit_seconds:.0f} s" + _last_words(output)
                    break
                tick()
                segments.look()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
        finally:
            clean = process.poll() == 0
            processes = _end(process, mark)
            sizes = segments.remove_orphans()
        timed_out = trouble is not None
        if not timed_out and process.returncode != 0:
            trouble = exit_reason(process.returncode) + _last_words(output)
        left = _left_behind(processes, sizes) if clean else ""
        return Ending(trouble, left, timed_out, killed=not timed_out and process.returncode < 0)


def _left_behind(processes: int, sizes: Sequence[int]) -> str:
    """Describe leftovers, given the number of processes and the bytes of each segment. Segments smaller than a page are
    not reported: they are Python's semaphores, which other programs also leave behind, and which do not identify their
    launch."""
    said, segments = [], [size for size in sizes if size >= PAGE_BYTES]
    if processes:
        said.append(f"{processes} process{'es' if processes > 1 else ''}")
    if segments:
        size = sum(segments) / 2**20
        said.append(f"{len(segments)} segment{'s' if len(segments) > 1 else ''} of {size:.1f} MiB")
    return ", ".join(said)


def exit_reason(status: int) -> str:
    if status >= 0:
        return f"ended with exit status {status}"
    return f"killed by signal {-status} ({signal.Signals(-status).name})"


def _last_words(output: IO[bytes]) -> str:
    """Return the end of what the launch printed."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - 8 * LAST_WORDS))
    lines = output.read().decode(errors="replace").splitlines()
    words = [line.strip() for line in lines if line.strip()]
    return f"; its last output: {' | '.join(words)[-LAST_WORDS:]}" if words else ""


def _members(session: int, mark: str) -> list[psutil.Process]:
    """Return the live processes of this session or with this mark, and their children."""
    members: set[psutil.Process] = set()
    for process in psutil.process_iter():
        try:
            if _is_member(process, session, mark):
                members.update([process, *process.children(recursive=True)])
        except (OSError, psutil.Error):
            continue
    return [each for each in members if _alive(each)]


def _is_member(process: psutil.Process, session: int, mark: str) -> bool:
    return os.getsid(process.pid) == session or _is_marked(process, mark)


def _is_marked(process: psutil.Process, mark: str) -> bool:
    with suppress(OSError, psutil.Error):
        return process.environ().get(MARK) == mark
    return False


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _end(leader: subprocess.Popen, mark: str) -> int:
    """Interrupt the launch's processes that are still running, wait briefly, kill the remaining ones, and wait until
    they are gone.

    Returns how many had to be killed; a process that ends soon after its leader does not count as left behind.
    """
    members = _members(leader.pid, mark)
    if leader.poll() is None:
        for member in members:
            _signal(member, signal.SIGINT)
    deadline = time.monotonic() + GRACE_SECONDS
    while members and time.monotonic() < deadline:
        leader.poll()
        time.sleep(0.05)
        members = _members(leader.pid, mark)
    for member in members:
        _signal(member, signal.SIGKILL)
    leader.wait()
    psutil.wait_procs(members, timeout=GRACE_SECONDS)
    return len(members)


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)
