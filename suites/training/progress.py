"""What the processes of a training share besides transitions and weights: counters and flags."""

from __future__ import annotations

import ctypes
import multiprocessing
import time
from collections.abc import Sequence
from typing import NamedTuple


class Evaluation(NamedTuple):
    """The result of one evaluation."""

    seconds: float  # of the training, when the evaluation ended
    score: float  # mean return
    steps: int  # of the learner, when it published the evaluated weights


def score_at(evaluations: Sequence[Evaluation], second: float) -> float:
    """Return the score of the last evaluation that had ended by then, or of the first one. A training that has solved
    its task has ended, and keeps its last score."""
    ended = [each for each in evaluations if each.seconds <= second]
    return (ended[-1] if ended else evaluations[0]).score


class Progress:
    """Shared counters. Each word has one writer at a time, so there is no lock that a killed process could keep. Only
    the queue of evaluations has one, which only the evaluator and the supervisor use."""

    def __init__(self, explorers: int) -> None:
        context = multiprocessing.get_context("fork")
        self.stop = context.RawValue(ctypes.c_bool, False)
        self.pause = context.RawValue(ctypes.c_bool, True)  # explorers wait until the learner is ready
        self.paused = context.RawArray(ctypes.c_bool, explorers)  # by explorer: does it wait?
        self.transitions = context.RawArray(ctypes.c_int64, explorers)
        self.last_return = context.RawArray(ctypes.c_double, explorers)
        self.steps = context.RawValue(ctypes.c_int64, 0)  # of the learner
        self.error = context.RawValue(ctypes.c_double, 0.0)  # the mean absolute TD error of its last batch
        self.began = context.RawValue(ctypes.c_double, time.monotonic())  # moved back by what a resumed run took before
        self.evaluations = context.SimpleQueue()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began.value

    def wait_while_paused(self, explorer: int) -> None:
        """In an explorer: wait until it may add transitions."""
        while self.pause.value and not self.stop.value:
            self.paused[explorer] = True
            time.sleep(0.005)
        self.paused[explorer] = False

    def all_paused(self, seconds: float) -> bool:
        """In the learner: stop the explorers from adding. Return whether all of them wait, after at most `seconds`."""
        self.pause.value = True
        deadline = time.monotonic() + seconds
        while not all(self.paused) and time.monotonic() < deadline:
            time.sleep(0.005)
        return all(self.paused)
