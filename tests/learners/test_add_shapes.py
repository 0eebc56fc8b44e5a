"""`add` stores whatever the original's `add` stores, which assigns with NumPy's broadcasting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common import buffers as theirs

from cpprb_impl import cleanrl, sb3
from tests.learners.test_sb3 import BOX, BUTTONS

TRUNCATED = {"TimeLimit.truncated": True}
OBS = {
    "as given by one environment": np.arange(3.0),
    "one axis more": np.arange(3.0).reshape(1, 1, 3),
    "a list": [1.0, 2.0, 3.0],
    "a tensor": torch.arange(3.0),
}
NUMBERS = {
    "a float": 1.0,
    "a bool": True,
    "a NumPy scalar": np.float64(1),
    "no axis": np.array(1.0),
    "(1,)": np.array([1.0]),
    "(1, 1)": np.array([[1.0]]),
    "a list": [1.0],
    "a tensor": torch.ones(1),
}
INFOS = {"one empty": [{}], "one truncated": [TRUNCATED], "a tuple": (TRUNCATED,)}
KINDS = [sb3.ReplayBuffer, sb3.PrioritizedReplayBuffer, cleanrl.ReplayBuffer]


def stored(buffer):
    names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
    return [np.asarray(getattr(buffer, name)[:1]) for name in names]


def assert_stored_alike(kind, n_envs, space=BOX, **changed):
    step = {
        "obs": np.zeros((n_envs, 3)),
        "next_obs": np.ones((n_envs, 3)),
        "action": np.zeros((n_envs, 1), np.int64),
        "reward": np.zeros(n_envs),
        "done": np.zeros(n_envs),
        "infos": [{}] * n_envs,
    } | changed
    ours, other = (
        each(10 * n_envs, space, BUTTONS, device="cpu", n_envs=n_envs) for each in (kind, theirs.ReplayBuffer)
    )
    for buffer in (ours, other):
        buffer.add(**step)
    for one, expected in zip(stored(ours), stored(other), strict=True):
        np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_envs", [1, 4])
@pytest.mark.parametrize(
    ("what", "value"),
    [(what, value) for what in ("reward", "done") for value in NUMBERS.values()]
    + [(what, value) for what in ("obs", "next_obs") for value in OBS.values()]
    + [("infos", value) for value in INFOS.values()],
)
def test_what_the_original_stores_is_stored(kind, n_envs, what, value):
    assert_stored_alike(kind, n_envs, **{what: value})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(4,), (4, 1), (1, 4), (2, 2)], ids=str)
def test_numbers_as_observations_may_have_any_shape(kind, shape):
    numbers = np.arange(4).reshape(shape)
    assert_stored_alike(kind, 4, spaces.Discrete(5), obs=numbers, next_obs=numbers)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("reward", np.zeros(3)),
        ("done", np.zeros((4, 1))),
        ("obs", np.zeros((3, 4))),
        ("next_obs", np.zeros(4)),
        ("infos", [{}] * 3),
        ("infos", []),
    ],
)
def test_what_the_original_refuses_is_refused_by_name(kind, what, value):
    with pytest.raises(ValueError, match="could not broadcast"):
        assert_stored_alike(theirs.ReplayBuffer, 4, **{what: value})
    with pytest.raises(ValueError, match=f"^{what} must have"):
        assert_stored_alike(kind, 4, **{what: value})
