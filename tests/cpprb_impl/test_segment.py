"""The life of a shared segment: which processes can use it, and when its name is removed."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer

from .rows import ENV_DICT, make_rows, numbers_of

SHM = Path("/dev/shm")
BUFFERS = pytest.mark.parametrize("kind", [MPReplayBuffer, MPPrioritizedReplayBuffer])


def segments() -> set[str]:
    """Return the segments that this process made; buffers of other processes do not matter here."""
    return {path.name for path in SHM.glob(f"cpprb_impl-{os.getpid()}-*")}


def exists(segment: str) -> bool:
    return (SHM / segment.strip().strip("/")).exists()


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = segments()
    yield
    gc.collect()
    assert segments() <= before


def child_adds(buffers, first):
    for buffer in buffers:
        buffer.add(**make_rows(first, 10))
        assert buffer.get_stored_size() >= 10


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_buffers_are_passed_to_children_as_arguments(method):
    context = multiprocessing.get_context(method)
    buffers = [kind(100, ENV_DICT) for kind in (MPReplayBuffer, MPPrioritizedReplayBuffer)]
    for turn in range(2):  # one after the other: a process that detaches removes nothing
        child = context.Process(target=child_adds, args=(buffers, turn * 10))
        child.start()
        child.join(60)
        assert child.exitcode == 0
    for buffer in buffers:
        assert sorted(numbers_of(buffer.get_all_transitions())) == list(range(20))
        buffer.close()


@BUFFERS
def test_a_pickle_refers_to_the_same_memory(kind):
    buffer = kind(100, ENV_DICT, lock="buffer")
    other = pickle.loads(pickle.dumps(buffer))
    buffer.add(**make_rows(0, 3))
    other.add(**make_rows(3, 3))
    assert sorted(numbers_of(buffer.get_all_transitions())) == list(range(6))
    again = pickle.loads(pickle.dumps(other))
    assert again.get_stored_size() == 6
    other.close()
    buffer.add(**make_rows(6, 1))
    buffer.close()
    assert again.get_stored_size() == 7  # the memory remains while a process has it mapped
    with pytest.raises(OSError, match="segment") as caught:
        pickle.loads(pickle.dumps(again))
    assert caught.value.errno == errno.ENOENT


@BUFFERS
def test_closing_or_collecting_a_buffer_removes_its_name(kind):
    before = segments()
    buffer = kind(100, ENV_DICT)
    assert len(segments() - before) == 1
    assert (SHM / buffer.segment.strip("/")).stat().st_mode & 0o777 == 0o600
    buffer.close()
    assert segments() == before
    buffer = kind(100, ENV_DICT)
    del buffer
    gc.collect()
    assert segments() == before


def run(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


MAKE = "from cpprb_impl import MPReplayBuffer; b = MPReplayBuffer(100, {'x': {}}); print(b.segment, flush=True); "


def test_the_name_is_removed_when_the_interpreter_ends():
    for ending in ("", "raise SystemExit(3)", "raise KeyboardInterrupt"):
        done = run(MAKE + ending)
        assert done.stdout.startswith("/cpprb_impl-")
        assert not exists(done.stdout)
        assert "resource_tracker" not in done.stderr


def test_too_little_memory_raises_an_exception_and_nothing_is_written():
    before, used = segments(), shutil.disk_usage(SHM).used
    # More than the total, not only more than is free, since other processes may free memory meanwhile.
    capacity = int(shutil.disk_usage(SHM).total * 1.01) // 4000
    for kind in (MPReplayBuffer, MPPrioritizedReplayBuffer):
        with pytest.raises(OSError, match="MiB of shared memory, but /dev/shm has") as caught:
            kind(capacity, {"obs": {"shape": 1000}})
        assert caught.value.errno == errno.ENOSPC
    assert segments() == before
    assert shutil.disk_usage(SHM).used <= used + (64 << 20)


def test_the_start_method_is_not_changed():
    code = (
        "import multiprocessing as m, cpprb_impl; cpprb_impl.MPReplayBuffer(4, {'x': {}}); m.set_start_method('spawn')"
    )
    assert run(code).returncode == 0


def test_options_of_cpprb_are_accepted_and_checked():
    for backend in ("sharedctypes", "SharedMemory"):
        MPReplayBuffer(4, ENV_DICT, backend=backend, ctx=multiprocessing.get_context("spawn"), logger=None).close()
    with pytest.raises(ValueError, match="backend must be one of sharedctypes, SharedMemory"):
        MPReplayBuffer(4, ENV_DICT, backend="files")
    for wrong in ("none at all", "unshared"):
        with pytest.raises(ValueError, match="lock must be one of none, critical, buffer"):
            MPPrioritizedReplayBuffer(4, ENV_DICT, lock=wrong)
    with pytest.raises(TypeError, match="next_off"):
        MPReplayBuffer(4, ENV_DICT, next_off="obs")


def test_a_forked_child_that_ends_does_not_remove_the_segment():
    buffer = MPReplayBuffer(4, {"x": {"dtype": np.int64}})
    child = os.fork()
    if child == 0:
        code = 0
        try:
            buffer.add(x=5)
            buffer.close()
            del buffer
            gc.collect()
        except BaseException:
            code = 1
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert exists(buffer.segment)
    assert buffer.sample(1)["x"].item() == 5
    buffer.close()
