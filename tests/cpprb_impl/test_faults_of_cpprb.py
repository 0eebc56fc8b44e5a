"""Faults of cpprb 11 that no other test covers, shown next to our results where cpprb can be run safely.

The docstrings of other tests name the faults that they would detect: search for "cpprb".
"""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest
from scipy import stats

from cpprb_impl import (
    HindsightReplayBuffer,
    MPReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    ReverseReplayBuffer,
)

STEPS = {"obs": {}, "next_obs": {}, "rew": {}, "done": {"dtype": bool}}
NSTEP = {"size": 3, "rew": "rew", "next": "next_obs"}


def step(number: int) -> dict[str, float]:
    return {"obs": number, "next_obs": number + 1, "rew": 1, "done": False}


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
def test_the_last_steps_of_a_truncated_episode_have_next_values(kind):
    """In cpprb, the next_* of an episode's last N - 1 transitions is never set."""
    buffer = kind(8, STEPS, Nstep=NSTEP)
    for number in range(4):
        buffer.add(**step(number))
    buffer.on_episode_end()
    assert buffer.get_all_transitions()["next_obs"].ravel().tolist() == [3, 4, 4, 4]


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
def test_n_step_remains_enabled_after_failed_calls(kind):
    """In cpprb, a failed load, or in prioritized buffers an episode that ends with an empty window, disables n-step."""
    buffer = kind(8, STEPS, Nstep=NSTEP)
    buffer.on_episode_end()
    for file in (io.BytesIO(b"no file"), "/nowhere/at/all.npz"):
        with pytest.raises((ValueError, OSError)):
            buffer.load_transitions(file)
    with pytest.raises(KeyError):
        buffer.add(obs=1)
    assert [buffer.add(**step(number)) for number in range(4)] == [None, None, 0, 1]
    assert buffer.is_Nstep() and buffer.get_all_transitions()["next_obs"].ravel().tolist() == [3, 4]


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer, ReverseReplayBuffer, MPReplayBuffer])
def test_the_env_dict_of_the_caller_is_not_modified(kind):
    """cpprb writes into the dict."""
    fields = {"obs": {"shape": 2}, "done": {}}
    before = copy.deepcopy(fields)
    options = {} if kind is MPReplayBuffer else {"next_of": "obs", "stack_compress": ["obs"], "Nstep": {"size": 2}}
    buffer = kind(8, fields, **options)
    buffer.add(obs=[1, 2], next_obs=[2, 3], done=0)
    assert fields == before
    buffer.close()


def test_the_env_dict_of_a_hindsight_buffer_is_not_modified():
    fields = {"obs": {"shape": 2}, "act": {}, "next_obs": {"shape": 2}}
    before = copy.deepcopy(fields)
    HindsightReplayBuffer(8, fields, 4, lambda state, act, goal: np.zeros(len(state)))
    assert fields == before


def test_cpprb_modifies_the_env_dict():
    fields = {"obs": {"shape": 2}}
    pytest.importorskip("cpprb").ReplayBuffer(8, fields)
    assert fields != {"obs": {"shape": 2}}


@pytest.mark.slow
def test_small_priorities_after_a_huge_one_are_all_drawn():
    """In cpprb's float sums, half of the small priorities are lost to rounding: 2,128 of 4,095 rows are never drawn."""
    buffer = PrioritizedReplayBuffer(4096, {"x": {}}, alpha=1.0, eps=0.0, seed=1)
    priorities = np.r_[1e6, np.full(4095, 0.03)]
    buffer.add(x=np.zeros(4096), priorities=priorities)
    counts = sum(np.bincount(buffer.sample(100_000)["indexes"], minlength=4096) for _ in range(1000))
    each = counts.sum() * 0.03 / priorities.sum()  # expected 3 times
    wanted = 4095 * stats.poisson.pmf(np.arange(6), each)
    assert stats.chisquare(np.bincount(counts[1:])[:6], wanted, sum_check=False).pvalue > 1e-6
