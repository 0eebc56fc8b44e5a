"""Prefault maps memory before it is used, in every process and despite interruptions."""

from __future__ import annotations

import ctypes
import errno
import mmap
import multiprocessing
import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, ReplayBuffer

SIZE, ENV_DICT = 4000, {"x": {"shape": 1024}}  # 16 MB
BUFFERS = pytest.mark.parametrize("kind", [MPReplayBuffer, MPPrioritizedReplayBuffer])
pytestmark = pytest.mark.timeout(120)


def resident(buffer) -> float:
    """Return the part of the buffer's segment that is resident in this process, 0 to 1."""
    maps = Path("/proc/self/smaps").read_text().split(buffer.segment, 1)[1]
    size, rss = (
        next(int(line.split()[1]) for line in maps.splitlines() if line.startswith(n)) for n in ("Size:", "Rss:")
    )
    assert size * 1024 >= buffer.nbytes
    return rss / size


def fill(buffer) -> None:
    buffer.add(x=np.repeat(np.arange(SIZE), 1024))


def is_filled(buffer) -> bool:
    x = buffer.get_all_transitions()["x"]
    return x.shape == (SIZE, 1024) and (x == np.arange(SIZE)[:, None]).all()


def answer_from(context, job, *args):
    """Return what `job` returns in a child process."""
    ours, theirs = context.Pipe()
    child = context.Process(target=_answer, args=(theirs, job, *args))
    child.start()
    theirs.close()
    try:
        assert ours.poll(20), "no answer"
        return ours.recv()
    finally:
        child.kill()
        child.join()


def _answer(pipe, job, *args):
    pipe.send(job(*args))


def resident_before_and_after_use(buffer):
    before = resident(buffer)
    buffer.get_stored_size()
    return before, resident(buffer)


@BUFFERS
def test_without_prefault_only_touched_pages_are_resident(kind):
    buffer = kind(SIZE, ENV_DICT)
    other = kind.attach(buffer.segment)
    assert resident(buffer) < 0.5
    other.close()
    for method in ("fork", "spawn"):
        assert max(answer_from(multiprocessing.get_context(method), resident_before_and_after_use, buffer)) < 0.5
    buffer.close()


@BUFFERS
def test_prefault_maps_all_pages_in_the_maker_and_when_attaching(kind):
    buffer = kind(SIZE, ENV_DICT, prefault=True)
    assert resident(buffer) == 1
    fill(buffer)
    assert resident_before_and_after_use(buffer) == (1, 1)
    assert answer_from(multiprocessing.get_context("spawn"), resident_before_and_after_use, buffer) == (1, 1)
    code = f"""if True:
        import sys
        from cpprb_impl import {kind.__name__}
        from tests.cpprb_impl.test_prefault import is_filled, resident
        buffer = {kind.__name__}.attach(sys.argv[1])
        assert resident(buffer) == 1 and is_filled(buffer)
    """
    subprocess.run([sys.executable, "-c", code, buffer.segment], check=True, timeout=60)
    assert is_filled(buffer)
    buffer.close()


@BUFFERS
def test_a_forked_child_maps_all_pages_at_its_first_call(kind):
    buffer = kind(SIZE, ENV_DICT, prefault=True)
    fill(buffer)
    before, after = answer_from(multiprocessing.get_context("fork"), resident_before_and_after_use, buffer)
    assert before < 0.5 and after == 1
    assert answer_from(multiprocessing.get_context("fork"), is_filled, buffer)
    buffer.close()


# The numbers of fallocate(file, mode, offset, bytes) and madvise(at, bytes, advice).
FALLOCATE, MADVISE = {"x86_64": (285, 28), "aarch64": (47, 233)}[platform.machine()]
MADV_POPULATE_WRITE = 23
EQUALS, EXCEEDS = 0x15, 0x25  # instructions of seccomp filters


def refuse(call: int, argument: int, test: int, value: int, error: int) -> None:
    """Make the system refuse such calls of this process and its children with `error` from now on."""
    load, give, refused, allowed = 0x20, 0x06, 0x50000, 0x7FFF0000
    steps = [
        (load, 0, 0, 0),  # the number of the system call
        (EQUALS, 0, 3, call),
        (load, 0, 0, 16 + 8 * argument),  # the lower half of the argument
        (test, 0, 1, value),
        (give, 0, 0, refused | error),
        (give, 0, 0, allowed),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    no_new_privileges, set_seccomp, filters = 38, 22, 2
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
    assert libc.prctl(set_seccomp, filters, program) == 0, os.strerror(ctypes.get_errno())


def made_where_nothing_is_populated(attached):
    refuse(MADVISE, 2, EQUALS, MADV_POPULATE_WRITE, errno.EINVAL)
    with mmap.mmap(-1, mmap.PAGESIZE) as memory, pytest.raises(OSError, match="Invalid"):
        memory.madvise(MADV_POPULATE_WRITE)
    assert answer_from(multiprocessing.get_context("fork"), resident_before_and_after_use, attached)[1] == 1
    buffer = MPReplayBuffer(SIZE, ENV_DICT, prefault=True)
    there = resident(buffer)
    other = MPReplayBuffer.attach(attached.segment)
    there = min(there, resident(other))
    buffer.close()
    return there, is_filled(other)


def test_prefault_works_on_an_old_kernel():
    """Pages are then mapped one by one, without changing existing data."""
    buffer = MPReplayBuffer(SIZE, ENV_DICT, prefault=True)
    fill(buffer)
    assert answer_from(multiprocessing.get_context("fork"), made_where_nothing_is_populated, buffer) == (1, True)
    assert is_filled(buffer)
    buffer.close()


def made_where_signals_break_in(prefix):
    refuse(FALLOCATE, 3, EXCEEDS, 1 << 20, errno.EINTR)
    with open(f"{prefix}-control", "wb") as file:  # opened in advance, since Python's own open retries forever
        large = ctypes.CDLL(None).posix_fallocate(file.fileno(), ctypes.c_long(0), ctypes.c_long(16 << 20))
        assert large == errno.EINTR
    buffer = MPReplayBuffer(SIZE, ENV_DICT)
    fill(buffer)
    there = is_filled(buffer)
    buffer.close()
    buffer = ReplayBuffer(SIZE, ENV_DICT, mmap_prefix=prefix)
    fill(buffer)
    return there and is_filled(buffer)


def test_a_timer_does_not_prevent_prefault(tmp_path):
    """Before Linux 6.17, a signal makes a call return everything it has mapped, so a large call never ends."""
    assert answer_from(multiprocessing.get_context("fork"), made_where_signals_break_in, str(tmp_path / "rows"))
