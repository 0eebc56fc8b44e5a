"""Processes join and leave a buffer; what they leave behind has no lasting cost for other processes."""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import os
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer

pytestmark = pytest.mark.timeout(180)

STACK = 4
FRAMES = {"obs": {"dtype": np.uint8, "shape": (84, 84, STACK)}}


def in_a_child(job: Callable[[], Any]) -> None:
    """Run `job` in a forked child, which ends without cleaning up."""
    child = os.fork()
    if child == 0:
        try:
            job()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def step(at: int) -> dict:
    """Return the stack of frames number `at`, `at` + 1, ... of an endless episode."""
    return {"obs": np.stack([np.full((84, 84), (at + j) % 251, dtype=np.uint8) for j in range(STACK)], axis=-1)}


def frame_bytes(buffer: MPReplayBuffer, empty: int) -> int:
    return buffer.nbytes - empty


@pytest.mark.parametrize("lock", ["none", "critical", "buffer"])
def test_registrations_of_ended_children_are_reused(lock):
    """Each registration has an open chunk of frames: 12 consecutive children need no more than one."""
    buffer = MPReplayBuffer(1000, FRAMES, stack_compress="obs", lock=lock)
    empty = buffer.nbytes
    in_a_child(lambda: buffer.add(**step(0)))
    of_one = frame_bytes(buffer, empty)
    for child in range(11):
        in_a_child(lambda child=child: buffer.add(**step(child)))
    of_all, rows = frame_bytes(buffer, empty), buffer.get_stored_size()
    buffer.close()
    assert rows == 12
    assert 0 < of_all <= 4 * of_one  # 48 frames, in chunks of 63 frames


def explore_in_turn(buffer, turns):
    for at in iter(turns.recv, None):
        buffer.add(**step(at))
        turns.send(True)


@contextlib.contextmanager
def taking_turns(buffer: MPReplayBuffer, count: int, target: Callable = explore_in_turn) -> Iterator[list]:
    """Start `count` children and give a pipe to each: the child adds one row for each message."""
    context = multiprocessing.get_context("fork")
    pipes, children = [], []
    for _ in range(count):
        ours, theirs = context.Pipe()
        pipes.append(ours)
        children.append(context.Process(target=target, args=(buffer, theirs), daemon=True))
        children[-1].start()
    try:
        yield pipes
    finally:
        for pipe in pipes:
            pipe.send(None)
        for child in children:
            child.join()


def test_each_explorer_keeps_its_own_registration():
    """These explorers are never inside add() simultaneously. On a single registration, they would share no frames."""
    explorers, steps = 4, 200
    buffer = MPReplayBuffer(2000, FRAMES, stack_compress="obs")
    empty = buffer.nbytes
    with taking_turns(buffer, explorers) as pipes:
        for at in range(steps):
            for pipe in pipes:
                pipe.send(at)
                assert pipe.recv()
    frames = frame_bytes(buffer, empty) / (84 * 84)
    rows = buffer.get_stored_size()
    buffer.close()
    assert rows == explorers * steps
    assert frames < 1.8 * rows  # about 900 frames and the room in open chunks, not 4 per row


def test_threads_do_not_take_registrations_of_other_processes():
    """Threads of one process that are inside add() simultaneously use more than one registration."""
    buffer = MPReplayBuffer(400, {"obs": {"dtype": np.uint8, "shape": (84, 84, STACK)}}, stack_compress="obs")
    empty = buffer.nbytes

    def explore():
        for at in range(50):
            buffer.add(obs=np.repeat(step(at)["obs"][None], 8, axis=0))

    with taking_turns(buffer, 1) as (pipe,):
        pipe.send(0)
        assert pipe.recv()
        threads = [threading.Thread(target=explore) for _ in range(4)]
        for thread in threads:
            thread.start()
        for at in range(1, 200):
            pipe.send(at)
            assert pipe.recv()
        for thread in threads:
            thread.join()
    rows, frames = buffer.get_stored_size(), frame_bytes(buffer, empty)
    buffer.close()
    assert rows == 400
    assert frames > 0


def test_a_fork_takes_no_registration_from_its_parent():
    buffer = MPReplayBuffer(1000, FRAMES, stack_compress="obs")
    buffer.add(**step(0))
    for at in range(1, 12):
        in_a_child(lambda at=at: buffer.add(**step(100 + at)))
        buffer.add(**step(at))
    rows = buffer.get_all_transitions()["obs"]
    buffer.close()
    mine = rows[[0, *range(2, 23, 2)]]
    assert (mine[:, 0, 0, 0] == np.arange(12)).all()
    assert len(rows) == 23


