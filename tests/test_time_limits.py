"""No test can hang forever, whatever it does to signals or the GIL."""

from __future__ import annotations

import functools
import queue
import subprocess
import sys
from pathlib import Path

import pytest

from suites import targets
from tests import time_limits

ROOT = Path(__file__).resolve().parents[1]
HANGING = {
    "takes over the signal": """
        import signal, time
        def test_that_hangs():
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            while True:
                time.sleep(1)
    """,
    "swallows every exception": """
        import time
        def test_that_hangs():
            while True:
                try:
                    time.sleep(1)
                except BaseException:
                    pass
    """,
    "holds Python's lock": """
        import ctypes
        def test_that_hangs():
            ctypes.PyDLL(None).sleep(1000)
    """,
}


def run(tmp_path: Path, code: str, *options: str) -> subprocess.CompletedProcess:
    lines = code.splitlines()[1:]
    (tmp_path / "test_hanging.py").write_text("\n".join(line[8:] for line in lines), encoding="utf-8")
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests/conftest.py").read_bytes())
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, *options, tmp_path]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)


@pytest.mark.parametrize("fault", ["takes over the signal", "swallows every exception"])
def test_the_time_limit_of_a_test_needs_no_signal(tmp_path, fault):
    done = run(tmp_path, HANGING[fault], "--timeout=1")
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "Timeout" in said and "test_that_hangs" in said


def test_a_new_limit_replaces_the_previous_one():
    """One thread enforces the limits of all tests."""
    watch, expired = time_limits.Watch(), queue.Queue()
    for limit in (60, 0.01):
        watch.start(limit, functools.partial(expired.put, limit))
    assert expired.get(timeout=30) == 0.01
    for limit in (0.1, 60):
        watch.start(limit, functools.partial(expired.put, limit))
    with pytest.raises(queue.Empty):
        expired.get(timeout=0.3)


def test_a_lifted_limit_ends_no_test():
    watch, expired = time_limits.Watch(), queue.Queue()
    watch.start(0.1, functools.partial(expired.put, "too long"))
    watch.cancel()
    with pytest.raises(queue.Empty):
        expired.get(timeout=0.3)
    watch.start(0.01, functools.partial(expired.put, "next"))
    assert expired.get(timeout=30) == "next"


def test_a_worker_names_the_test_that_took_too_long(tmp_path):
    done = run(tmp_path, HANGING["takes over the signal"], "--timeout=1", "--numprocesses=1", "--max-worker-restart=0")
    assert done.returncode == 1 and "in test_that_hangs" in done.stderr


@pytest.mark.parametrize("fault", HANGING)
def test_the_last_resort_needs_neither_a_signal_nor_the_lock(tmp_path, fault):
    options = targets.LIMIT.replace("900", "1").split()
    done = run(tmp_path, HANGING[fault], *options, "--timeout=0")
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "Timeout (0:00:01)" in said and "test_that_hangs" in said


@pytest.mark.parametrize("target", ["test", "test-ray", "test-integrations"])
def test_tests_run_by_make_have_the_last_resort(target):
    done = subprocess.run(
        ["make", "--dry-run", "--assume-old=.venv/.built", "--assume-old=.peers/torch/.built", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    (command,) = [line for line in done.stdout.splitlines() if "-m pytest" in line]
    assert targets.LIMIT in command
