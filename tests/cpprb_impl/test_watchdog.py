"""However the creator of a segment ends, the segment's name is soon removed, and no helper process remains."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cpprb_impl import MPReplayBuffer
from cpprb_impl.processes import watchdog

from .jobs import wait_until

SHM = Path("/dev/shm")
pytestmark = pytest.mark.timeout(120)

MAKE = "from cpprb_impl import MPReplayBuffer; b = MPReplayBuffer(100, {'x': {}}); print(b.segment, flush=True)\n"


def add_until_told(buffer: MPReplayBuffer, stop: str) -> None:
    os.write(1, f"{os.getpid()}\n".encode())  # written in one piece, since other processes write too
    while not Path(stop).exists():
        buffer.add(x=1)
        time.sleep(0.001)


@contextlib.contextmanager
def started(code: str, stop: Path | None = None) -> Iterator[tuple[subprocess.Popen, Callable[[], str]]]:
    """Start a process that runs `code` in a new process group. Yield it, and a function that reads a line of output.

    At the end, no process that it started may remain, and stderr must be empty.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        yield process, lambda: process.stdout.readline().strip()
    finally:
        process.kill()
        if stop is not None:
            stop.touch()
        _, said = process.communicate(timeout=60)  # returns when the last process that has its stderr ends
    assert said == ""


def names_of(segment: str) -> set[str]:
    """Return the existing segments of the segment's maker."""
    return {path.name for path in SHM.glob(prefix_of(segment).strip("/") + "*")}


def prefix_of(segment: str) -> str:
    assert segment.startswith("/cpprb_impl-")
    return segment.rpartition("-")[0] + "-"


def shells_of(segment: str) -> list[int]:
    """Return the shells that watch the segment's maker. A child of a shell looks the same until it runs `sleep`."""
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if prefix_of(segment).encode() in (process / "cmdline").read_bytes().split(b"\0"):
                stat = (process / "stat").read_text().rpartition(")")[2].split()
                parents[int(process.name)] = int(stat[1])
    return [process for process, parent in parents.items() if parent not in parents]


def wait_until_gone(segment: str) -> None:
    wait_until(lambda: not names_of(segment) and not shells_of(segment), seconds=10)


def test_the_name_is_removed_after_the_maker_is_killed():
    with started(MAKE + "c = MPReplayBuffer(100, {'x': {}}); print(flush=True); import time; time.sleep(600)") as (
        owner,
        line,
    ):
        segment = line()
        line()
        assert len(names_of(segment)) == 2 and len(shells_of(segment)) == 1
        owner.kill()
        owner.wait()
        wait_until_gone(segment)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_name_is_removed_after_a_kill_while_explorers_live_on(method, tmp_path):
    stop = tmp_path / "stop"
    code = f"""
        import multiprocessing, time
        from cpprb_impl import MPReplayBuffer
        from tests.cpprb_impl.test_watchdog import add_until_told
        if __name__ == "__main__":
            b = MPReplayBuffer(100, {{'x': {{}}}})
            print(b.segment, flush=True)
            context = multiprocessing.get_context("{method}")
            for _ in range(2):
                context.Process(target=add_until_told, args=(b, "{stop}")).start()
            time.sleep(600)
    """
    with started(code, stop) as (owner, line):
        segment, *explorers = line(), int(line()), int(line())
        owner.kill()
        owner.wait()
        wait_until_gone(segment)
        for explorer in explorers:
            assert Path(f"/proc/{explorer}/stat").read_text().rpartition(")")[2].split()[0] != "Z"  # it is running


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "import sys; sys.exit(3)",
        "import os; os._exit(0)",
        "b.close()",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import os; os.abort()",
    ],
)
def test_the_name_is_removed_when_the_maker_ends(ending):
    with started(MAKE + ending) as (owner, line):
        segment = line()
        owner.wait(60)
        wait_until_gone(segment)


