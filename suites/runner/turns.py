"""Two processes that take turns: each times a round while the other waits.

Anything that slows the machine down for longer than a round affects both processes, and cancels out in the ratio of
their figures. docs/gate.md shows how much each measure against noise gains.
"""

from __future__ import annotations

import gc
import os
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import numpy as np

from suites.runner.timing import Stopwatch

ROUNDS = 7
ROUND_SECONDS = 0.01
#: Untimed calls before a round, as a share of the round: they reload the caches that the other process has used.
LOADING = 0.3
#: The percentile of the rounds that becomes the figure. Interruptions can only make a round slower.
FASTER_ROUNDS = 25
CALIBRATION_SECONDS = 0.004
WAITED = Path("/proc/thread-self/schedstat")  # second number: nanoseconds that the thread waited for a processor
MESSAGE = struct.Struct("q")
TURN, END = 0, -1
#: A rule against noise that is left out, "caches" or "waiting": `make gate-power` measures how much each rule gains.
WITHOUT = os.environ.get("REPLAYBENCH_WITHOUT")

T = TypeVar("T")


class OtherSideEndedError(Exception):
    """The other process has no figure here, so this one cannot be timed."""


class Turns(Stopwatch):
    """A stopwatch whose rounds alternate with those of another process.

    `channel` is one end of a socket pair, and the other process has the other end. Both must time the same figures in
    the same order, and call `end` after each, whether it was measured or not.
    """

    def __init__(self, channel: socket.socket, begins: bool) -> None:
        super().__init__(ROUNDS * ROUND_SECONDS)
        self._channel, self._begins, self._other_ended = channel, begins, False

    def per_call(self, run: Callable[[int], object]) -> float:
        run(1)
        self._agree(TURN)  # otherwise the other process might still fill its buffer during the first turn
        # Both use the same number: in shorter rounds, the caches would be cold for a larger part of the time.
        calls = self._agree(self._take_turn(lambda: _calls_a_round(run)))
        loading = max(1, round(LOADING * calls))
        load = (lambda: None) if WITHOUT == "caches" else lambda: run(loading)
        return self.per_round(lambda: run(calls), ROUNDS, load) / calls

    def rounds(self, _seconds: float, _fewest: int) -> int:
        return ROUNDS

    def per_round(self, run: Callable[[], object], rounds: int, load: Callable[[], object] = lambda: None) -> float:
        def timed() -> float:
            load()
            gc.disable()
            try:
                return _seconds_without_waiting(run)
            finally:
                gc.enable()

        return float(np.percentile([self._take_turn(timed) for _ in range(rounds)], FASTER_ROUNDS))

    def end(self) -> None:
        self._send(END)
        while not self._other_ended:
            self._receive()
        self._other_ended = False

    def _take_turn(self, work: Callable[[], T]) -> T:
        if not self._begins:
            self._expect()
        result = work()
        self._send(TURN)
        if self._begins:
            self._expect()
        return result

    def _agree(self, count: int) -> int:
        """Return the larger of this process's number and the other process's."""
        self._send(count)
        return max(count, self._expect())

    def _send(self, number: int) -> None:
        with suppress(OSError):  # the other process may be gone; what it has sent is still read
            self._channel.sendall(MESSAGE.pack(number))

    def _receive(self) -> int:
        try:
            said = self._channel.recv(MESSAGE.size, socket.MSG_WAITALL)
        except OSError:
            said = b""
        number: int = MESSAGE.unpack(said)[0] if len(said) == MESSAGE.size else END
        self._other_ended |= number == END
        return number

    def _expect(self) -> int:
        if self._other_ended or (number := self._receive()) == END:
            raise OtherSideEndedError
        return number


def _calls_a_round(run: Callable[[int], object]) -> int:
    """Return how many calls take about `ROUND_SECONDS`."""
    calls = 1
    while True:
        begin = time.perf_counter()
        run(calls)
        spent = time.perf_counter() - begin
        if spent >= CALIBRATION_SECONDS:
            return max(1, round(ROUND_SECONDS * calls / spent))
        calls *= 2


def _seconds_without_waiting(run: Callable[[], object]) -> float:
    """Return the seconds of this call, excluding the time in which the thread had to wait for a processor."""
    begin = time.perf_counter()
    before = _waited()
    run()
    waited = _waited() - before  # measured within the time span, so that the difference cannot be negative
    return time.perf_counter() - begin - waited


def _waited() -> float:
    if WITHOUT == "waiting":
        return 0.0
    try:
        return int(WAITED.read_text().split()[1]) / 1e9
    except OSError:  # not on every kernel
        return 0.0
