"""Many processes use one buffer without torn rows, unwritten rows or hangs. Covers items 1 to 14 of cpprb's faults."""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import random
import signal
import time

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer
from cpprb_impl.layout.options import LOCKS
from tests.grids import pairwise

from .jobs import (
    MADE_ENV_DICT,
    MADE_WIDTH,
    WIDE_ENV_DICT,
    add_for_ever,
    add_made_for_ever,
    add_wide_for_ever,
    explorers,
    kill,
    wait_until,
)
from .rows import ENV_DICT, make_rows, numbers_of, torn_rows

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(params=LOCKS)
def lock(request):
    return request.param


@pytest.fixture(params=[MPReplayBuffer, MPPrioritizedReplayBuffer], ids=["uniform", "prioritized"])
def make(request, lock):
    made = []

    def build(size, env_dict=ENV_DICT, **kwargs):
        made.append(request.param(size, env_dict, lock=lock, **kwargs))
        return made[-1]

    yield build
    for buffer in made:
        buffer.close()


def learn(buffer, seconds, batch=32, least=1):
    """Sample (and update priorities) for a while, and at least this many rows. Return counts of all and torn rows."""
    rows = torn = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until or rows < least:
        sample = buffer.sample(batch)
        rows += batch
        torn += int(torn_rows(sample).sum())
        if "indexes" in sample:
            buffer.update_priorities(sample["indexes"], np.random.default_rng(rows).uniform(0.1, 2, batch))
    return rows, torn


@pairwise(lock=LOCKS, make=[MPReplayBuffer, MPPrioritizedReplayBuffer], size=[64, 5000], indirect=("lock", "make"))
def test_samples_contain_no_torn_or_unwritten_row(make, lock, size):
    buffer = make(size, MADE_ENV_DICT)
    with explorers(add_made_for_ever, buffer, 4) as (_, added):
        wait_until(lambda: all(counter.value > 0 for counter in added))
        # With large batches of wide rows, a missing check is detected within 0.3 s.
        # A learner with a lock could return torn rows only if both the lock and its check of each row failed.
        torn = learn(buffer, seconds=0.6 if lock == "none" else 0.1, batch=500)[1]
    assert torn == 0
    numbers_of(buffer.get_all_transitions())


def test_the_same_job_finds_torn_rows_in_cpprb():
    """The negative control: cpprb's gate allows torn rows, and this test detects them."""
    cpprb = pytest.importorskip("cpprb")
    buffer = cpprb.MPReplayBuffer(64, MADE_ENV_DICT)
    buffer.add(**make_rows(0, 64, MADE_WIDTH))
    context = multiprocessing.get_context("fork")
    torn_seen = context.Value("q", 0)

    def learner():  # in a separate process, since cpprb's learner may block forever
        while True:
            torn_seen.value += learn(buffer, seconds=0.1, batch=500)[1]

    with explorers(add_made_for_ever, buffer, 4, most=20):
        process = context.Process(target=learner, daemon=True)
        process.start()
        try:
            wait_until(lambda: torn_seen.value > 0, seconds=60)
        finally:
            process.kill()
            process.join()
    assert torn_seen.value > 0


def test_every_row_is_stored_exactly_once(make):
    buffer = make(100_000)
    context = multiprocessing.get_context("fork")

    def job(explorer):
        rng = np.random.default_rng(explorer)
        at = 0
        while at < 20_000:
            count = min(int(rng.integers(1, 50)), 20_000 - at)
            buffer.add(**make_rows(explorer * 20_000 + at, count))
            at += count

    processes = [context.Process(target=job, args=(i,)) for i in range(4)]
    for process in processes:
        process.start()
    while any(process.is_alive() for process in processes):
        with contextlib.suppress(ValueError):  # the buffer is still empty
            assert not torn_rows(buffer.sample(32)).any()
    assert sorted(numbers_of(buffer.get_all_transitions())) == list(range(80_000))


def test_a_failed_add_does_not_block_the_learner(make):
    buffer = make(8)
    buffer.add(**make_rows(0, 4))
    with pytest.raises(KeyError):
        buffer.add(obs=np.zeros(4))
    assert len(numbers_of(buffer.sample(4))) == 4


def test_no_call_blocks_on_a_new_buffer(make):
    buffer = make(8)
    assert buffer.get_all_transitions()["obs"].shape == (0, 4)
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1)
    if isinstance(buffer, MPPrioritizedReplayBuffer):
        buffer.update_priorities([0], [1.0])
    buffer.clear()


