"""Buffers shared by forked explorers and a learner: rows are returned whole, and no process is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from adapters.base import Adapter, Spec
from adapters.checks import AddedRows, check_overwriting, check_priorities, draw, keyed_columns
from adapters.registry import SHARED

from .conftest import FIELDS, make

CARTPOLE = FIELDS["CartPole-v1"]
#: While explorers add, cpprb's MP class returns torn rows and rows never written; this is documented, not tested.
WHOLE_WHILE_ADDING = [name for name in SHARED if name != "cpprb[MP]"]

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.timeout(120)]


def explore(adapter: Adapter, first: int, rows: int, chunk: int) -> None:
    """Add this explorer's part of the keyed rows, `chunk` at a time."""
    for start in range(first, first + rows, chunk):
        adapter.add_batch(keyed_columns(CARTPOLE, chunk, start), np.full(chunk, 1.0))


def fork_explorers(adapter: Adapter, count: int, rows: int, chunk: int = 25) -> list[multiprocessing.Process]:
    context = multiprocessing.get_context("fork")
    explorers = [context.Process(target=explore, args=(adapter, i * rows, rows, chunk)) for i in range(count)]
    for explorer in explorers:
        explorer.start()
    return explorers


def join(explorers: list[multiprocessing.Process]) -> None:
    try:
        for explorer in explorers:
            explorer.join(60)
        assert [explorer.exitcode for explorer in explorers] == [0] * len(explorers)
    finally:
        for explorer in explorers:
            explorer.kill()
            explorer.join()


@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "prioritized"])
@pytest.mark.parametrize("name", list(SHARED))
def test_rows_added_by_forked_explorers_are_returned_whole(name: str, prioritized: bool) -> None:
    spec = Spec(capacity=128, fields=CARTPOLE, prioritized=prioritized)
    adapter = make(name, spec)
    try:
        join(fork_explorers(adapter, 2, rows=50))
        check_overwriting(adapter, spec, keyed_columns(CARTPOLE, 100))
    finally:
        adapter.close()


@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "prioritized"])
@pytest.mark.parametrize("name", WHOLE_WHILE_ADDING)
def test_rows_are_whole_while_explorers_add(name: str, prioritized: bool) -> None:
    """The ring is small, so that rows are constantly overwritten."""
    spec = Spec(capacity=64, fields=CARTPOLE, prioritized=prioritized)
    known = AddedRows(keyed_columns(CARTPOLE, 3000), CARTPOLE)
    adapter = make(name, spec)
    try:
        adapter.add_batch(keyed_columns(CARTPOLE, 64))
        explorers = fork_explorers(adapter, 2, rows=1500)
        try:
            while any(explorer.is_alive() for explorer in explorers):
                known.check(draw(adapter, spec, 32), 32)
        finally:
            join(explorers)
        assert len(adapter) == 64
    finally:
        adapter.close()


@pytest.mark.parametrize("name", list(SHARED))
def test_shared_draws_follow_the_priorities(name: str) -> None:
    spec = Spec(capacity=64, fields=CARTPOLE, prioritized=True)
    adapter = make(name, spec)
    try:
        check_priorities(adapter, spec)
    finally:
        adapter.close()


HOLD = """
import time
from tests.adapters.conftest import FIELDS, child_processes, make
from adapters.base import Spec
adapter = make({name!r}, Spec(capacity=64, fields=FIELDS["CartPole-v1"], prioritized=True))
print(*child_processes(), flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("name", [pytest.param("reverb", marks=pytest.mark.slow), "cpprb[PER behind one lock]"])
def test_a_helper_process_does_not_outlive_a_killed_parent(name: str) -> None:
    make_skips_here(name)
    root = Path(__file__).resolve().parents[2]
    code = HOLD.format(name=name)
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root)
    try:
        helpers = [int(pid) for pid in parent.stdout.readline().split()]
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        parent.stdout.close()
    assert helpers
    deadline = time.monotonic() + 30
    while alive := [pid for pid in helpers if runs(pid)]:
        assert time.monotonic() < deadline, f"still alive: {alive}"
        time.sleep(0.05)


def make_skips_here(name: str) -> None:
    """Skip the test if the child would skip it."""
    from adapters.base import Unavailable
    from adapters.registry import adapter_class

    try:
        adapter_class(name).version()
    except Unavailable as reason:
        pytest.skip(str(reason))


def runs(pid: int) -> bool:
    """Return whether the process is alive, and not merely waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_runs_distinguishes_live_processes_from_dead_ones() -> None:
    assert runs(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", ""])
    deadline = time.monotonic() + 30
    while runs(child.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not runs(child.pid)
    child.wait()
