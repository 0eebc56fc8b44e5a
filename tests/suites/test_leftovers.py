"""Leftovers of a launch are reported and removed, and not confused with leftovers of other programs."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from suites.runner import process as launch
from suites.runner import segments

SHARED_MEMORY = Path("/dev/shm")


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


SLEEP = "import time; time.sleep(600)"
LEAVE = {
    "a helper": ("subprocess.Popen([sys.executable, '-c', sleep])", "1 process"),
    "a helper in a session of its own": (
        "subprocess.Popen([sys.executable, '-c', sleep], start_new_session=True)",
        "1 process",
    ),
    "a segment": ("open('/dev/shm/psm_left-%d' % os.getpid(), 'wb').write(bytes(3 << 20))", "1 segment of 3.0 MiB"),
    "a segment that a watchdog removes soon": (
        "file = '/dev/shm/psm_left-%d' % os.getpid(); open(file, 'wb').write(bytes(3 << 20)); "
        "subprocess.Popen(['/bin/sh', '-c', 'sleep 1; rm ' + file], env={}, start_new_session=True)",
        "",
    ),
    "a helper that ends soon": ("subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(0.3)'])", ""),
}


@pytest.mark.parametrize("what", LEAVE)
def test_leftovers_of_a_successful_launch_are_reported_and_removed(what):
    code, left = LEAVE[what]
    before = set(SHARED_MEMORY.iterdir())
    program = f"import os, subprocess, sys; sleep = {SLEEP!r}; {code}"
    assert launch.run(python(program), 30) == launch.Ending(None, left)
    assert not [path for path in set(SHARED_MEMORY.iterdir()) - before if "psm_left" in path.name]


@pytest.mark.parametrize("how", ["a helper", "a helper in a session of its own", "a fork"])
def test_leftovers_of_a_forked_launch_are_found(how, surroundings):
    """Forks inherit the environment of their server, so no mark in it can identify them."""
    code = "os.fork() or (os.setsid(), os.closerange(0, 3), time.sleep(600))" if how == "a fork" else LEAVE[how][0]
    quiet = code.replace("sleep]", "sleep], stdout=subprocess.DEVNULL")
    assert surroundings.fork("-c", f"import os, subprocess, sys, time; sleep = {SLEEP!r}; {quiet}").returncode == 0
    assert len(set(surroundings.leftovers())) == 1
    assert surroundings.fork("-c", "print(1)").stdout == "1\n"
    assert surroundings.leftovers() == []


HOLD = """
import multiprocessing, os, sys, time
lock = multiprocessing.get_context("spawn").Lock()
with open(sys.argv[1], "w") as told:
    print(os.getpid(), lock._semlock.name[1:], file=told)
time.sleep(600)
"""
MEANWHILE = f"""
import os, subprocess, sys, time
strangers = {{name: value for name, value in os.environ.items() if name != {launch.MARK!r}}}
subprocess.Popen([sys.executable, "-c", {HOLD!r}, sys.argv[1]], env=strangers, start_new_session=True)
while not (os.path.exists(sys.argv[1]) and open(sys.argv[1]).read().endswith("\\n")):
    time.sleep(0.01)
"""


def test_a_semaphore_of_an_unrelated_process_is_not_removed(tmp_path):
    told = tmp_path / "told"
    assert launch.run([*python(MEANWHILE), str(told)], 30) == launch.Ending(None)
    process, name = told.read_text().split()
    try:
        assert (SHARED_MEMORY / f"sem.{name}").exists()
    finally:
        os.kill(int(process), signal.SIGKILL)
        (SHARED_MEMORY / f"sem.{name}").unlink(missing_ok=True)


#: Makes a file that is named like a segment of our buffer, reports this, and waits to be killed.
MAKER = """
import fcntl, os, time
with open(f"/dev/shm/cpprb_impl-{os.getpid()}-0123456789abcdef-1", "wb", buffering=0) as file:
    fcntl.flock(file, fcntl.LOCK_SH)
    file.write(bytes(8192))
    print("made", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0, reason="cannot mount a folder"
)
@pytest.mark.parametrize("use", ["mmap.mmap(file.fileno(), 0); file.close()", "None"], ids=["mapped", "open"])
def test_a_segment_counts_as_in_use_under_any_path(use, tmp_path, monkeypatch):
    """A program in a chroot sees it under a different path."""
    # Not named like a segment of a buffer, which other tests would remove before it is opened.
    name = f"of-a-test-{os.getpid()}"
    monkeypatch.setattr(segments, "SEGMENT_PREFIXES", (name,))
    code = f"import mmap; file = open('{tmp_path}/{name}', 'r+b'); kept = {use}; print('ready', flush=True); input()"
    mounted = ["unshare", "--mount", "sh", "-c", f'mount --bind {SHARED_MEMORY} {tmp_path} && exec "$@"', "sh"]
    path = SHARED_MEMORY / name
    path.write_bytes(bytes(8192))
    try:
        assert path.stat().st_ino not in segments._shared_memory_in_use()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([*mounted, *python(code)], text=True, **pipes) as user:
            assert user.stdout.readline() == "ready\n"
            assert path.stat().st_ino in segments._shared_memory_in_use()
            user.communicate("\n")
    finally:
        path.unlink()


@pytest.mark.parametrize("is_member", [True, False], ids=["of the launch", "of another program"])
def test_leftovers_of_a_killed_process_are_removed_only_if_they_belong_to_the_launch(is_member, monkeypatch):
    """Otherwise, leftovers of a training that crashes during a bench would be attributed to our buffer."""
    found = segments.Segments(lambda process: is_member)
    maker = subprocess.Popen(python(MAKER), stdout=subprocess.PIPE, text=True)
    try:
        assert maker.stdout.readline() == "made\n"
        (path,) = SHARED_MEMORY.glob(f"cpprb_impl-{maker.pid}-*")
        with path.open() as file:
            # Locked, so that other makers of buffers do not remove it as abandoned; the runner must.
            fcntl.flock(file, fcntl.LOCK_SH)
            in_use, mine = segments._shared_memory_in_use, {os.fstat(file.fileno()).st_ino}
            monkeypatch.setattr(segments, "_shared_memory_in_use", lambda: in_use() - mine)
            found.look()
            maker.kill()
            maker.wait()
            assert (8192 in found.remove_orphans()) == is_member
            assert path.exists() == (not is_member)
    finally:
        maker.kill()
        path.unlink(missing_ok=True)