@pytest.mark.slow
def test_an_explorer_killed_inside_add_costs_only_its_rows(make):
    """SIGKILL in the middle of copying, repeatedly: no hang, no torn row, and the slots are reused."""
    size = 60
    buffer = make(size, WIDE_ENV_DICT)
    interrupted = 0
    for trial in range(25):
        with explorers(add_wide_for_ever, buffer, 2, rows_a_call=20) as (processes, added):
            wait_until(lambda added=added: sum(counter.value for counter in added) > 2 * size)
            time.sleep(random.Random(trial).uniform(0, 0.01))
            kill(processes[0])
            assert torn_rows(buffer.sample(64)).sum() == 0
            before = added[1].value
            wait_until(lambda added=added, before=before: added[1].value >= before + 2 * size)
            kill(processes[1])
        rows = buffer.get_all_transitions()
        assert torn_rows(rows).sum() == 0
        assert len(rows["act"]) == buffer.get_stored_size()
        interrupted += buffer.get_stored_size() < size
    assert interrupted > 0, "no kill hit an add: the test showed nothing"
    rows = make_rows(0, size, width=WIDE_ENV_DICT["obs"]["shape"])
    rows["next_obs"] = rows["next_obs"][:, :2]
    buffer.add(**rows)
    assert sorted(numbers_of(buffer.get_all_transitions())) == list(range(size))


def test_a_learner_killed_inside_sample_blocks_no_process(make):
    buffer = make(500)
    buffer.add(**make_rows(0, 500))
    context, priorities = multiprocessing.get_context("fork"), np.linspace(0.1, 2, 300)

    def learner(started):
        while True:  # spends most of its time in these calls, so that a kill interrupts one
            sample = buffer.sample(300)
            if "indexes" in sample:
                buffer.update_priorities(sample["indexes"], priorities)
            started.value = True

    for trial in range(6):
        started = context.Value("b", False, lock=False)
        process = context.Process(target=learner, args=(started,), daemon=True)
        process.start()
        wait_until(lambda started=started: started.value)
        time.sleep(random.Random(trial).uniform(0, 0.01))
        kill(process)
        buffer.add(**make_rows(trial, 3))
        assert torn_rows(buffer.sample(100)).sum() == 0


def test_a_stopped_explorer_is_not_lapped(make, lock):
    """SIGSTOP inside add, then SIGCONT: meanwhile, no other process may have written to its rows."""
    buffer = make(30, WIDE_ENV_DICT)
    with explorers(add_wide_for_ever, buffer, 3, rows_a_call=12) as (processes, added):
        wait_until(lambda: buffer.get_stored_size() == 30)
        for trial in range(10):
            kill(processes[trial % 3], signal.SIGSTOP)
            time.sleep(0.03)
            kill(processes[trial % 3], signal.SIGCONT)
            before = added[trial % 3].value
            wait_until(lambda trial=trial, before=before: added[trial % 3].value > before)
            assert torn_rows(buffer.sample(64)).sum() == 0


def test_ctrl_c_interrupts_a_waiting_learner(make, lock):
    """A stopped explorer may hold a lock.

    The learner's wait can be interrupted and resumed. Without a lock, it never waits.
    """
    buffer = make(30, WIDE_ENV_DICT)

    def give_up(*_):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, give_up)
    broken_off = 0
    try:
        with explorers(add_wide_for_ever, buffer, 1, rows_a_call=12) as (processes, _):
            wait_until(lambda: buffer.get_stored_size() == 30)
            for trial in range(20):
                time.sleep(random.Random(trial).uniform(0, 0.005))
                kill(processes[0], signal.SIGSTOP)
                time.sleep(0.01)
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                try:
                    buffer.sample(1)
                except KeyboardInterrupt:
                    broken_off += 1
                signal.setitimer(signal.ITIMER_REAL, 0)
                kill(processes[0], signal.SIGCONT)
                assert torn_rows(buffer.sample(16)).sum() == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert (broken_off == 0) == (lock == "none"), f"{broken_off} of 20 samples waited"


@pytest.mark.slow
def test_more_explorers_can_add_than_there_are_registrations(make):
    buffer = make(200)
    with explorers(add_for_ever, buffer, 20) as (_, added):
        wait_until(lambda: all(counter.value > 0 for counter in added), seconds=60)
        assert learn(buffer, seconds=0.5)[1] == 0


def test_threads_may_share_a_buffer(make):
    import threading

    buffer = make(100)
    stop = threading.Event()

    def job(explorer):
        while not stop.is_set():
            buffer.add(**make_rows(explorer * 1000, 7))

    threads = [threading.Thread(target=job, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: buffer.get_stored_size() > 0)
    torn = learn(buffer, seconds=0.2)[1]
    stop.set()
    for thread in threads:
        thread.join()
    assert torn == 0


def test_threads_may_sample_batches_of_different_sizes(make):
    """While one thread waits for the lock, others may sample; their rows must not appear in its batch."""
    import threading

    buffer = make(2000)
    buffer.add(**make_rows(0, 2000))
    troubles = []

    def job(batch):
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            rows = buffer.sample(batch)
            if len(rows["act"]) != batch or torn_rows(rows).any():
                troubles.append(batch)

    with explorers(add_for_ever, buffer, 3):
        threads = [threading.Thread(target=job, args=(batch,)) for batch in (1, 3, 50, 4000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not troubles


@pytest.mark.parametrize("kind", [MPReplayBuffer, MPPrioritizedReplayBuffer])
def test_a_shared_buffer_is_not_copied(kind):
    buffer = kind(4, ENV_DICT)
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            copied(buffer)
    assert isinstance(buffer, MPReplayBuffer)  # as in cpprb
    buffer.close()
