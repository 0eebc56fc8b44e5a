"""Kill and stop a process at each step of making a segment ("Making a segment" in docs/protocol.md).

    .ci/crash  builds the native module with failpoints, and runs this too

If it is killed, its watchdog or the next maker removes the segment's name. If it is stopped after taking its lock,
other makers do not remove the segment, and it blocks no process. A process that attaches meanwhile gets a documented
error.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from cpprb_impl.buffers.shared import _find
from cpprb_impl.processes import watchdog
from cpprb_impl.processes.host import this_host

from . import failpoints
from .certified import FRAMED, NARROW, ids
from .member import Kind

SHM = Path("/dev/shm")
SECONDS = 20  # time limit of every wait
OF_A_MAKER = failpoints.OF_MAKING[1:]
FIRST_WITH_A_NAME, FIRST_WITH_ITS_LOCK = "M2", "M3"
KINDS = {
    "plain": Kind(100, NARROW),
    "prioritized": Kind(100, NARROW, prioritized=True, lock="critical"),
    "frames": Kind(100, FRAMED),
    "files": Kind(100, NARROW, files=True),
}


class Child:
    """A forked process that runs a job and exits with the job's return value."""

    def __init__(self, job: Callable[[], int | None]) -> None:
        self.status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            code = 99
            try:
                code = job() or 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)

    def wait(self, what: str) -> int:
        """Return its wait status once it has ended or stopped."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid:
                self.status = None if os.WIFSTOPPED(status) else status
                return status
            time.sleep(0.001)
        raise AssertionError(f"{what}: nothing for {SECONDS} s")

    def ends_well(self, what: str) -> None:
        code = os.waitstatus_to_exitcode(self.wait(what))
        assert code == 0, f"{what} ended with {code}"

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def names(self) -> list[str]:
        return [path.name for path in SHM.glob(f"cpprb_impl-{self.pid}-*")]


def use(buffer: Any, kind: Kind) -> None:
    """Check that the buffer works: added rows are returned."""
    buffer.add(**kind.rows(ids(1, 1, 50)))
    everything = kind.as_added(buffer.get_all_transitions())
    assert (everything["id"].ravel() == ids(1, 1, 50)).all() and buffer.get_stored_size() == 50


def make_and_use(kind: Kind, folder: Path, number: int) -> None:
    buffer = kind.make(folder, number)
    use(buffer, kind)
    other = kind.type().attach(buffer.segment)
    assert other.get_stored_size() == 50
    other.close()
    buffer.close()


def begun(failpoint: str, deed: int, kind: Kind, folder: Path, watched: bool) -> Child:
    def job() -> None:
        if not watched:
            watchdog.SHELL = "/no/shell"
        failpoints.arm(failpoint, 1, deed)
        make_and_use(kind, folder, 1)

    return Child(job)


def maker(failpoint: str, deed: int, kind: Kind, folder: Path, watched: bool) -> Child:
    """Return a maker that was killed or stopped at the failpoint."""
    child = begun(failpoint, deed, kind, folder, watched)
    status = child.wait(f"the maker at {failpoint}")
    ended = os.WIFSTOPPED(status) if deed == signal.SIGSTOP else os.WIFSIGNALED(status)
    assert ended, f"no process reached {failpoint}"
    return child


def attach_in_vain(names: list[str], kind: Kind) -> None:
    """Attach by name, and as a pickled buffer would; check that each attempt raises a documented error."""
    with tempfile.TemporaryDirectory() as folder:
        model = kind.make(Path(folder), 2)
        recipe = model._layout
        model.close()
    for name in names:
        for attach in (
            lambda name=name: kind.type().attach(name),
            lambda name=name: _find(kind.type(), recipe, "/" + name, this_host()),
        ):
            try:
                attach()
            except FileNotFoundError:
                continue
            except ValueError as error:
                assert "still being created" in str(error) or "is empty" in str(error), error
                continue
            raise AssertionError(f"{name} could be attached to")


def try_to_attach(names: list[str], kind: Kind) -> None:
    with Child(lambda: attach_in_vain(names, kind)) as other:
        other.ends_well("who attaches")


def make_another(kind: Kind, folder: Path) -> None:
    """Make a buffer in another process, which also removes abandoned segments."""
    with Child(lambda: make_and_use(kind, folder, 3)) as other:
        other.ends_well("another maker")


def is_gone(child: Child) -> bool:
    deadline = time.monotonic() + SECONDS
    while child.names():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def killed(failpoint: str, kind: Kind, folder: Path, watched: bool) -> None:
    with maker(failpoint, signal.SIGKILL, kind, folder, watched) as dead:
        if not watched:
            assert failpoint >= FIRST_WITH_A_NAME or not dead.names()
            try_to_attach(dead.names(), kind)
            make_another(kind, folder)
            assert not dead.names(), f"left by a maker killed at {failpoint}: {dead.names()}"
        assert is_gone(dead), f"left by a maker killed at {failpoint}: {dead.names()}"
        # The next process that makes the same files removes them as well.
        with Child(lambda: make_and_use(kind, folder, 1)) as again:
            again.ends_well("the next maker")


def stopped(failpoint: str, kind: Kind, folder: Path, watched: bool) -> None:
    with maker(failpoint, signal.SIGSTOP, kind, folder, watched) as slow:
        before = slow.names()
        assert bool(before) == (failpoint >= FIRST_WITH_A_NAME) or failpoint < FIRST_WITH_ITS_LOCK
        try_to_attach(before, kind)
        make_another(kind, folder)
        if failpoint >= FIRST_WITH_ITS_LOCK:
            assert slow.names() == before, f"a maker stopped at {failpoint} has lost its segment"
        os.kill(slow.pid, signal.SIGCONT)
        slow.ends_well(f"the maker that was stopped at {failpoint}")
        assert is_gone(slow)


def sweeper_stopped(kind: Kind, folder: Path) -> None:
    """Stop a process at M0, with the lock of a segment that it is about to remove; no process waits for it."""
    for _ in range(20):  # another maker on this machine may remove it first
        with maker("M7", signal.SIGKILL, kind, folder, watched=False) as dead:
            names = dead.names()
            with begun("M0", signal.SIGSTOP, kind, folder, watched=True) as slow:
                if not os.WIFSTOPPED(slow.wait("the maker at M0")):
                    continue
                try_to_attach(names, kind)
                make_another(kind, folder)
                os.kill(slow.pid, signal.SIGCONT)
                slow.ends_well("the maker that was stopped at M0")
            assert is_gone(dead)
            return
    raise AssertionError("no process reached M0")


def main() -> int:
    if not failpoints.are_built_in():
        return "this native module has no failpoints: see .ci/crash"
    missing = set(failpoints.OF_MAKING) - set(failpoints.names())
    bad = [f"no failpoint {name} in the sources" for name in sorted(missing)]
    trials = [
        (deed, (failpoint, kind, watched))
        for deed, failpoint, kind, watched in product((killed, stopped), OF_A_MAKER, KINDS, (True, False))
    ]
    trials += [(sweeper_stopped, ("M0", "plain", True))]
    for deed, (failpoint, kind, watched) in trials:
        with tempfile.TemporaryDirectory() as folder:
            try:
                if deed is sweeper_stopped:
                    deed(KINDS[kind], Path(folder))
                else:
                    deed(failpoint, KINDS[kind], Path(folder), watched)
            except AssertionError as error:
                how = f"{deed.__name__} at {failpoint}, {kind}, {'with' if watched else 'without'} a watchdog"
                bad.append(f"{how}: {error}")
    print(f"makers of segments: {len(trials)} trials\n" + ("\n".join(bad) or "nothing found"), flush=True)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
