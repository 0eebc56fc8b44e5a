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
LOOKED_THROUGH = 300  # rows that each learner looks through whenever it rests
BLOCK = 4096  # narrow rows that an explorer prepares at a time

context = multiprocessing.get_context("fork")


class _SharedFindings(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in vars(Findings())]


class HangError(Exception):
    """A process did nothing for longer than any honest one would."""


class Board:
    """What a fleet's processes tell each other. Nothing here is locked: every word has one writer."""

    def __init__(self, explorers: int, learners: int) -> None:
        self.order = self._words(3)  # generation, rows that each explorer is to add in it, whether to go on
        self.order_to_guests = self._words(3)
        self.begun = self._words(explorers)  # rows that each explorer has begun to add, since it was made
        self.done = self._words(explorers)  # and those of them whose add() has returned
        self.idle = self._words(explorers)  # the generation that each has finished
        self.rest = self._words(2)  # the number of the rest that learners are to take, or 0; how many there were
        self.resting = self._words(learners)  # the one that each is taking
        self.look = self._words(1)  # the rest in which all of them are, so that each may look through its view
        self.looked = self._words(learners)  # the last one in which each did
        self.samples = self._words(learners)
        self.longest = self._words(learners)  # nanoseconds that one sample took

    @staticmethod
    def _words(count: int) -> np.ndarray:
        return np.frombuffer(context.RawArray("q", max(1, count)), np.int64)


def explore(
    buffer: Any, board: Board, order: np.ndarray, me: int, width: int, rows_a_call: int, prioritized: bool
) -> None:
    """Adds certified rows whenever the board's `order` says so."""
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
    """Samples and checks; in every second batch changes the priorities of what it drew. Rests whenever asked to."""
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
                # Its own view, which has followed the explorers all along: no row may be missing in it.
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
    """The processes, and the orders to them."""

    def __init__(self, board: Board, explorers: list[Any], learners: list[Any], seen: list[Any]) -> None:
        self.board, self.explorers, self.learners, self.seen = board, explorers, learners, seen

    def start(self, quota: int = FOR_EVER) -> None:
        self.board.order[1:] = quota, 1
        self.board.order[0] += 1

    def wait_until_idle(self, seconds: float = 60) -> None:
        self._wait(lambda: (self.board.idle[: len(self.explorers)] == self.board.order[0]).all(), seconds, "explorers")

    def halt(self) -> None:
        """After the call that each is in."""
        self.board.order[2] = 0
        self.wait_until_idle()

    @contextmanager
    def learners_at_rest(self) -> Iterator[None]:
        """So that no priority changes while rows are drawn."""
        self.board.rest[:] = self.board.rest[1] + 1
        self._wait(lambda: (self.board.resting[: len(self.learners)] == self.board.rest[0]).all(), 60, "learners")
        self.board.look[0] = self.board.rest[0]
        self._wait(lambda: (self.board.looked[: len(self.learners)] == self.board.rest[0]).all(), 60, "learners")
        try:
            yield
        finally:
            self.board.rest[0] = 0

    def wait_for_samples(self, more: int = 1, seconds: float = 60) -> None:
        """Until every learner has come round again."""
        before = self.board.samples.copy()
        self._wait(lambda: (self.board.samples - before >= more)[: len(self.learners)].all(), seconds, "learners")

    def wait_for_rows(self, more: int = 1, seconds: float = 60) -> None:
        """Until every explorer has come round again."""
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
        """The first faults that learners see, if they see some by then."""
        deadline = time.monotonic() + seconds
        while not (faults := self.findings().faults()) and time.monotonic() < deadline:
            time.sleep(0.005)
        return faults

    def findings(self) -> Findings:
        """Of all learners together."""
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
    """Forked; killed at the end. The board has places for `guests` more of both kinds, who come and go."""
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
