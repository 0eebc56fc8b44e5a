"""A child is forked while another thread of its parent is inside a call, which never returns in the child."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cpprb_impl import (
    HindsightReplayBuffer,
    MPPrioritizedReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
)

FIELDS = {"x": {"dtype": object}, "number": {"dtype": np.int64}, "done": {}}
PLAIN = {name: FIELDS[name] for name in ("number", "done")}
KINDS = pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
NSTEP = {"Nstep": {"size": 3}}
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


class Thing:
    """An object that stores the number of its row."""

    def __init__(self, number: int) -> None:
        self.number = number


def row(number: int) -> dict:
    return {"x": Thing(number), "number": number, "done": 0}


def numbers_of(buffer: ReplayBuffer) -> list[int]:
    """Return the numbers of the rows. Raises AssertionError if an object belongs to a different row."""
    batch = buffer.get_all_transitions()
    numbers = batch["number"].ravel().tolist()
    assert [thing.number for thing in batch["x"].ravel()] == numbers
    return numbers


def in_child(work: Callable[[], None]) -> None:
    """Run `work` in a forked child; raise AssertionError if it fails or hangs."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    deadline = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.005)
    assert ended[1] == 0


class Interrupted:
    """A thread that runs `work` until it reaches `pause`, and continues after the `with` block."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._reached, self._go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=work)

    def pause(self) -> None:
        if threading.current_thread() is self._thread:
            self._reached.set()
            self._go_on.wait(60)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._reached.wait(60)

    def __exit__(self, *_: object) -> None:
        self._go_on.set()
        self._thread.join()


def hindsight() -> HindsightReplayBuffer:
    return HindsightReplayBuffer(8, {"obs": {}, "act": {}, "next_obs": {}}, 4, lambda *_: np.zeros(len(_[0])))


@pytest.mark.parametrize(
    ("buffer", "step"),
    [
        (ReplayBuffer(8, FIELDS), {"x": None, "number": 0, "done": 0}),
        (ReplayBuffer(8, FIELDS, Nstep={"size": 2}), {"x": None, "number": 0, "done": 0}),
        (PrioritizedReplayBuffer(8, FIELDS), {"x": None, "number": 0, "done": 0}),
        (ReplayBuffer(8, PLAIN, Nstep={"size": 2}), {"number": 0, "done": 0}),
        (hindsight(), {"obs": 0, "act": 0, "next_obs": 0}),
    ],
    ids=["objects", "objects and Nstep", "prioritized", "Nstep", "hindsight"],
)
def test_a_fork_while_an_argument_is_read_leaves_the_child_usable(buffer, step) -> None:
    class Slow:
        def __array__(self, dtype=None, copy=None):
            reading.pause()
            return np.zeros(1)

    last = list(step)[-1]
    reading = Interrupted(lambda: buffer.add(**{**step, last: Slow()}))

    def child() -> None:
        for _ in range(3):
            buffer.add(**step)
        if isinstance(buffer, HindsightReplayBuffer):
            buffer.on_episode_end(0)
            assert buffer.get_stored_size() == 8
        else:
            buffer.on_episode_end()
            assert buffer.get_stored_size() == 3

    with reading:
        in_child(child)


@KINDS
@pytest.mark.parametrize("stored", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("options", "call"), [({}, "add"), (NSTEP, "add"), (NSTEP, "on_episode_end")], ids=str)
def test_a_fork_during_add_stores_all_rows_or_none(kind, options, stored, call) -> None:
    """The thread is interrupted before or after the native ring has stored the rows."""

    class Stopping(kind):
        def _add_rows(self, **rows):
            if not stored:
                thread.pause()
            slot = super()._add_rows(**rows)
            if stored:
                thread.pause()
            return slot

    def fill(buffer: ReplayBuffer) -> None:
        for number in range(7):
            buffer.add(**row(number))

    def interrupted(buffer: ReplayBuffer) -> None:
        buffer.add(**row(7)) if call == "add" else buffer.on_episode_end()

    def go_on(buffer: ReplayBuffer) -> list[list[int]]:
        held = [numbers_of(buffer)]
        for number in range(10, 14):
            buffer.add(**row(number))
            held.append(numbers_of(buffer))
        buffer.on_episode_end()
        return [*held, numbers_of(buffer)]

    buffer, twin = Stopping(5, FIELDS, **options), kind(5, FIELDS, **options)
    thread = Interrupted(lambda: interrupted(buffer))
    fill(buffer)
    fill(twin)
    if stored:
        interrupted(twin)
    expected = go_on(twin)

    def child() -> None:
        assert go_on(buffer) == expected

    with thread:
        in_child(child)
    numbers_of(buffer)


@KINDS
def test_a_fork_while_an_overwritten_object_is_freed_keeps_rows_whole(kind) -> None:
    class Ending(Thing):
        def __del__(self):
            thread.pause()

    buffer = kind(3, FIELDS)
    for number in range(3):
        buffer.add(x=Ending(number), number=number, done=0)
    many = {name: np.array([row(n)[name] for n in (3, 4)], object if name == "x" else None) for name in FIELDS}
    thread = Interrupted(lambda: buffer.add(**many))

    def child() -> None:
        assert sorted(numbers_of(buffer)) == [2, 3, 4]
        buffer.add(**row(5))
        assert sorted(numbers_of(buffer)) == [3, 4, 5]

    with thread:
        in_child(child)
    assert sorted(numbers_of(buffer)) == [2, 3, 4]


LARGE = 1 << 32


def large(between: Callable[[ReplayBuffer], None]) -> ReplayBuffer:
    """Return a buffer with LARGE bytes of address space, which calls `between` in the middle of `sample`."""

    class Stopping(ReplayBuffer):
        def _batch_through(self, batch, indexes=None):
            between(self)
            return super()._batch_through(batch, indexes)

    buffer = Stopping(1 << 12, {"x": {"dtype": object}, "wide": {"shape": LARGE >> 12, "dtype": np.uint8}})
    buffer.add(x=None, wide=np.zeros(LARGE >> 12, np.uint8))
    return buffer


def address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE


def test_a_child_closes_a_buffer_that_another_thread_was_using() -> None:
    buffer = large(lambda _: thread.pause())
    thread = Interrupted(lambda: buffer.sample(1))

    def child() -> None:
        before = address_space()
        buffer.close()
        assert address_space() < before - LARGE // 2
        with pytest.raises(ValueError, match="closed"):
            buffer.sample(1)

    with thread:
        in_child(child)
        assert buffer.get_stored_size() == 1


def test_a_child_does_not_close_a_buffer_that_its_own_thread_is_using() -> None:
    """If the forking thread was inside a call, its copy in the child continues that call."""
    inside = []

    def fork(buffer: ReplayBuffer) -> None:
        child = os.fork()
        if child == 0:
            inside.append(address_space())
            buffer.close()
            inside.append(address_space())
        else:
            assert os.waitpid(child, 0)[1] == 0

    buffer, maker = large(fork), os.getpid()
    try:
        buffer.sample(1)
    finally:
        if os.getpid() != maker:
            before, closing = inside
            kept = closing > before - LARGE // 2
            os._exit(0 if kept and address_space() < before - LARGE // 2 else 1)
    assert buffer.get_stored_size() == 1


def test_a_child_without_memory_does_not_draw_the_numbers_of_its_parent() -> None:
    """If the first call fails, here because it cannot map the segment's pages, the next call does all of its work."""
    rows = 20 * mmap.PAGESIZE // 8  # of 24 bytes each, so that they end at the end of a page
    buffer = MPPrioritizedReplayBuffer(rows, {"x": {}}, prefault=True, seed=3)
    buffer.add(x=np.arange(rows))
    buffer.sample(8)
    path = f"/dev/shm{buffer.segment}"
    reader, writer = os.pipe()

    def child() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        (line,) = (line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(path))
        begin, end = (int(word, 16) for word in line.split()[0].split("-"))
        last = end - mmap.PAGESIZE  # which contains its description
        assert libc.munmap(ctypes.c_void_p(last), mmap.PAGESIZE) == 0
        for _ in range(2):
            with pytest.raises(MemoryError):
                buffer.sample(8)
        file = os.open(path, os.O_RDWR)
        fixed = mmap.MAP_SHARED | 0x10
        assert libc.mmap(last, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE, fixed, file, last - begin) == last
        os.write(writer, buffer.sample(8)["indexes"].tobytes())

    in_child(child)
    assert os.read(reader, 64) != buffer.sample(8)["indexes"].tobytes()
    os.close(reader)
    os.close(writer)
    buffer.close()
