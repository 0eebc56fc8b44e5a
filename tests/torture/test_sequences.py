"""Random sequences of calls by a tree of processes (`make sequences` runs more) detect injected faults, and find none
in our buffers."""

from __future__ import annotations

import os

import pytest

from cpprb_impl import MPReplayBuffer

from . import sequences, tree
from .certified import NARROW, WIDE
from .member import OWN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FEW = 12  # number of sequences
ADD_AND_REST = [
    ("new", 0),
    ("make", 0, 0, (64, NARROW, False, "none", 1, False, False)),
    ("fork", 0, 1),
    ("calls", ((0, "add", 0, 20, False), (1, "add", 0, 20, True)), None),
    ("rest", 0),
]


@pytest.mark.parametrize("seed", range(FEW))
def test_random_calls_by_several_processes_find_no_fault(seed):
    result = sequences.run(seed, sequences.STEPS, sequences.LIMIT)
    assert not result.trouble, sequences.described(seed, result)
    assert len(result.steps) == sequences.STEPS


def test_a_seed_repeats_the_same_steps():
    first, again = (sequences.run(FEW, 30, sequences.LIMIT).steps for _ in range(2))
    assert first == again


def trouble_after(steps, limit=sequences.LIMIT) -> str:
    result = sequences.run(0, 0, limit, steps)
    assert result.steps == steps
    return result.trouble


def test_steps_passed_to_run_are_executed():
    assert trouble_after(ADD_AND_REST) == ""


def test_a_torn_row_and_a_lost_row_are_detected(monkeypatch):
    add = MPReplayBuffer.add
    monkeypatch.setattr(MPReplayBuffer, "add", lambda self, **row: add(self, **row | {"done": row["done"] ^ 1}))
    assert "'torn'" in trouble_after(ADD_AND_REST)

    def add_fewer(self, **rows):
        return add(self, **{name: column[:-1] if rows["id"].ndim else column for name, column in rows.items()})

    monkeypatch.setattr(MPReplayBuffer, "add", add_fewer)
    assert "'lost'" in trouble_after(ADD_AND_REST)


def test_a_hang_is_reported_with_its_stack(monkeypatch):
    monkeypatch.setattr(MPReplayBuffer, "clear", lambda self: os.read(os.pipe()[0], 1))
    trouble = trouble_after([*ADD_AND_REST[:3], ("calls", ((1, "clear", 0),), None)], limit=2)
    assert "member 1" in trouble and "takes more than 2 s" in trouble and "in clear" in trouble


def test_a_death_and_leftover_processes_are_detected(monkeypatch):
    monkeypatch.setattr(MPReplayBuffer, "clear", lambda self: os.kill(os.getpid(), 9))
    assert "member 1 is gone" in trouble_after([*ADD_AND_REST[:3], ("calls", ((1, "clear", 0),), None)])

    monkeypatch.setattr(tree, "GONE_WITHIN", 0.5)
    monkeypatch.setattr(MPReplayBuffer, "clear", lambda self: os.fork() or os.execlp("sleep", "sleep", "2"))
    assert "processes are left" in trouble_after([*ADD_AND_REST[:3], ("calls", ((1, "clear", 0),), None)])


def test_a_failing_sequence_is_shrunk(monkeypatch):
    monkeypatch.setattr(MPReplayBuffer, "clear", lambda self: 1 / 0)
    steps = [*ADD_AND_REST, ("busy", 1, 0, "look"), ("calls", ((0, "clear", 0),), None)]
    assert sequences.shrunk(steps, sequences.LIMIT, tries=1) == [*steps[:2], steps[-1]]


@pytest.mark.parametrize(
    ("kind", "busy", "call"),
    [
        ((64, WIDE, False, "none", 1, False, False), "look", ("close", 0)),
        ((64, WIDE, False, OWN, 1, False, True), "look", ("clear", 0)),
        ((100, NARROW, False, OWN, 3, False, True), "add", ("add", 0, 3, False)),
    ],
)
def test_a_fork_while_another_thread_is_inside_a_call_leaves_the_child_usable(kind, busy, call):
    steps = [("new", 0), ("make", 0, 0, kind), ("calls", ((0, "add", 0, 70, False),), None), ("busy", 0, 0, busy)]
    for child in range(1, 25):
        steps += [("wait", 0.002), ("fork", 0, child), ("calls", ((child, *call),), None), ("kill", child)]
    assert trouble_after(steps) == ""
