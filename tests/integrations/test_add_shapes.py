"""`add` stores whatever the original `add` stores, which assigns with NumPy's broadcasting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common import buffers as theirs

from cpprb_impl import cleanrl, sb3
from tests.integrations.test_sb3 import BOX, BUTTONS

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
def test_shapes_that_the_original_stores_are_stored(kind, n_envs, what, value):
    assert_stored_alike(kind, n_envs, **{what: value})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(4,), (4, 1), (1, 4), (2, 2)], ids=str)
def test_observations_that_are_numbers_may_have_any_shape(kind, shape):
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
def test_shapes_that_the_original_refuses_are_refused_and_named_in_the_error(kind, what, value):
    with pytest.raises(ValueError, match="could not broadcast"):
        assert_stored_alike(theirs.ReplayBuffer, 4, **{what: value})
    with pytest.raises(ValueError, match=f"^{what} must have"):
        assert_stored_alike(kind, 4, **{what: value})


PARTS = spaces.Dict({"a": BOX, "b": spaces.Discrete(5)})
OF_PARTS = {"a": np.zeros((1, 3), np.float32), "b": np.zeros((1, 1), np.int64)}
REST = np.zeros((1, 1), np.int64), np.zeros(1), np.zeros(1), [{}]


@pytest.mark.parametrize("kind", [sb3.DictReplayBuffer, *KINDS])
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("names", [("a", "a "), ("a ", "a", "a  "), (" ", "  "), ("obs", "obs obs"), ("a", "next_a")])
def test_parts_whose_names_differ_are_stored_separately(kind, once, names):
    space = spaces.Dict(dict.fromkeys(names, BOX))
    buffer = kind(10, space, BUTTONS, device="cpu", optimize_memory_usage=once)
    obs = {name: np.full((1, 3), number, np.float32) for number, name in enumerate(names)}
    buffer.add(obs, {name: value + 10 for name, value in obs.items()}, *REST)
    batch = buffer.sample(4)
    for number, name in enumerate(names):
        assert (batch.observations[name] == number).all()
        assert (batch.next_observations[name] == number + 10).all()


@pytest.mark.parametrize("kind", [sb3.DictReplayBuffer, *KINDS])
@pytest.mark.parametrize("more", [{}, {"a": BOX}])
def test_a_part_without_a_name_is_refused(kind, more):
    """Our fields for the whole observation use that name, and PyTorch's ModuleDict allows no such key."""
    with pytest.raises(ValueError, match="observation_space must be a Dict without a part named ''"):
        kind(10, spaces.Dict({"": BOX, **more}), BUTTONS, device="cpu")


@pytest.mark.parametrize("kind", [sb3.DictReplayBuffer, *KINDS])
@pytest.mark.parametrize("what", ["obs", "next_obs"])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ({"a": OF_PARTS["a"]}, KeyError, "must have the parts 'a', 'b', got none named 'b'"),
        ({}, KeyError, "must have the parts 'a', 'b', got none named 'a', 'b'"),
        (np.zeros((1, 3)), TypeError, "must be a dict with the parts 'a', 'b', got ndarray"),
        ([1.0, 2.0], TypeError, "must be a dict with the parts 'a', 'b', got list"),
        (None, TypeError, "must be a dict with the parts 'a', 'b', got NoneType"),
    ],
)
def test_the_error_for_an_observation_without_its_parts_names_them(kind, what, value, error, message):
    buffer = kind(10, PARTS, BUTTONS, device="cpu")
    given = {"obs": OF_PARTS, "next_obs": OF_PARTS} | {what: value}
    with pytest.raises(error, match=f"{what} {message}"):
        buffer.add(given["obs"], given["next_obs"], *REST)
    assert buffer.size() == 0


def acted(kind, n_envs, shape, action):
    """Return what is stored for an action in a space of this shape."""
    buffer = kind(10 * n_envs, BOX, spaces.Box(-99, 99, shape), device="cpu", n_envs=n_envs)
    obs = np.zeros((n_envs, 3), np.float32)
    buffer.add(obs, obs, action, np.zeros(n_envs), np.zeros(n_envs), [{}] * n_envs)
    return buffer.actions[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("n_envs", "shape", "given"),
    [
        *((1, (2, 3), given) for given in [(1, 2, 3), (2, 3), (1, 6), (6,), (6, 1), (2, 1, 3)]),
        *((4, (2, 3), given) for given in [(4, 2, 3), (4, 6), (24,)]),
        *((1, (1, 3), given) for given in [(1, 1, 3), (3, 1), (1, 3), (3,)]),
        *((2, (2, 2), given) for given in [(2, 2, 2), (2, 4)]),
        *((3, (2,), given) for given in [(3, 2), (6,), (3, 2, 1)]),
    ],
)
def test_actions_that_the_original_reshapes_are_stored(kind, n_envs, shape, given):
    action = np.arange(np.prod(given)).reshape(given)
    np.testing.assert_array_equal(acted(kind, n_envs, shape, action), acted(theirs.ReplayBuffer, n_envs, shape, action))


@pytest.mark.parametrize("kind", [*KINDS, sb3.NStepReplayBuffer])
@pytest.mark.parametrize(
    ("n_envs", "shape", "given"),
    [
        *((1, (2, 3), given) for given in [(3, 2), (1, 3, 2), (3, 1, 2)]),
        *((4, (2, 3), given) for given in [(4, 3, 2), (2, 3, 4), (2, 4, 3)]),
        (2, (2, 3), (2, 3, 2)),
        (1, (2, 3, 4), (4, 2, 3)),
    ],
)
def test_actions_whose_axes_are_in_a_different_order_are_refused(kind, n_envs, shape, given):
    """The original reshapes such actions, which scrambles the numbers."""
    with pytest.raises(ValueError, match=r"action must have the shape .* its axes are reordered"):
        acted(kind, n_envs, shape, np.zeros(given))
