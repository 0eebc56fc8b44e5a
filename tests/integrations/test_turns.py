"""Trainings in turns: only one runs at a time, and its turns alone count as its time."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
import time
from dataclasses import replace
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
from stable_baselines3.common.buffers import ReplayBuffer

from adapters import registry
from suites.paired_training import measure, turns
from suites.paired_training.spec import REFERENCE, RELATIVE_SPEED
from suites.paired_training.tasks import CARTPOLE, OURS

TASK = replace(CARTPOLE, steps_in_turns=1_500).shortened


READY = threading.Event()
READY.set()


class Training:
    """A simulated training of `steps` steps that take `seconds` each. It records when each step was made."""

    def __init__(self, other, begins, steps, seconds, timed_from=10):
        self.turns = turns.TrainingTurns(other, timed_from, begins, READY)
        self.steps, self.seconds, self.timed_from, self.made = steps, seconds, timed_from, []

    def run(self):
        for step in range(1, self.steps + 1):
            time.sleep(self.seconds)
            if step > self.timed_from:
                self.made.append(time.perf_counter())
            self.turns({"self": SimpleNamespace(num_timesteps=step)}, {})
        self.speed = self.turns.end(self.steps)


def train_both(monkeypatch, first, second, turn_seconds=0.02):
    """Return two trainings, (steps, seconds per step) each, that took turns in two threads."""
    monkeypatch.setattr(turns, "TURN_SECONDS", turn_seconds)
    here, there = Pipe()
    pair = [Training(here, True, *first), Training(there, False, *second)]
    threads = [threading.Thread(target=each.run) for each in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return pair


@pytest.mark.parametrize(
    ("first", "second"),
    [((60, 0.002), (60, 0.006)), ((60, 0.006), (60, 0.002)), ((30, 0.002), (90, 0.002)), ((90, 0.002), (30, 0.002))],
)
def test_a_turn_is_not_interrupted_and_waiting_is_not_counted(monkeypatch, first, second):
    pair = train_both(monkeypatch, first, second)
    changes = 0
    order = sorted((moment, number) for number, each in enumerate(pair) for moment in each.made)
    for (_, before), (_, after) in itertools.pairwise(order):
        changes += before != after
    assert len(order) == first[0] + second[0] - 20
    assert 2 <= changes <= 20  # they alternate, but not after each step
    for each, (steps, seconds) in zip(pair, (first, second), strict=True):
        assert each.turns.seconds >= (steps - 10) * seconds
        assert each.turns.seconds < each.made[-1] - each.made[0] + 0.1
    # The trainings never ran at the same time: the counted seconds fit into the elapsed time.
    assert sum(each.turns.seconds for each in pair) <= order[-1][0] - min(each.made[0] for each in pair) + 0.1


def test_the_relative_speed_is_that_of_the_turns(monkeypatch):
    fast, slow = train_both(monkeypatch, (60, 0.002), (60, 0.008))
    assert fast.speed > 2 * slow.speed


@pytest.mark.parametrize("seed", [0, 1])
def test_each_buffer_is_compared_with_the_librarys_own(seed):
    (result,) = measure.measure_in_turns(OURS, TASK, seed)
    assert (result.benchmark, result.outcome) == (RELATIVE_SPEED, "ok") and result.value > 0
    assert result.params == {"task": CARTPOLE.name, "steps": 1_500, "episodes": 20}


class SlowBuffer(ReplayBuffer):
    def add(self, *row):
        time.sleep(0.003)
        super().add(*row)


class ForgetfulBuffer(ReplayBuffer):
    def add(self, obs, next_obs, *rest):
        super().add(obs, obs, *rest)


class Slow(registry.learner_class(REFERENCE)):
    arguments = {"replay_buffer_class": SlowBuffer}  # noqa: RUF012


class Forgetful(Slow):
    arguments = {"replay_buffer_class": ForgetfulBuffer}  # noqa: RUF012


class Failing(Slow):
    """Its answers are right only in the process that checks them."""

    @classmethod
    def algorithm(cls, learner):
        if multiprocessing.parent_process() is not None:
            raise ValueError("out of order")
        return super().algorithm(learner)


class Killed(Slow):
    @classmethod
    def algorithm(cls, learner):
        if multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().algorithm(learner)


def measured(monkeypatch, *, arm=Slow, reference=None):
    """Return the result of an arm that is not in the registry, compared with `reference` if there is one."""
    known = registry.learner_class(REFERENCE)
    monkeypatch.setattr(
        measure.registry, "learner_class", lambda name: (reference or known) if name == REFERENCE else arm
    )
    (result,) = measure.measure_in_turns(OURS, TASK, 0)
    assert not multiprocessing.active_children()
    return result


def test_a_slow_add_lowers_the_relative_speed_of_the_training(monkeypatch):
    result = measured(monkeypatch)
    assert result.outcome == "ok" and result.value < 0.7


def test_no_speed_is_reported_for_a_wrong_answer(monkeypatch):
    result = measured(monkeypatch, arm=Forgetful)
    assert (result.outcome, result.value) == ("wrong", None)


@pytest.mark.parametrize(("arm", "reason"), [(Failing, "ValueError: out of order"), (Killed, "its process ended")])
def test_a_failing_training_is_a_finding(monkeypatch, arm, reason):
    result = measured(monkeypatch, arm=arm)
    assert result.outcome == "failed" and reason in result.reason


@pytest.mark.parametrize(("reference", "reason"), [(Failing, "out of order"), (Killed, "its process ended")])
def test_a_failure_of_one_training_is_not_attributed_to_the_other(monkeypatch, reference, reason):
    result = measured(monkeypatch, reference=reference)
    assert result.outcome == "broken"
    assert f"the training run with {REFERENCE}, which takes turns with this one, failed" in result.reason
    assert reason in result.reason
