"""The learner's arithmetic agrees with NumPy."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from suites.apex_dqn.dqn import DoubleDQN, Network, flat_weights, set_weights
from suites.apex_dqn.settings import TrainingSettings

ROWS, ACTIONS = 32, 3


def a_batch(random):
    return {
        "obs": random.normal(size=(ROWS, 4)).astype(np.float32),
        "act": random.integers(0, ACTIONS, (ROWS, 1)).astype(np.int32),  # in the shape that cpprb returns
        "rew": random.normal(size=(ROWS, 1)).astype(np.float32),
        "next_obs": random.normal(size=(ROWS, 4)).astype(np.float32),
        "discount": random.choice([0.0, 0.97], (ROWS, 1)).astype(np.float32),
        "weights": random.uniform(0.1, 1.0, ROWS).astype(np.float32),
    }


@pytest.fixture
def learner():
    torch.manual_seed(1)
    made = DoubleDQN(Network((4,), ACTIONS, 16), TrainingSettings(target_every=3))
    torch.manual_seed(2)
    made.target = Network((4,), ACTIONS, 16)  # different weights, so that use of the wrong network would show
    return made


def test_priorities_are_double_q_errors(learner):
    batch = a_batch(np.random.default_rng(0))
    online, target = copy.deepcopy(learner.network), learner.target
    best = online.values(batch["next_obs"]).argmax(axis=1)
    following = target.values(batch["next_obs"])[np.arange(ROWS), best]
    expected = batch["rew"].ravel() + batch["discount"].ravel() * following
    expected -= online.values(batch["obs"])[np.arange(ROWS), batch["act"].ravel()]
    assert learner.step(batch) == pytest.approx(np.abs(expected), rel=1e-4, abs=1e-5)


def test_a_row_with_an_importance_weight_of_0_has_no_gradient(learner):
    batch = a_batch(np.random.default_rng(0))
    batch["weights"][:] = 0
    before = flat_weights(learner.network)
    learner.step(batch)
    assert np.array_equal(before, flat_weights(learner.network))
    batch["weights"][:] = 1
    learner.step(batch)
    assert not np.array_equal(before, flat_weights(learner.network))


def test_the_target_network_is_updated_at_its_interval(learner):
    random = np.random.default_rng(0)
    followed = []
    for _ in range(6):
        learner.step(a_batch(random))
        followed.append(np.array_equal(flat_weights(learner.target), flat_weights(learner.network)))
    assert followed == [False, False, True] * 2


def test_dueling_advantages_have_mean_zero():
    network = Network((4,), ACTIONS, 16)
    obs = np.ones((5, 4), np.float32)
    value = network.value(network.body(torch.from_numpy(obs))).detach().numpy()
    assert network.values(obs).mean(axis=1) == pytest.approx(value.ravel(), abs=1e-6)


def test_weights_survive_the_copy_as_a_flat_array():
    one, other = (Network((4,), ACTIONS, 16) for _ in range(2))
    set_weights(other, flat_weights(one))
    obs = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    assert np.array_equal(one.values(obs), other.values(obs))
