"""The speed of a training run relative to one with the library's own buffer; the two take turns.

Only one of the two trains at any time, for about half a second, so that a slow minute of a shared machine slows both.
Whole training runs, one after the other, lack this protection. Duet benchmarking (Bulej et al. 2020) runs both at once,
but here they would compete for caches and memory bandwidth.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

from adapters import registry
from adapters.child_process import exit_with_parent
from adapters.training_arm import TrainingArm
from suites.paired_training.playing import check_answers, make_env, make_model
from suites.paired_training.spec import REFERENCE
from suites.paired_training.tasks import TrainingTask
from suites.runner.results import PeerTrouble, failure

TURN_SECONDS = 0.5
YOUR_TURN, ENDED = "your turn", "ended"
clock = time.perf_counter


class TrainingTurns:
    """A callback with which a training run takes turns with another run. It times this run's turns.

    Parameters
    ----------
    other : Connection
        To the other training run's callback.
    timed_from : int
        The step up to which both train at the same time and nothing is counted.
    begins : bool
        Whether this training run has the first turn.
    checked : Event
        Set when the turns may begin.
    """

    def __init__(self, other: Connection, timed_from: int, begins: bool, checked: Event) -> None:
        self.other, self.timed_from, self.begins, self.checked = other, timed_from, begins, checked
        self.first_step = 0
        self.seconds = 0.0  # in turns that have ended
        self.turn: float | None = None  # when this turn began
        self.alone = False  # whether the other training run has ended

    def __call__(self, names: Mapping[str, Any], _globals: Mapping[str, Any]) -> bool:
        """Count a step. The library calls this after each step."""
        step = names["self"].num_timesteps
        if self.turn is not None:
            if clock() - self.turn >= TURN_SECONDS:
                self._stop()
                self._let_other_train()
        elif step >= self.timed_from:
            self.first_step = step
            self.checked.wait()
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


def relative_speed(task: TrainingTask, arm: type[TrainingArm], seed: int) -> float:
    """Return how many times as fast this training run is as one with the library's own buffer and the same seed.

    Both are forks of this process, which has imported the libraries and done nothing else, so that they begin with the
    same memory. Processes that are started independently differ more in speed (docs/measuring/paired-training.md). This
    process checks the arm's answers while the two get ready. Which of them begins alternates with the seed.

    Raises WrongAnswer if an answer is wrong, PeerTrouble if this training run fails, RuntimeError if the other does.
    """
    import stable_baselines3  # noqa: F401
    import torch

    torch.set_num_threads(1)
    context = multiprocessing.get_context("fork")
    ends, checked = context.Pipe(), context.Event()
    processes, results = [], {}
    arms = [arm, registry.learner_class(REFERENCE)]
    for number in (0, 1) if seed % 2 == 0 else (1, 0):
        results[number], result = context.Pipe(duplex=False)
        begins = not processes
        arguments = (task, arms[number], seed, ends[number], ends[1 - number], begins, checked, result, os.getpid())
        processes.append(context.Process(target=_train, args=arguments, daemon=True))
        processes[-1].start()
        for mine in (ends[number], result):  # so that the connection is closed when the process ends
            mine.close()
    try:
        check_answers(task, arm, seed)
        checked.set()
        mine, reference = (_received(results[number]) for number in (0, 1))
    finally:
        for process in processes:
            process.terminate()
            process.join()
    if isinstance(mine, str):
        raise PeerTrouble(mine)
    if isinstance(reference, str):
        raise RuntimeError(f"the training run with {REFERENCE}, which takes turns with this one, failed: {reference}")
    return mine / reference


def _received(result: Connection) -> Any:
    try:
        return result.recv()
    except EOFError:
        return "its process ended without a result"


def _train(
    task: TrainingTask,
    arm: type[TrainingArm],
    seed: int,
    other: Connection,
    unused: Connection,
    begins: bool,
    checked: Event,
    result: Connection,
    parent: int,
) -> None:
    """Send the speed of this training run, the reason why it failed, or None if the other failed."""
    unused.close()  # the other process's end: if kept open here, that process's exit would go unnoticed
    exit_with_parent(parent)
    try:
        env = make_env(task, seed)
        model = make_model(task, arm, env, seed)
        turns = TrainingTurns(other, task.timed_from, begins, checked)
        model.learn(task.steps, callback=turns)
        result.send(turns.end(model.num_timesteps))
    except (EOFError, ConnectionError):
        result.send(None)
    except Exception as error:
        result.send(failure(error)[1])
