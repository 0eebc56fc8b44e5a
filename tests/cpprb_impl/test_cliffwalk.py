"""The Blind Cliffwalk, the task that motivated prioritized replay (Schaul et al. 2015, section 3.1).

In each state, one of two actions leads to the next state, and the other ends the episode. Only the last state has a
reward, so almost all transitions teach nothing. The memory contains each sequence of actions once, and a table of
values is learned from single draws, without importance weights, since there is no randomness that they could correct.
"""

from __future__ import annotations

import numpy as np

from cpprb_impl import PrioritizedReplayBuffer, ReplayBuffer

STATES = 10
DISCOUNT = 1 - 1 / STATES
ON, FALL = 0, 1
FIELDS = {"state": {"shape": (), "dtype": np.int64}, "action": {"shape": (), "dtype": np.int64}}
SEEDS = range(5)


def transitions() -> np.ndarray:
    """Return the (state, action) pairs of all sequences of actions in turn: 2^(STATES + 1) - 2."""
    rows = [(state, ON) for state in range(STATES)]
    for last in range(STATES):
        rows += 2 ** (STATES - 1 - last) * [*((state, ON) for state in range(last)), (last, FALL)]
    return np.array(rows)


def updates_needed(buffer: ReplayBuffer, seed: int) -> int:
    """Return the number of updates until the mean squared error of the values is 10^-3."""
    random = np.random.default_rng(seed)
    rows = random.permutation(transitions())
    assert len(rows) == 2 ** (STATES + 1) - 2
    buffer.add(state=rows[:, 0], action=rows[:, 1])
    true = np.zeros((STATES, 2))
    true[:, ON] = DISCOUNT ** np.arange(STATES)[::-1]
    values = random.normal(0, 0.1, (STATES, 2))
    for count in range(1, 200_000):
        batch = buffer.sample(1)
        state, action = batch["state"][0], batch["action"][0]
        target = 0.0 if action == FALL else 1.0 if state == STATES - 1 else DISCOUNT * values[state + 1].max()
        error = target - values[state, action]
        values[state, action] += error / 4
        if "indexes" in batch:
            buffer.update_priorities(batch["indexes"], abs(error))
        if np.mean((values - true) ** 2) < 1e-3:
            return count
    raise AssertionError("the values did not converge")


def prioritized(alpha: float, seed: int) -> PrioritizedReplayBuffer:
    return PrioritizedReplayBuffer(len(transitions()), FIELDS, alpha=alpha, eps=1e-4, seed=seed)


def median(make) -> float:
    return float(np.median([updates_needed(make(seed), seed) for seed in SEEDS]))


def test_prioritized_replay_needs_fewer_updates():
    uniform = median(lambda seed: ReplayBuffer(len(transitions()), FIELDS, seed=seed))
    assert median(lambda seed: prioritized(0.7, seed)) < uniform / 4
    assert median(lambda seed: prioritized(0.0, seed)) > uniform / 2  # the control: equal priorities have no advantage
