"""A long copy from a buffer lets other Python threads run, and none of them can corrupt it."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

from .rows import make_rows, numbers_of

WIDE = 64
FIELDS = {
    "obs": {"shape": WIDE},
    "act": {"dtype": np.int64},
    "rew": {},
    "next_obs": {"shape": WIDE},
    "done": {"dtype": bool},
}
LONG = 60_000  # rows with 32 MB
SHORT = 1_000
CAPACITY = 2_000


@pytest.fixture
def counter():
    """Count how often another thread runs while no thread is forced to release the GIL."""
    ran, stop = [0], threading.Event()

    def run() -> None:
        while not stop.is_set():
            ran[0] += 1
            time.sleep(1e-5)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(30.0)
    thread = threading.Thread(target=run)
    thread.start()
    yield ran
    stop.set()
    sys.setswitchinterval(interval)
    thread.join()


def filled(kind: type) -> ReplayBuffer:
    buffer = kind(CAPACITY, FIELDS)
    buffer.add(**make_rows(0, CAPACITY, WIDE))
    return buffer


def ran_during(counter: list[int], call, times: int) -> int:
    before = counter[0]
    for _ in range(times):
        call()
    return counter[0] - before


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
def test_other_threads_run_during_a_long_copy(kind: type, counter: list[int]) -> None:
    """cpprb never releases the GIL."""
    buffer = filled(kind)
    assert ran_during(counter, lambda: buffer.sample(LONG), 5) > 0


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
def test_other_threads_do_not_run_during_a_short_copy(kind: type, counter: list[int]) -> None:
    """The control of the test above.

    Each release of the GIL would cost the learner the time for which the other thread runs.
    """
    buffer = filled(kind)
    assert ran_during(counter, lambda: buffer.sample(SHORT), 300) == 0


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
@pytest.mark.parametrize("options", [{}, {"next_of": "obs"}], ids=str)
def test_no_row_is_torn_by_another_thread(kind: type, options: dict) -> None:
    fields = {name: field for name, field in FIELDS.items() if not (options and name == "next_obs")}
    buffer = kind(CAPACITY, fields, **options)
    buffer.add(**make_rows(0, CAPACITY, WIDE))
    stop, errors = threading.Event(), []

    def disturb(number: int) -> None:
        random = np.random.default_rng(number)
        try:
            while not stop.is_set():
                what, count = random.integers(5), int(random.integers(1, 300))
                if what < 2:
                    buffer.add(**make_rows(int(random.integers(1 << 20)), count, WIDE))
                elif what == 2:
                    numbers_of(buffer.sample(int(random.choice([SHORT, LONG]))))
                elif what == 3 and random.random() < 0.1:
                    buffer.clear()
                    buffer.add(**make_rows(count, CAPACITY, WIDE))
                else:
                    buffer.get_stored_size()
        except ValueError as error:  # empty between clear() and add()
            if "empty" not in str(error):
                errors.append(error)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=disturb, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(12):
            try:
                numbers_of(buffer.sample(LONG))
                numbers_of(buffer.get_all_transitions())
            except ValueError as error:
                assert "empty" in str(error)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors


def test_closing_waits_for_a_long_copy() -> None:
    for _ in range(5):
        buffer, batches = filled(ReplayBuffer), []
        thread = threading.Thread(target=lambda buffer=buffer, batches=batches: batches.append(buffer.sample(LONG)))
        thread.start()
        time.sleep(0.002)
        buffer.close()
        thread.join()
        for batch in batches:
            numbers_of(batch)


CLOSED_MEANWHILE = """
import threading, time
import numpy as np
from cpprb_impl import ReplayBuffer

def until_closed(call):
    try:
        while True:
            call()
    except ValueError as error:
        assert "closed" in str(error), error

for _ in range(10):
    buffer = ReplayBuffer(2000, {"a": {"shape": 50_000, "dtype": np.uint8}})
    buffer.add(a=np.zeros((2000, 50_000), np.uint8))
    calls = [lambda: buffer.sample(2000), buffer.get_stored_size, lambda: buffer.add(a=np.zeros(50_000, np.uint8))]
    threads = [threading.Thread(target=until_closed, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    time.sleep(0.02)
    buffer.close()
    for thread in threads:
        thread.join()
"""

#: While the interpreter is ending, the last object is released, and delays the end.
ENDING = """
import sys, threading, time
import numpy as np
from cpprb_impl import ReplayBuffer

buffer = ReplayBuffer(2000, {"a": {"shape": 50_000, "dtype": np.uint8}})
buffer.add(a=np.zeros((2000, 50_000), np.uint8))

def sample():
    while True:
        buffer.sample(2000)

class Slow:
    def __del__(self, sleep=time.sleep, size=buffer.get_stored_size):
        sleep(0.5)
        size()

threads = [threading.Thread(target=sample, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
time.sleep(0.1)
sys.modules["slow"] = Slow()
"""


@pytest.mark.parametrize("script", [CLOSED_MEANWHILE, ENDING], ids=["closed meanwhile", "the interpreter's end"])
def test_threads_waiting_for_a_long_copy_may_find_the_buffer_closed(script: str) -> None:
    ended = subprocess.run([sys.executable, "-c", script], timeout=120, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_during_a_long_copy_leaves_the_child_usable() -> None:
    buffer, stop = filled(ReplayBuffer), threading.Event()

    def sample() -> None:
        while not stop.is_set():
            buffer.sample(LONG)

    thread = threading.Thread(target=sample)
    thread.start()
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=lambda: numbers_of(buffer.sample(SHORT))) for _ in range(12)]
    for child in children:
        child.start()
        time.sleep(0.005)
    stop.set()
    thread.join()
    for child in children:
        child.join(20)
        assert child.exitcode == 0
