"""Code that runs during a call or between two calls: conversions, signal handlers, and deaths of processes."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from .jobs import WIDE_ENV_DICT, add_wide_for_ever, explorers, kill, wait_until
from .rows import torn_rows


class Converts:
    """An array-like that runs other code when it is converted."""

    def __init__(self, first, *results):
        self.first, self.results = first, list(results)

    def __array__(self, dtype=None, copy=None):
        self.first()
        return np.asarray(self.results.pop(0) if len(self.results) > 1 else self.results[0])


def test_priorities_whose_conversion_shrinks_the_rows_are_harmless():
    buffer = PrioritizedReplayBuffer(100_000, {"a": {}})
    rows = np.arange(50_000, dtype=np.float32)
    priorities = Converts(lambda: rows.resize(1, refcheck=False), np.ones(50_000))
    with pytest.raises(ValueError, match="one value per row, got 50000 values for 1 rows"):
        buffer.add(a=rows, priorities=priorities)
    assert buffer.get_stored_size() == 0


def test_an_array_whose_dtype_changes_during_the_call_is_refused():
    buffer = ReplayBuffer(100, {"a": {"shape": 4}, "b": {}})
    rows = np.zeros((10, 4), dtype=np.float32)

    def retype():
        rows.dtype = np.uint8

    with pytest.raises(ValueError, match="a: the array was changed"):
        buffer.add(a=rows, b=Converts(retype, np.zeros(10)))
    assert buffer.get_stored_size() == 0


def test_indexes_that_shrink_during_the_call_raise_an_error():
    buffer = PrioritizedReplayBuffer(8, {"a": {}})
    buffer.add(a=np.zeros(8))
    indexes = np.arange(4)
    with pytest.raises(ValueError, match="4 values for 0 indexes"):
        buffer.update_priorities(indexes, Converts(lambda: indexes.resize(0, refcheck=False), np.full(4, 3.0)))
    assert buffer.get_max_priority() == 1.0


def test_priorities_whose_dtype_changes_during_the_call_are_refused():
    buffer = PrioritizedReplayBuffer(100, {"a": {}})
    priorities = np.ones(4)

    def retype():
        priorities.dtype = np.int8  # the 4 doubles become 32 integers

    with pytest.raises(ValueError, match="priorities: the array was changed"):
        buffer.add(a=Converts(retype, np.zeros(32)), priorities=priorities)
    assert buffer.get_stored_size() == 0


def test_indexes_whose_dtype_changes_during_the_call_are_refused():
    buffer = PrioritizedReplayBuffer(8, {"a": {}})
    buffer.add(a=np.zeros(8))
    indexes = np.zeros(4, np.int64)

    def retype():
        indexes.dtype = np.int8

    with pytest.raises(ValueError, match="array was changed"):
        buffer.update_priorities(indexes, Converts(retype, np.full(32, 3.0)))
    assert buffer.get_max_priority() == 1.0


@pytest.mark.parametrize("name", ["weights", "indexes", "priorities"])
def test_a_prioritized_buffer_refuses_fields_with_names_that_it_uses(name):
    with pytest.raises(ValueError, match=name):
        PrioritizedReplayBuffer(8, {name: {}})
    ReplayBuffer(8, {name: {}}).add(**{name: 1})


def test_names_that_could_run_code_are_refused():
    class Name(str):
        __slots__ = ()

    with pytest.raises(TypeError, match="of type str"):
        ReplayBuffer(8, {"a": {}}).add(a=1, **{Name("b"): 2})


def test_odd_dtypes_and_sizes_are_refused():
    with pytest.raises(TypeError, match="must not contain a shape"):
        ReplayBuffer(8, {"a": {"dtype": np.dtype((np.float32, (2, 3)))}})
    with pytest.raises(ValueError, match="bytes"):
        ReplayBuffer(8, {"a": {"shape": 2**61 - 1}, "b": {"shape": 2**61 - 1}})
    with pytest.raises(ValueError, match="alpha and eps"):
        PrioritizedReplayBuffer(8, {"a": {}}, alpha=1e6)
    buffer = PrioritizedReplayBuffer(8, {"a": {}}, alpha=0)
    with pytest.raises(ValueError, match=r"priorities\[0\]"):
        buffer.add(a=1, priorities=[np.inf])


def test_weights_are_correct_over_sixty_orders_of_magnitude():
    buffer = PrioritizedReplayBuffer(2, {"a": {}}, alpha=1.0, eps=0.0)
    buffer.add(a=[0, 1], priorities=[1e-30, 1e30])
    batch = buffer.sample(4, beta=0.4)
    assert batch["weights"] == pytest.approx(1e-24, rel=1e-4, abs=0)


def test_arguments_can_be_passed_by_name():
    buffer = PrioritizedReplayBuffer(8, {"a": {}})
    buffer.add(a=1)
    assert len(buffer.sample(beta=0.1, batch_size=3)["a"]) == 3
    assert len(ReplayBuffer.sample(buffer, batch_size=2)["a"]) == 2
    buffer.update_priorities(priorities=[2.0], indexes=[0])
    for wrong in (lambda: buffer.sample(), lambda: buffer.sample(1, 0.4, None, 3), lambda: buffer.sample(1, gamma=1),
                  lambda: buffer.sample(1, batch_size=2), lambda: buffer.update_priorities([0])):  # fmt: skip
        with pytest.raises(TypeError, match=r"sample|update_priorities"):
            wrong()


@pytest.mark.parametrize("lock", ["buffer", "critical"])  # without a lock no call waits
def test_a_signal_handler_gets_an_error_if_its_own_thread_holds_the_lock(lock):
    """Otherwise, the handler would wait forever. The interrupted call continues."""
    buffer = MPReplayBuffer(30, WIDE_ENV_DICT, lock=lock)
    refused = []

    def handler(*_):
        try:
            buffer.sample(1)
        except RuntimeError as error:
            refused.append(str(error))

    old = signal.signal(signal.SIGALRM, handler)
    try:
        with explorers(add_wide_for_ever, buffer, 1, rows_a_call=12) as (processes, _):
            wait_until(lambda: buffer.get_stored_size() == 30)
            deadline = time.monotonic() + 60
            while not refused and time.monotonic() < deadline:
                kill(processes[0], signal.SIGSTOP)
                time.sleep(0.01)
                waker = os.fork()
                if waker == 0:  # lets the explorer continue while this process waits
                    time.sleep(0.2)
                    os.kill(processes[0].pid, signal.SIGCONT)
                    os._exit(0)
                signal.setitimer(signal.ITIMER_REAL, 0.08)
                assert torn_rows(buffer.sample(4)).sum() == 0
                signal.setitimer(signal.ITIMER_REAL, 0)
                os.waitpid(waker, 0)
                kill(processes[0], signal.SIGCONT)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        buffer.close()
    assert refused and "signal handler" in refused[0]


@pytest.mark.parametrize("lock", ["buffer", "critical", "none"])
def test_a_death_during_clear_leaves_no_row_that_can_be_drawn(lock):
    size = 300_000  # large, so that clearing takes long enough for a kill during it
    buffer = MPPrioritizedReplayBuffer(size, {"a": {"dtype": np.int64}}, lock=lock)
    for trial in range(20):
        buffer.add(a=np.full(size, trial))
        buffer.sample(1)
        child = os.fork()
        if child == 0:
            buffer.clear()
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.00005 * trial)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        buffer.add(a=[-1])
        stored = buffer.get_all_transitions()["a"].ravel()
        assert set(buffer.sample(1000)["a"].ravel()) <= set(stored[:1]) | set(stored[-1:]) | {trial, -1}
        if len(stored) == 1:
            assert set(buffer.sample(1000)["a"].ravel()) == {-1}
    buffer.close()


def test_stored_size_never_exceeds_capacity_while_others_add():
    buffer = MPReplayBuffer(8, {"a": {}})

    def job():
        while os.getppid() == parent:
            buffer.add(a=np.zeros(5))

    parent = os.getpid()
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            job()
            os._exit(0)
        children.append(child)
    try:
        sizes = {buffer.get_stored_size() for _ in range(300_000)}
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        buffer.close()
    assert sizes <= set(range(9))


@pytest.mark.parametrize("lock", ["buffer", "critical", "none"])
def test_rows_are_reclaimed_after_the_reclaiming_process_has_died(lock):
    """SIGKILL an explorer inside add, then the process that reclaims its rows, repeatedly.

    With a million rows per call, both take milliseconds, so that the kills hit them.
    """
    size, count = 2_000_000, 1_000_000
    buffer = MPPrioritizedReplayBuffer(size, {"a": {"dtype": np.uint8}}, lock=lock)
    written = np.full(count, 7, dtype=np.uint8)
    buffer.add(a=written)
    parent, cut_short = os.getpid(), 0

    def child(work):
        process = os.fork()
        if process == 0:
            while os.getppid() == parent:
                work()
            os._exit(0)
        return process

    def end(process):
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)

    for trial in range(12):
        explorer = child(lambda: buffer.add(a=written))
        time.sleep(0.03 + 0.001 * trial)
        end(explorer)
        learner = child(lambda: buffer.sample(1))
        time.sleep(0.001 + 0.0003 * trial)
        end(learner)
        rows = buffer.get_all_transitions()["a"]
        assert (rows == 7).all()
        assert len(rows) == buffer.get_stored_size() <= size
        cut_short += len(rows) < size
    assert cut_short > 0, "no kill hit an add: the test showed nothing"
    buffer.add(a=np.tile(written, 2))
    assert buffer.get_stored_size() == size
    buffer.close()
