"""A buffer of n-step transitions warns once if no step begins where the one before ended."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import cpprb_impl as m

CLASSES = [m.ReplayBuffer, m.PrioritizedReplayBuffer, m.MPReplayBuffer, m.MPPrioritizedReplayBuffer]
NSTEP = {"size": 3, "gamma": 1.0, "rew": "rew", "next": "next_obs"}
ENV = {"obs": {"shape": 2}, "next_obs": {"shape": 2}, "rew": {}, "done": {}}
WARNING = "none of 3[2-9] steps begins where the one before ended"


def rows(first: int, count: int, stride: int = 1, **others: float) -> dict:
    """Return steps of `stride` streams in turn: step i of each is followed by its step i + 1."""
    step = np.arange(first, first + count)[:, None] + np.array([0.0, 0.5])
    return {"obs": step, "next_obs": step + stride, "rew": np.ones(count), "done": np.zeros(count)} | {
        name: np.full(count, value) for name, value in others.items()
    }


def add(buffer, count: int, at_once: int, **of_rows) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for first in range(0, count, at_once):
            buffer.add(**rows(first, at_once, **of_rows))
    return [str(each.message) for each in seen]


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("kind", CLASSES)
def test_steps_of_several_environments_cause_one_warning(kind, at_once):
    buffer = kind(200, ENV, Nstep=NSTEP)
    (message,) = add(buffer, 160, at_once, stride=4)
    assert "none of 3" in message and "Pass n_envs, or env_ids to add()" in message
    assert buffer.get_stored_size() == 158


@pytest.mark.parametrize("kind", CLASSES)
def test_steps_in_order_cause_none(kind):
    assert add(kind(200, ENV, Nstep=NSTEP), 160, 4, stride=1) == []
    assert add(kind(200, ENV, Nstep=NSTEP, n_envs=4), 160, 4, stride=4) == []


@pytest.mark.parametrize("kind", CLASSES)
def test_one_step_that_follows_the_one_before_ends_the_search(kind):
    buffer = kind(200, ENV, Nstep=NSTEP)
    assert add(buffer, 2, 1, stride=1) == []
    assert add(buffer, 160, 4, stride=4) == []


@pytest.mark.parametrize("ends", [{"done": 1}, {"truncated": 1}])
def test_nothing_follows_a_step_that_ends(ends):
    env, nstep = {**ENV, "truncated": {}}, {**NSTEP, "truncated": "truncated"}
    buffer = m.ReplayBuffer(200, env, Nstep=nstep)
    assert add(buffer, 160, 4, stride=4, **({"truncated": 0} | ends)) == []


def test_on_episode_end_is_an_end():
    buffer = m.ReplayBuffer(200, ENV, Nstep=NSTEP)
    for first in range(0, 160, 4):
        assert add(buffer, 1, 1, stride=first) == []
        buffer.on_episode_end()


def test_steps_of_some_environments_are_watched_too():
    buffer = m.ReplayBuffer(200, ENV, Nstep=NSTEP, n_envs=2)
    with warnings.catch_warnings(record=True) as seen:
        for first in range(0, 160, 4):
            buffer.add(env_ids=[1], **rows(first, 1))
    assert [bool(re.search(WARNING, str(each.message))) for each in seen] == [True]


def test_fields_of_other_dtypes_are_not_compared():
    buffer = m.ReplayBuffer(200, {**ENV, "next_obs": {"shape": 2, "dtype": float}}, Nstep=NSTEP)
    assert add(buffer, 160, 4, stride=4) == []


def test_a_warning_that_is_an_error_comes_before_anything_is_stored():
    buffer = m.ReplayBuffer(200, ENV, Nstep=NSTEP)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for first in range(60):
            stored = buffer.get_stored_size()
            try:
                buffer.add(**rows(4 * first, 1, stride=2))
            except UserWarning:
                break
        else:
            pytest.fail("no warning")
    assert buffer.get_stored_size() == stored
    buffer.add(**rows(0, 1))
    assert buffer.get_stored_size() == stored + 1
