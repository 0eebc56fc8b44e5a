"""The speed of a training relative to that with the library's own buffer, from two trainings that take turns.

Only one of the two trains at any time, for about half a second, so that a slow minute of a shared machine slows both.
Whole trainings that follow each other lack this protection. Duet benchmarking (Bulej et al. 2020) runs both at once,
but here they would compete for caches and memory bandwidth.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from adapters import registry
from adapters.child_process import exit_with_parent
from adapters.learners import LearnerArm
from suites.learners.playing import make_env, make_model
from suites.learners.spec import REFERENCE
from suites.learners.tasks import Task

TURN_SECONDS = 0.5
YOUR_TURN, ENDED = "your turn", "ended"
clock = time.perf_counter


class Turns:
    """The callback of a training that takes turns with another one, and that counts the seconds of its own turns.

    Parameters
    ----------
    other : Connection
        To the other training's callback.
    timed_from : int
        The step before which both train at the same time, and nothing is counted.
    begins : bool
        Whether this training has the first turn.
    """

    def __init__(self, other: Connection, timed_from: int, begins: bool) -> None:
        self.other, self.timed_from, self.begins = other, timed_from, begins
        self.first_step = 0
        self.seconds = 0.0  # in turns that have ended
        self.turn: float | None = None  # when this turn began
        self.alone = False  # whether the other training has ended

    def __call__(self, names: Mapping[str, Any], _globals: Mapping[str, Any]) -> bool:
        """Take note of a step. Called by the library after each one."""
        step = names["self"].num_timesteps
        if self.turn is not None:
            if clock() - self.turn >= TURN_SECONDS:
                self._stop()
                self._let_other_train()
        elif step >= self.timed_from:
            self.first_step = step
            if self.begins:
                self._wait()
            else:
                self._let_other_train()
        return True

    def end(self, last_step: int) -> float:
        """End the last turn, and return the steps per second of all turns."""
        self._stop()
        if not self.alone:
            self.other.send(ENDED)
        return (last_step - self.first_step) / self.seconds

    def _stop(self) -> None:
        assert self.turn is not None
        self.seconds += clock() - self.turn

    def _let_other_train(self) -> None:
        if not self.alone:
            self.other.send(YOUR_TURN)
        self._wait()

    def _wait(self) -> None:
        if not self.alone:
            self.alone = self.other.recv() == ENDED
        self.turn = clock()


def relative_speed(task: Task, arm: type[LearnerArm], seed: int) -> float:
    """Return how many times as fast this training is as that with the library's own buffer, with the same seed.

    The order of turns alternates with the seed. Raises RuntimeError if the other training fails.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_train_reference, args=(there, task, seed, os.getpid()), daemon=True)
    process.start()
    there.close()
    try:
        speed = _train(task, arm, seed, here, begins=seed % 2 == 0)
        return speed / float(here.recv())
    except (EOFError, ConnectionError):
        raise RuntimeError(f"the training with {REFERENCE}, which takes turns with this one, failed") from None
    finally:
        process.terminate()
        process.join()


def _train_reference(other: Connection, task: Task, seed: int, parent: int) -> None:
    """Train with the library's own buffer, in a process of its own, and send the speed."""
    exit_with_parent(parent)
    other.send(_train(task, registry.learner_class(REFERENCE), seed, other, begins=seed % 2 == 1))


def _train(task: Task, arm: type[LearnerArm], seed: int, other: Connection, begins: bool) -> float:
    import torch

    torch.set_num_threads(1)
    env = make_env(task, seed)
    model = make_model(task, arm, env, seed)
    turns = Turns(other, task.timed_from, begins)
    model.learn(task.steps, callback=turns)
    speed = turns.end(model.num_timesteps)
    env.close()
    return speed
