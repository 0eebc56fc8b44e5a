"""The counters and flags that the processes of a training run share in addition to transitions and weights."""

from __future__ import annotations

import ctypes
import multiprocessing
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

LONGEST_REASON = 1_000  # bytes
ENDED = -1  # in `paused`: the explorer will add no more rows


class Evaluation(NamedTuple):
    """The result of one evaluation."""

    seconds: float  # from the start of the training run to the end of the evaluation
    score: float  # mean return
    steps: int  # of the learner, up to the publication of the evaluated weights


def score_at(evaluations: Sequence[Evaluation], second: float) -> float:
    """Return the score of the last evaluation that had ended by this second, or of the first evaluation if none had. A
    training run that has solved its task has ended and keeps its last score."""
    ended = [each for each in evaluations if each.seconds <= second]
    return (ended[-1] if ended else evaluations[0]).score


class Counters:
    """Shared counters. Each word has one writer at a time, so there is no lock that a killed process could continue to
    hold.

    Pauses are numbered. Once an explorer waits, it stores the number of the pause in `paused`, so that it is not
    mistaken for an explorer that is still in an earlier pause.
    """

    def __init__(self, explorers: int) -> None:
        context = multiprocessing.get_context("fork")
        self.stop = context.RawValue(ctypes.c_bool, False)
        self.pause = context.RawValue(ctypes.c_int64, 1)  # explorers wait until the learner is ready; 0: no pause
        self.paused = context.RawArray(ctypes.c_int64, explorers)  # by explorer: the last pause it waited in, or ENDED
        self.transitions = context.RawArray(ctypes.c_int64, explorers)
        self.last_return = context.RawArray(ctypes.c_double, explorers)
        self.steps = context.RawValue(ctypes.c_int64, 0)  # of the learner
        self.error = context.RawValue(ctypes.c_double, 0.0)  # the mean absolute TD error of its last batch
        self.began = context.RawValue(ctypes.c_double, time.monotonic())  # a resumed run subtracts its earlier seconds
        self.reason = context.RawArray(
            ctypes.c_char, LONGEST_REASON + 1
        )  # why the learner cannot continue; empty if it can
        # One evaluator at a time writes a few bytes at once, which is atomic: the pipe needs no lock.
        self.evaluations, self.evaluated = context.Pipe(duplex=False)
        self._pauses = 1

    def now(self) -> float:
        """Return the seconds of a clock that all processes share."""
        return time.monotonic()

    @property
    def seconds(self) -> float:
        return self.now() - self.began.value

    def may_add(self, explorer: int, flush: Callable[[], None] = lambda: None) -> bool:
        """For explorers: during a pause, call `flush` and wait. Return whether the explorer may add transitions;
        otherwise it must end."""
        while (number := self.pause.value) and not self.stop.value:
            if self.paused[explorer] != number:
                flush()
                self.paused[explorer] = number
            time.sleep(0.005)
        return not self.stop.value

    def all_paused(self, seconds: float) -> bool:
        """For the learner: begin a pause. Return whether all explorers are waiting, after at most `seconds`."""
        self._pauses += 1
        self.pause.value = self._pauses
        deadline = time.monotonic() + seconds
        while not (paused := set(self.paused) <= {self._pauses, ENDED}) and time.monotonic() < deadline:
            time.sleep(0.005)
        return paused

    def all_ended(self) -> bool:
        return set(self.paused) == {ENDED}

    def close(self) -> None:
        self.evaluations.close()
        self.evaluated.close()

    def go_on(self) -> None:
        """For the learner: end the pause."""
        self.pause.value = 0
