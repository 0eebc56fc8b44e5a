"""The arithmetic of Ape-X's explorers agrees with a slow and simple reference."""

from __future__ import annotations

import numpy as np
import pytest

from suites.apex_dqn.nstep import NStepWindow
from suites.apex_dqn.settings import TrainingSettings

GAMMA = 0.9


def reference(rewards, values, acts, terminated, n):
    """Return (first step, last step, reward, discount, priority) of each transition, directly from the definition."""
    found, length = [], len(rewards)
    for t in range(length):
        end = min(t + n, length)
        rew = sum(GAMMA ** (k - t) * rewards[k] for k in range(t, end))
        discount = 0.0 if terminated and end == length else GAMMA ** (end - t)
        found.append((t, end, rew, discount, abs(rew + discount * max(values[end]) - values[t][acts[t]])))
    return found


@pytest.mark.parametrize("terminated", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 9])
def test_transitions_and_priorities_match_the_definition(n, length, terminated):
    random = np.random.default_rng(length)
    rewards, acts = random.normal(size=length), random.integers(0, 3, length).tolist()
    observations, values = random.normal(size=(length + 1, 2)), random.normal(size=(length + 1, 3))
    window, found = NStepWindow(n, GAMMA), []
    for _ in range(2):  # the second episode must not see the first one
        found = []
        for obs, value, act, rew in zip(observations, values, acts, rewards, strict=False):
            if complete := window.step(obs, value, act, rew):
                found.append(complete)
        found += window.end(observations[-1], values[-1], terminated)
    # A window that is full at the end of the episode completes its oldest transition there, exactly N steps later.
    expected = reference(rewards, values, acts, terminated, n)
    assert len(found) == length
    for (transition, priority), (first, last, rew, discount, error) in zip(found, expected, strict=True):
        assert np.array_equal(transition.obs, observations[first])
        assert np.array_equal(transition.next_obs, observations[last])
        assert transition.act == acts[first]
        assert transition.rew == pytest.approx(rew)
        assert transition.discount == pytest.approx(discount)
        assert priority == pytest.approx(error)


def test_the_epsilon_schedule_matches_the_paper():
    settings = TrainingSettings(explorers=8)
    assert [settings.epsilon(i) for i in range(8)] == pytest.approx([0.4 ** (1 + i) for i in range(8)])
    assert TrainingSettings(explorers=360).epsilon(359) == pytest.approx(0.4**8)
    assert TrainingSettings(explorers=1).epsilon(0) == 0.4
