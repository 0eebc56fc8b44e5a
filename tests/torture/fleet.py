"""Explorers and learners on one buffer, started and halted together; their counts are in plain shared memory."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import certified
from .certified import Findings

FOR_EVER = 1 << 60  # rows
LOOKED_THROUGH = 300  # rows that each learner checks at each rest
BLOCK = 4096  # narrow rows that an explorer prepares at once

context = multiprocessing.get_context("fork")


class _SharedFindings(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in vars(Findings())]


class HangError(Exception):
    """A process made no progress for longer than any correct process would need."""


class Board:
    """Shared words through which the processes of a fleet communicate. They need no lock: each word has one writer."""

    def __init__(self, explorers: int, learners: int) -> None:
        self.order = self._words(3)  # generation, rows for each explorer to add in it, whether to continue
        self.order_to_guests = self._words(3)
        self.begun = self._words(explorers)  # rows that each explorer has begun to add since it was started
        self.done = self._words(explorers)  # rows whose add() has returned, by explorer
        self.idle = self._words(explorers)  # the generation that each explorer has finished
        self.rest = self._words(2)  # the number of the current rest of the learners, or 0; the number of rests so far
        self.resting = self._words(learners)  # the rest that each learner is in
        self.look = self._words(1)  # the rest that all learners are in, so that each may check its view
        self.looked = self._words(learners)  # the last rest in which each learner checked its view
        self.samples = self._words(learners)
        self.longest = self._words(learners)  # nanoseconds of the longest sample

    @staticmethod
    def _words(count: int) -> np.ndarray:
        return np.frombuffer(context.RawArray("q", max(1, count)), np.int64)


def explore(
    buffer: Any, board: Board, order: np.ndarray, me: int, width: int, rows_a_call: int, prioritized: bool
) -> None:
    """Add certified rows as `order` demands."""
    begun, generation, parent = 0, 0, os.getppid()
    block = max(rows_a_call, BLOCK // rows_a_call * rows_a_call) if width == certified.NARROW else rows_a_call
    prepared: dict[str, np.ndarray] = {}
    at = block
    while os.getppid() == parent:
        if order[0] == generation:
            time.sleep(0.0005)
            continue
        generation, quota = int(order[0]), int(order[1])
        added = 0
        while added < quota and order[2]:
            count = min(rows_a_call, quota - added)
            if at + count > block:
                ids = certified.ids(me, begun + 1, block)
                prepared = certified.rows(ids, width)
                if prioritized:
                    prepared["priorities"] = certified.priorities(ids)
                at = 0
                if os.getppid() != parent:
                    return
            call = {name: column[at : at + count] for name, column in prepared.items()}
            at += count
            begun += count
            added += count
            board.begun[me] = begun
            buffer.add(**call)
            board.done[me] = begun
        board.idle[me] = generation


def learn(buffer: Any, board: Board, me: int, batch: int, prioritized: bool, findings: Any) -> None:
    """Sample and check rows, and change the priorities of every second batch. Rest whenever the board says so."""
    parent = os.getppid()
    found = Findings()
    options = {"beta": 1.0} if prioritized else {}
    given: Any = None

    def publish() -> None:
        for name, count in vars(found).items():
            setattr(findings, name, count)

    while os.getppid() == parent:
        if rest := board.rest[0]:
            board.resting[me] = rest
            if board.look[0] == rest and board.looked[me] != rest:
                # This learner's own view, which has followed the explorers all along: no row may be missing in it.
                if buffer.get_buffer_size() > LOOKED_THROUGH:
                    pass
                elif certified.draws_sequences(buffer):
                    certified.look_at_sequences(buffer, buffer.get_all_transitions(), found)
                    publish()
                elif prioritized:
                    everything = buffer.get_all_transitions()
                    rows = len(everything["id"])
                    drawn = buffer.sample(certified.DRAWS * rows, **options) if rows else None
                    certified.look_at_all(everything, board.begun, [], found, drawn)
                    publish()
                board.looked[me] = rest
            time.sleep(0.0005)
            continue
        began = time.perf_counter_ns()
        try:
            given, ends = certified.sample(buffer, batch, found, **options, out=given)
        except ValueError as error:
            assert "empty" in str(error) or "cannot sample a sequence" in str(error), error
            time.sleep(0.001)
            continue
        board.longest[me] = max(board.longest[me], time.perf_counter_ns() - began)
        if prioritized and board.samples[me] % 2 == 0:
            buffer.update_priorities(given["indexes"], certified.changed_priorities(ends["id"].ravel()))
        certified.read(certified.as_rows(given), board.begun, found)
        if prioritized:
            found.stale += certified.stale_priorities(ends)
        publish()
        board.samples[me] += 1


class Fleet:
    """The processes, and the orders that they get."""

    def __init__(self, board: Board, explorers: list[Any], learners: list[Any], seen: list[Any]) -> None:
        self.board, self.explorers, self.learners, self.seen = board, explorers, learners, seen

    def start(self, quota: int = FOR_EVER) -> None:
        self.board.order[1:] = quota, 1
        self.board.order[0] += 1

    def wait_until_idle(self, seconds: float = 60) -> None:
        self._wait(lambda: (self.board.idle[: len(self.explorers)] == self.board.order[0]).all(), seconds, "explorers")

    def halt(self) -> None:
        """Let each explorer finish its current call and stop."""
        self.board.order[2] = 0
        self.wait_until_idle()

    @contextmanager
    def learners_at_rest(self) -> Iterator[None]:
        """Let the learners rest, so that no priority changes while rows are drawn."""
        self.board.rest[:] = self.board.rest[1] + 1
        self._wait(lambda: (self.board.resting[: len(self.learners)] == self.board.rest[0]).all(), 60, "learners")
        self.board.look[0] = self.board.rest[0]
        self._wait(lambda: (self.board.looked[: len(self.learners)] == self.board.rest[0]).all(), 60, "learners")
        try:
            yield
        finally:
            self.board.rest[0] = 0

    def wait_for_samples(self, more: int = 1, seconds: float = 60) -> None:
        """Wait until every learner has drawn this many more samples."""
        before = self.board.samples.copy()
        self._wait(lambda: (self.board.samples - before >= more)[: len(self.learners)].all(), seconds, "learners")

    def wait_for_rows(self, more: int = 1, seconds: float = 60) -> None:
        """Wait until every explorer has added this many more rows."""
        before = self.board.done.copy()
        self._wait(lambda: (self.board.done - before >= more)[: len(self.explorers)].all(), seconds, "explorers")

    def _wait(self, done: Any, seconds: float, who: str) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            dead = [process.exitcode for process in (*self.explorers, *self.learners) if process.exitcode is not None]
            if dead:
                raise RuntimeError(f"a process ended by itself, with {dead}")
            if time.monotonic() > deadline:
                raise HangError(f"{who}: nothing for {seconds} s")
            time.sleep(0.0005)

    def faults_within(self, seconds: float) -> dict[str, int]:
        """Return the first faults that learners find, or none after this time."""
        deadline = time.monotonic() + seconds
        while not (faults := self.findings().faults()) and time.monotonic() < deadline:
            time.sleep(0.005)
        return faults

    def findings(self) -> Findings:
        """Return the sum of what all learners have found."""
        counts = [Findings(*(getattr(seen, name) for name, _ in _SharedFindings._fields_)) for seen in self.seen]
        return sum(counts, Findings())


@contextmanager
def fleet(
    buffer: Any,
    explorers: int,
    learners: int,
    width: int,
    rows_a_call: int,
    batch: int,
    prioritized: bool,
    guests: int = 0,
) -> Iterator[Fleet]:
    """Fork a fleet, which is killed at the end. The board has places for `guests` further explorers and learners."""
    board = Board(explorers + guests, learners + guests)
    seen = [context.Value(_SharedFindings, lock=False) for _ in range(learners)]
    exploring = [
        context.Process(
            target=explore, args=(buffer, board, board.order, i, width, rows_a_call, prioritized), daemon=True
        )
        for i in range(explorers)
    ]
    learning = [
        context.Process(target=learn, args=(buffer, board, i, batch, prioritized, seen[i]), daemon=True)
        for i in range(learners)
    ]
    processes = exploring + learning
    for process in processes:
        process.start()
    try:
        yield Fleet(board, exploring, learning, seen)
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