@pytest.mark.parametrize("ending", ["sys.exit(1)", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_child_that_ends_removes_only_its_own_segments(ending):
    """Each process that makes segments has a watchdog."""
    code = f"""
        import multiprocessing, os, sys
        from cpprb_impl import MPReplayBuffer
        def job():
            global mine
            mine = MPReplayBuffer(100, {{'x': {{}}}})
            print(mine.segment, flush=True)
            {ending}
        b = MPReplayBuffer(100, {{'x': {{}}}})
        print(b.segment, flush=True)
        child = multiprocessing.get_context("fork").Process(target=job)
        child.start()
        child.join()
        print("joined", flush=True)
        sys.stdin.read()
    """
    with started(code) as (_, line):
        of_parent, of_child = line(), line()
        assert line() == "joined"
        wait_until_gone(of_child)
        assert len(names_of(of_parent)) == 1


def test_the_name_is_removed_after_the_constructor_fails():
    code = MAKE + "import warnings; warnings.simplefilter('ignore'); MPReplayBuffer(1 << 50, {'x': {}})"
    with started("try:\n    " + code.replace("\n", "\n    ") + "\nexcept OSError:\n    print('full')") as (owner, line):
        segment = line()
        assert line() == "full"
        owner.wait(60)
        wait_until_gone(segment)


def test_ctrl_c_reaches_only_the_maker():
    code = "import signal, time; signal.signal(signal.SIGINT, lambda *_: print('heard', flush=True))\n"
    # signal.pause would miss a signal that arrives just before it, and wait forever.
    with started(MAKE + code + "print('ready', flush=True)\nwhile True: time.sleep(0.05)") as (owner, line):
        segment = line()
        assert line() == "ready"
        for number in (signal.SIGINT, signal.SIGINT):
            os.killpg(owner.pid, number)
            assert line() == "heard"
        assert len(names_of(segment)) == 1 and len(shells_of(segment)) == 1
        os.killpg(owner.pid, signal.SIGKILL)
        wait_until_gone(segment)


def test_the_watchdog_is_not_a_child_and_holds_no_file_open():
    code = """
        import os
        held = os.open("/etc/passwd", os.O_RDONLY)
        os.set_inheritable(held, True)
    """
    code = textwrap.dedent(code) + MAKE
    with started(code + "try: os.wait()\nexcept ChildProcessError: print('none', flush=True)\ninput()") as (_, line):
        segment = line()
        assert line() == "none"
        (shell,) = shells_of(segment)
        open_there = {os.readlink(f) for f in Path(f"/proc/{shell}/fd").iterdir()}
        assert {name for name in open_there if not name.startswith("pipe:")} == {"/dev/null"}
        assert len(open_there) == 2
        assert os.getsid(shell) not in (os.getsid(0), shell)  # so it cannot get a terminal either


SUBREAPER = "import ctypes; assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0\n"
NEW_NAMESPACE = ["unshare", "--user", "--map-root-user", "--fork", "--pid", "--mount-proc", "--kill-child"]
CHILDREN = """
import os
try:
    print(os.getpid(), os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print(os.getpid() == 1, "no child")
"""


@pytest.mark.parametrize("adopts", ["no", "subreaper", "PID 1"])
def test_the_watchdog_is_not_a_child_of_a_maker_that_adopts_orphans(adopts):
    """If it were, a supervisor would get it from `os.waitpid(-1)`. The control is a maker that adopts no orphans."""
    namespace = NEW_NAMESPACE if adopts == "PID 1" else []
    if namespace and subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no PID namespace can be made here")
    code = (SUBREAPER if adopts == "subreaper" else "") + MAKE + CHILDREN
    command = [*namespace, sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    segment, children = ended.stdout.splitlines()
    assert (children, ended.stderr, ended.returncode) == (f"{adopts == 'PID 1'} no child", "", 0)
    assert not names_of(segment)


def test_a_killed_watchdog_is_replaced():
    buffer = MPReplayBuffer(4, {"x": {}})
    (first,) = shells_of(buffer.segment)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not watchdog._has_reader(watchdog._pipe[0]))  # its command line disappears earlier
    MPReplayBuffer(4, {"x": {}}).close()
    (second,) = shells_of(buffer.segment)
    MPReplayBuffer(4, {"x": {}}).close()
    assert shells_of(buffer.segment) == [second]
    buffer.close()


def kill_shells():
    """Kill the shells of this process, which would wait until it ends."""
    prefix = watchdog._segment_prefix()
    for shell in shells_of(prefix):
        os.kill(shell, signal.SIGKILL)
    wait_until(lambda: not shells_of(prefix))


def test_a_buffer_works_without_a_shell(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(watchdog, "SHELL", "/no/shell")
        watchdog._close_pipe()
        kill_shells()
        buffer = MPReplayBuffer(4, {"x": {}})
        assert watchdog._pipe is None and not shells_of(buffer.segment)
        assert len(names_of(buffer.segment)) == 1
        buffer.close()


def test_the_name_is_removed_even_if_the_maker_closed_the_pipe():
    with started(MAKE + "import os, time; os.closerange(3, 4096); print('closed', flush=True); time.sleep(600)") as (
        owner,
        line,
    ):
        segment = line()
        assert line() == "closed"
        time.sleep(0.5)  # long enough for a shell that trusts the pipe to end
        assert len(names_of(segment)) == 1 and len(shells_of(segment)) == 1
        owner.kill()
        owner.wait()
        wait_until_gone(segment)


def test_a_shell_and_its_child_count_as_one_shell():
    segment = "/cpprb_impl-0-test-0"  # of a process that does not exist
    code = "exec 3<&0; ( read -r line <&3; : ) & echo started; wait"  # a child with the same command line as its shell
    shell = subprocess.Popen(
        ["/bin/sh", "-c", code, prefix_of(segment)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with shell:
        assert shell.stdout.readline() == "started\n"
        assert shells_of(segment) == [shell.pid]
        shell.stdin.close()


def test_other_code_may_close_the_pipe_and_reuse_its_number(tmp_path):
    """os.closerange() in a daemon does this. The next buffer starts a new shell, and the other file remains open."""
    MPReplayBuffer(4, {"x": {}}).close()
    number = watchdog._pipe[0]
    with (tmp_path / "other").open("wb") as other:
        os.dup2(other.fileno(), number)
        buffer = MPReplayBuffer(4, {"x": {}})
        assert len(shells_of(buffer.segment)) == 2  # the first shell waits for the end of this process
        os.write(number, b"still open")
        os.close(number)
        buffer.close()
    kill_shells()
    MPReplayBuffer(4, {"x": {}}).close()
