"""Races with clear(), with an add of more rows than fit into the ring, and when the largest priority falls."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer

from .jobs import WIDE, WIDE_ENV_DICT, add_wide_for_ever, explorers, kill, wait_until
from .rows import make_rows

pytestmark = pytest.mark.timeout(180)


def add_bytes_for_ever(buffer, explorer, added):
    rows, parent = np.full((4, 60), explorer, dtype=np.uint8), os.getppid()
    while os.getppid() == parent:
        buffer.add(a=rows)
        added.value += 4


@pytest.fixture(params=[MPReplayBuffer, MPPrioritizedReplayBuffer], ids=["uniform", "prioritized"])
def kind(request):
    return request.param


@pytest.mark.usefixtures("threads_change_only_in_calls")
@pytest.mark.parametrize("refilled", [False, True])
@pytest.mark.parametrize(("size", "width"), [(4000, 1000), (1_700_000, 1)])
def test_a_buffer_may_be_cleared_while_another_learner_samples(kind, size, width, refilled):
    """Rows that could not be read are replaced by rows added since. If there are none, the buffer is empty."""
    buffer = kind(size, {"a": {"dtype": np.int64, "shape": width}})
    rows = np.ones((size, width), dtype=np.int64)
    go, seen, deadline = threading.Event(), set(), time.monotonic() + 60

    def clear():
        go.wait()
        buffer.clear()
        if refilled:
            buffer.add(a=np.full(width, 2))

    while not seen & {"empty", 2} and time.monotonic() < deadline:
        buffer.add(a=rows)
        buffer.sample(1)
        go.clear()
        clearer = threading.Thread(target=clear)
        clearer.start()
        time.sleep(0.01)
        go.set()
        try:
            seen |= set(buffer.sample(8_000_000 // width if width > 1 else 400_000)["a"][:, 0].tolist())
        except ValueError as error:
            assert "empty" in str(error)
            seen.add("empty")
        clearer.join()
    buffer.close()
    assert seen & {"empty", 2}, "never cleared in time"


@pytest.mark.slow
def test_a_ring_of_one_row_is_never_empty(kind):
    """Its row is usually being overwritten, by explorers that may have been descheduled."""
    buffer = kind(1, {"a": {"dtype": np.uint8, "shape": 60}})
    buffer.add(a=np.zeros(60))
    with explorers(add_bytes_for_ever, buffer, 4):
        until, sampled = time.monotonic() + 5, 0
        while time.monotonic() < until or sampled == 0:
            try:
                sampled += len(buffer.sample(32)["a"])
            except RuntimeError as error:
                assert "too small for its explorers" in str(error)
    buffer.close()


@pytest.mark.usefixtures("threads_change_only_in_calls")
def test_the_stored_size_is_right_while_more_rows_are_added_than_fit(kind):
    """The first rows are skipped, so their slots are still empty."""
    size, width, pairs = 64, 200_000, []
    buffer = kind(size, {"a": {"dtype": np.int64, "shape": width}})
    adder = threading.Thread(target=buffer.add, kwargs={"a": np.ones((100, width), dtype=np.int64)})
    adder.start()
    while adder.is_alive():
        pairs.append((buffer.get_stored_size(), len(buffer.get_all_transitions()["a"])))
    adder.join()
    assert buffer.get_stored_size() == size
    buffer.close()
    assert len(pairs) > 1
    assert all(size <= rows for size, rows in pairs), pairs


@pytest.mark.slow
def test_the_largest_priority_does_not_fall_below_rows_added_meanwhile():
    """An explorer finds it large enough. Then the learner, which does not know the explorer's rows, lowers it."""
    buffer = MPPrioritizedReplayBuffer(4096, {"a": {}}, alpha=1.0, eps=0.0)
    turns = multiprocessing.get_context("fork").Array("q", 2, lock=False)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            turn = 0
            while os.getppid() == parent and turn >= 0:
                if turns[0] != turn:
                    turn = turns[0]
                    for _ in range(turn % 60 + 1 if turn > 0 else 0):
                        buffer.add(a=1.0, priorities=9.0)
                    turns[1] = turn
        finally:
            os._exit(0)
    lowest, until = 9.0, time.monotonic() + 10
    turn = 0
    while time.monotonic() < until and lowest >= 8.99:
        buffer.clear()
        buffer.add(a=np.zeros(9), priorities=[5.0] * 8 + [10.0])
        indexes = buffer.sample(64)["indexes"]
        turn += 1
        turns[0] = turn
        buffer.update_priorities(indexes, [5.0] * 64)
        wait_until(lambda turn=turn: turns[1] == turn)
        lowest = min(lowest, buffer.get_max_priority())
    turns[0] = -1
    os.waitpid(child, 0)
    buffer.close()
    assert lowest >= 8.99


def test_an_explorer_stopped_before_clear_removes_no_row_stored_after_it():
    """Its claim covers cleared rows. With such wide rows, explorers are nearly always stopped inside add()."""
    buffer = MPReplayBuffer(300, WIDE_ENV_DICT)
    rows = make_rows(0, 1, width=WIDE)
    rows["next_obs"] = rows["next_obs"][:, :2]
    for _ in range(3):
        with explorers(add_wide_for_ever, buffer, 2, rows_a_call=20) as (processes, added):
            wait_until(lambda added=added: all(counter.value > 0 for counter in added))
            for process in processes:
                kill(process, signal.SIGSTOP)
            time.sleep(0.05)
            buffer.clear()
            for count in range(1, 20):
                buffer.add(**rows)
                assert buffer.get_stored_size() == len(buffer.get_all_transitions()["act"]) == count
        buffer.clear()
    buffer.close()