def test_a_fork_that_only_closes_changes_nothing():
    """The registration still belongs to the parent."""
    buffer = MPReplayBuffer(10, {"obs": {}})
    buffer.add(obs=1)

    def contents() -> bytes:
        with open(f"/dev/shm/{buffer.segment.lstrip('/')}", "rb") as file:
            return file.read()

    before = contents()
    in_a_child(buffer.close)
    after = contents()
    buffer.close()
    assert after == before


class Journal:
    """The journal that learners write for each other, read from the segment itself."""

    def __init__(self, buffer: MPPrioritizedReplayBuffer) -> None:
        with open(f"/dev/shm/{buffer.segment.lstrip('/')}", "rb") as file:
            self.memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        _, _, _, self.begin, self.end = struct.unpack_from("<5Q", self.memory)

    def written_by(self, job: Callable[[], Any]) -> bool:
        before = self.memory[self.begin : self.end]
        job()
        return self.memory[self.begin : self.end] != before


def prioritized(size: int = 256) -> MPPrioritizedReplayBuffer:
    buffer = MPPrioritizedReplayBuffer(size, {"a": {"dtype": np.int64}}, alpha=1.0, eps=0.0, seed=1)
    buffer.add(a=np.arange(size))
    return buffer


def update(buffer: MPPrioritizedReplayBuffer, priority: float = 1.0) -> None:
    indexes = buffer.sample(64)["indexes"]
    buffer.update_priorities(indexes, np.full(64, priority))


def falls_quiet(buffer: MPPrioritizedReplayBuffer, journal: Journal) -> bool:
    """Return whether a learner stops writing, after half a journal that no other learner reads."""
    for _ in range(4):
        update(buffer)
    return not journal.written_by(lambda: update(buffer))


def test_a_single_learner_writes_no_journal():
    buffer = prioritized()
    journal = Journal(buffer)
    written = journal.written_by(lambda: update(buffer))
    buffer.close()
    assert not written


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("ended", [3, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize("lives", [False, True])
def test_no_journal_is_written_for_ended_learners(joined, ended, lives):
    """There are fewer places than these 150 learners. Another learner may join after them and keep running."""
    buffer = prioritized()
    journal = Journal(buffer)
    if joined:  # the process of the buffer joins before its children, which inherit its place
        update(buffer)
    for _ in range(ended):
        in_a_child(lambda: buffer.sample(8))
    assert journal.written_by(lambda: update(buffer)), "the control: another learner is written for"
    if lives:
        late = MPPrioritizedReplayBuffer.attach(buffer.segment)
        for _ in range(8):
            late.sample(8)
            update(buffer)
        assert journal.written_by(lambda: update(buffer)), "one lives, and keeps up"
        late.close()
    quiet = falls_quiet(buffer, journal)
    buffer.close()
    assert quiet


def test_an_evicted_learner_misses_no_change():
    buffer = prioritized()
    journal = Journal(buffer)
    other = MPPrioritizedReplayBuffer.attach(buffer.segment)
    for chosen in (5, 77, 200):
        other.sample(8)
        for _ in range(8):
            update(buffer)
        assert not journal.written_by(lambda: update(buffer)), "half a journal behind, it is not written for"
        priorities = np.full(256, 1e-9)
        priorities[chosen] = 1.0
        buffer.sample(8)
        buffer.update_priorities(np.arange(256), priorities)
        assert set(other.sample(64)["indexes"].tolist()) == {chosen}
        buffer.update_priorities(np.arange(256), np.ones(256))
    other.close()
    buffer.close()


@pytest.mark.parametrize("size", [256, 5000])
@pytest.mark.parametrize("batch", [1, 31, 32, 33, 256, 1000])
def test_every_change_reaches_the_other_learner(size, batch):
    buffer = prioritized(size)
    other = MPPrioritizedReplayBuffer.attach(buffer.segment)
    rng = np.random.default_rng(batch)
    for _ in range(20):
        other.sample(8)
        buffer.sample(8)
        indexes = rng.integers(0, size, batch)
        chosen = int(indexes[-1])
        buffer.update_priorities(indexes, np.where(indexes == chosen, 1e12, 1.0))
        assert set(other.sample(16)["indexes"].tolist()) == {chosen}
        buffer.update_priorities([chosen], [1.0])
        assert set(other.sample(64)["indexes"].tolist()) != {chosen}
    other.close()
    buffer.close()
