"""If a job is killed together with its watchdog, the next buffer of any class removes its segments.

SLURM's scancel and a cgroup's OOM kill end jobs in this way. Segments that a live process has open remain.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import cpprb_impl
from cpprb_impl.hosts import kept

from .jobs import wait_until
from .test_segment import MAKE, exists, run
from .test_watchdog import NEW_NAMESPACE, SHM, names_of, shells_of

pytestmark = pytest.mark.timeout(120)

FIELDS = {"x": {}, "done": {}}
JOB = """
import multiprocessing, sys, time
import cpprb_impl
from cpprb_impl.hosts import kept
from tests.cpprb_impl.test_watchdog import add_until_told
if __name__ == "__main__":
    kind, method, stop = sys.argv[1:]
    b = getattr(cpprb_impl, kind)(100, {'x': {}})
    print(b.segment, flush=True)
    context = multiprocessing.get_context(method)
    for _ in range(2):
        context.Process(target=add_until_told, args=(b, stop)).start()
    time.sleep(600)
"""
SHARD = """
import time
from cpprb_impl.buffers.shared import SHARED_PRIORITIZED, layout_of
from cpprb_impl.hosts import kept
layout, _ = layout_of("MPPrioritizedReplayBuffer", SHARED_PRIORITIZED, 100, {"x": {}}, {})
made = kept.make("killed-with-its-keeper", "127.0.0.1", 1, layout)
keeper = kept.Keeper(made.name)
print(made.name, flush=True)
time.sleep(600)
"""
JOBS = [("MPReplayBuffer", "fork"), *(("MPPrioritizedReplayBuffer", each) for each in ("fork", "spawn", "forkserver"))]
ALONE = "TEST_GROUP_KILL_ALONE"  # set in a test that runs where no other process can remove a name
MAKERS: dict[str, Callable[[], object]] = {
    **{
        name: lambda name=name: getattr(cpprb_impl, name)(10, FIELDS)
        for name in ("ReplayBuffer", "PrioritizedReplayBuffer", "ReverseReplayBuffer", "MPReplayBuffer")
    },
    "MPPrioritizedReplayBuffer": lambda: cpprb_impl.MPPrioritizedReplayBuffer(10, FIELDS),
    "HindsightReplayBuffer": lambda: cpprb_impl.HindsightReplayBuffer(
        10, {"obs": {}, "act": {}, "next_obs": {}}, 5, reward_func=lambda _s, _a, goals: np.zeros(len(goals))
    ),
    "SelectiveReplayBuffer": lambda: cpprb_impl.SelectiveReplayBuffer(5, 1, 1, Nepisodes=2),
}


def buffers() -> set[str]:
    """Return the names of the public classes that store transitions."""
    return {name for name in cpprb_impl.__all__ if hasattr(getattr(cpprb_impl, name), "add")}


def is_running(process: int) -> bool:
    """Return whether any thread of the process still runs, since each keeps the memory."""
    return any(map(_is_alive, Path("/proc").glob(f"{process}/task/*/stat")))


def _is_alive(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def killed(tmp_path) -> Iterator[Callable[..., str]]:
    """Return a function that starts a job, kills it with its watchdog, and returns the name of its segment."""
    stop = tmp_path / "stop"

    def kill(kind: str, method: str) -> str:
        job = tmp_path / "job.py"
        job.write_text(JOB)
        command = [sys.executable, job, kind, method, stop]
        env = {**os.environ, "PYTHONPATH": os.getcwd()}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0, env=env) as owner:
            segment, *explorers = (owner.stdout.readline().strip() for _ in range(3))
            kill_group(owner.pid, segment, explorers)
        return segment

    yield kill
    stop.touch()


def kill_group(owner: int, segment: str, members: Sequence[str | int] = ()) -> None:
    """Kill the process group that the maker of a segment leads, including its watchdog. The name remains."""
    shells = shells_of(segment)
    for shell in shells:
        os.kill(shell, signal.SIGKILL)
    os.killpg(owner, signal.SIGKILL)
    assert len(shells) == 1
    wait_until(lambda: not any(map(is_running, [owner, *map(int, members), *shells])))
    # A test that runs at the same time may already have removed it.
    assert ALONE not in os.environ or names_of(segment)


@pytest.fixture
def killed_fork() -> str:
    """Kill a forked maker, which needs no imports, with its watchdog; return the name of its segment."""
    hears, says = multiprocessing.Pipe(duplex=False)

    def make() -> None:
        os.setpgid(0, 0)
        buffer = cpprb_impl.MPPrioritizedReplayBuffer(100, {"x": {}})
        says.send(buffer.segment)
        signal.pause()

    owner = multiprocessing.get_context("fork").Process(target=make)
    owner.start()
    segment = hears.recv()
    kill_group(owner.pid, segment)
    owner.join()
    return segment


@pytest.mark.parametrize(("kind", "method"), JOBS)
def test_the_next_buffer_removes_the_name_of_a_killed_job(kind, method, killed):
    segment = killed(kind, method)
    cpprb_impl.ReplayBuffer(10, {"x": {}})
    assert not names_of(segment)


@pytest.mark.parametrize("name", sorted(buffers()))
def test_each_class_of_buffer_removes_the_name_of_a_killed_job(name, killed_fork):
    MAKERS[name]()
    assert not names_of(killed_fork)


def test_the_next_buffer_removes_the_name_of_a_killed_job_that_had_no_shell():
    """Also the control of the tests in test_watchdog.py: the name remains if no shell removes it."""
    no_shell = "import cpprb_impl.processes.watchdog as w; w.SHELL = '/no/shell'; "
    done = run(no_shell + MAKE + f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})")
    assert done.returncode == -signal.SIGKILL and not done.stderr
    assert ALONE not in os.environ or exists(done.stdout)
    in_use = cpprb_impl.MPReplayBuffer(4, FIELDS)
    cpprb_impl.ReplayBuffer(4, FIELDS)
    assert not exists(done.stdout) and exists(in_use.segment)
    in_use.close()


def test_the_next_buffer_unlinks_the_shard_of_a_killed_job():
    with subprocess.Popen([sys.executable, "-c", SHARD], stdout=subprocess.PIPE, text=True, process_group=0) as owner:
        name = owner.stdout.readline().strip()
        (keeper,) = [
            int(process.name)
            for process in Path("/proc").glob("[0-9]*")
            if is_running(int(process.name)) and str(SHM / name.strip("/")).encode() in command_of(process)
        ]
        cpprb_impl.ReplayBuffer(10, {"x": {}})
        assert kept.exists(name)
        os.kill(keeper, signal.SIGKILL)
        os.killpg(owner.pid, signal.SIGKILL)
    wait_until(lambda: not is_running(keeper))
    assert ALONE not in os.environ or kept.exists(name)
    cpprb_impl.ReplayBuffer(10, {"x": {}})
    assert not kept.exists(name)


def test_the_next_buffer_removes_the_name_without_help_of_another_process():
    """Runs the tests above with a separate /dev/shm, in which no other process sees the names."""
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"']
    if subprocess.run([*alone, "sh", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no namespace for mounts can be made here")
    above = "of_a_killed_job"
    command = [*alone, "sh", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", above]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, ALONE: "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(buffers()) + len(JOBS) + 2} passed" in done.stdout


def command_of(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_segment_of_a_dead_maker_remains_while_an_explorer_lives(tmp_path):
    """Its watchdog, which would remove the name, was killed too."""
    buffer = cpprb_impl.MPReplayBuffer(10, {"x": {}})
    code = "import sys; from cpprb_impl import MPReplayBuffer; b = MPReplayBuffer(100, {'x': {}}); print(b.segment)\n"
    code += "sys.stdout.flush(); sys.stdin.read()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        segment = owner.stdout.readline().strip()
        attached = cpprb_impl.MPReplayBuffer.attach(segment)
        for shell in shells_of(segment):
            os.kill(shell, signal.SIGKILL)
        wait_until(lambda: not shells_of(segment))
        owner.kill()
    for make in MAKERS.values():
        make()
    assert names_of(segment) and names_of(buffer.segment)
    attached.close()
    cpprb_impl.ReplayBuffer(10, {"x": {}})
    assert not names_of(segment) and names_of(buffer.segment)
    buffer.close()


def test_a_live_segment_of_another_pid_namespace_remains():
    """Containers with --ipc=host share /dev/shm, but their process ids have no meaning here."""
    if subprocess.run([*NEW_NAMESPACE, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no PID namespace can be made here")
    code = "from cpprb_impl import *; b = MPReplayBuffer(100, {'x': {}}); print(b.segment, flush=True); input(); "
    code += "b.add(x=1); print(b.get_stored_size(), flush=True); input()"
    command = [*NEW_NAMESPACE, sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as inside:
        segment = inside.stdout.readline().strip()
        for make in MAKERS.values():
            make()
        assert names_of(segment)
        inside.stdin.write("\n")
        inside.stdin.flush()
        assert inside.stdout.readline() == "1\n"
        inside.kill()  # with --kill-child, the namespace ends too
    wait_until(lambda: removed_by_a_new_buffer(segment))


def removed_by_a_new_buffer(segment: str) -> bool:
    cpprb_impl.ReplayBuffer(10, {"x": {}})
    return not names_of(segment)
