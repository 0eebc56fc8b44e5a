"""One launch: a fresh process that measures, with a time limit, and nothing left of it afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from adapters.registry import SEGMENT_PREFIXES
from results.record import Record
from suites.cells import node_id
from suites.profiles import Profile

CHECKOUT = Path(__file__).resolve().parent.parent
GRACE_SECONDS = 3.0  # for a process that was asked to end, before it is killed
SHARED_MEMORY = Path("/dev/shm")
LAST_WORDS = 400  # characters
DECORATION = re.compile(r"[.sFE]+( *\[ *\d+%\])?$|[=!-]{3}")

# One math thread a peer: with two, a busy second core makes each small operation many times slower.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "TF_NUM_INTRAOP_THREADS",
        "TF_NUM_INTEROP_THREADS",
        "PJRT_NPROC",  # of JAX: the size of its thread pool
    ),
    "1",
)


def throughput_command(records: Sequence[Record], peer: str, cells: Path, profile: Profile) -> list[str]:
    """What comes after `python` for a launch that measures these cells with the registry's `peer`."""
    wanted = {(record.workload, record.params["capacity"]) for record in records}
    options = [
        f"--capacity={workload}={place.capacity}:{place.fill_seconds}"
        for workload, places in profile.throughput.items()
        for place in places
        if (workload, place.capacity) in wanted
    ]
    options += [f"--batch={benchmark}={rows}" for benchmark, rows in _batches(records)]
    options += [f"--cells={cells}", f"--seconds={profile.seconds}"]
    return [
        *("-m", "pytest", "-o", "addopts=", "-p", "no:cacheprovider"),
        # Uncaptured, so that the last words of a process that is killed are not lost with it.
        *("-q", "--capture=no", "--no-header", "--disable-warnings", "--tb=line"),
        # Collecting garbage at random moments is the harness's noise more than a peer's cost: off while timing.
        "--benchmark-disable-gc",
        *options,
        *(node_id(record, peer) for record in records),
    ]


def _batches(records: Sequence[Record]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((record.benchmark, record.params["batch"]) for record in records))


def run(command: list[str], limit_seconds: float, tick: Callable[[], None] = lambda: None) -> str | None:
    """Run `command` in the checkout, in a session of its own, for at most so long; None if it exits 0, else why not.

    `tick` is called about twice a second, and may raise to end the launch. However it ends, its
    processes are gone when this returns, and what a killed one left in shared memory is removed.
    """
    begin = time.monotonic()
    wall = time.time()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env={**os.environ, **ONE_THREAD},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        reason = None
        try:
            while process.poll() is None:
                if time.monotonic() > begin + limit_seconds:
                    reason = f"timed out after {limit_seconds:.0f} s" + _last_words(output)
                    break
                tick()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
        finally:
            clean = process.poll() == 0
            _end_session(process)
            if not clean:
                _remove_orphaned_segments(wall)
        if reason is None and process.returncode != 0:
            reason = _exit_reason(process.returncode) + _last_words(output)
        return reason


def _exit_reason(status: int) -> str:
    if status >= 0:
        return f"ended with exit status {status}"
    return f"killed by signal {-status} ({signal.Signals(-status).name})"


def _last_words(output: IO[bytes]) -> str:
    """The end of what the launch printed, without pytest's own decoration."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - 8 * LAST_WORDS))
    lines = output.read().decode(errors="replace").splitlines()
    words = [line.strip() for line in lines if line.strip() and not DECORATION.match(line.strip())]
    return f"; its last words: {' | '.join(words)[-LAST_WORDS:]}" if words else ""


def _members(session: int) -> list[psutil.Process]:
    """Living processes of this session, and their children should one have left it."""
    members: set[psutil.Process] = set()
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session:
                members.update([process, *process.children(recursive=True)])
        except (OSError, psutil.Error):
            continue
    return [each for each in members if _alive(each)]


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _end_session(leader: subprocess.Popen) -> None:
    """Interrupt what still runs of the launch, wait a little, kill the rest, and wait until it is gone."""
    members = _members(leader.pid)
    if leader.poll() is None:
        for member in members:
            _signal(member, signal.SIGINT)
    deadline = time.monotonic() + GRACE_SECONDS
    while members and time.monotonic() < deadline:
        leader.poll()
        time.sleep(0.05)
        members = _members(leader.pid)
    for member in members:
        _signal(member, signal.SIGKILL)
    leader.wait()
    psutil.wait_procs(members, timeout=GRACE_SECONDS)


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _remove_orphaned_segments(since: float) -> None:
    """A killed process can't unlink its segments. Removed are those of a buffer's kind and of this user that
    appeared since then and that no living process has mapped or open: nobody can be using them."""
    if not SHARED_MEMORY.is_dir():
        return
    ours = [
        path for path in SHARED_MEMORY.iterdir() if path.name.startswith(SEGMENT_PREFIXES) and _appeared(path, since)
    ]
    if ours:
        in_use = set(_shared_memory_in_use())
        for path in ours:
            if str(path) not in in_use:
                path.unlink(missing_ok=True)


def _appeared(path: Path, since: float) -> bool:
    try:
        about = path.lstat()
    except OSError:
        return False
    return about.st_uid == os.getuid() and about.st_ctime >= since


def _shared_memory_in_use() -> Iterator[str]:
    for process in psutil.process_iter():
        try:
            yield from (each.path for each in process.memory_maps() if each.path.startswith(str(SHARED_MEMORY)))
            yield from (each.path for each in process.open_files() if each.path.startswith(str(SHARED_MEMORY)))
        except (OSError, psutil.Error):
            continue
