"""Fields derived from Gymnasium's spaces, and transitions split to fit them."""

from __future__ import annotations

import subprocess
import sys
import types

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import cpprb_impl
from cpprb_impl import ReplayBuffer, create_before_add_func, create_env_dict

NUMBER = spaces.Discrete(3)
VECTOR = spaces.Box(-1, 1, (2,))
FRAME = spaces.Box(0, 255, (4, 4, 1), dtype=np.uint8)
GOAL = spaces.Dict({"observation": VECTOR, "done": NUMBER})
DEEP = spaces.Tuple([spaces.Dict({"a": spaces.Tuple([VECTOR, NUMBER]), "b": FRAME}), spaces.Tuple([NUMBER, VECTOR])])


class Spaces:
    """The part of an environment that the two functions read."""

    def __init__(self, observation_space, action_space=NUMBER):
        self.observation_space = observation_space
        self.action_space = action_space


class GridWorld(gymnasium.Env):
    """A small environment with Dict observations and actions."""

    observation_space = spaces.Dict({"at": spaces.MultiDiscrete([9, 9]), "view": FRAME, "light": spaces.Box(0, 1, ())})
    action_space = spaces.Dict({"move": NUMBER, "at": VECTOR})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self.observation_space.sample(), 1.5, False, False, {}


def all_equal(stored, part, dtype):
    return np.array_equal(stored, np.asarray(part, dtype=dtype).reshape(stored.shape))


def walk(name, space, value):
    """Yield every part of `value` with its documented name; written independently of the code under test."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from walk(f"{name}_{key}", part, value[key])
    elif isinstance(space, spaces.Tuple):
        for i, part in enumerate(space.spaces):
            yield from walk(f"{name}{i}" if name in ("obs", "next_obs", "act") else f"{name}_{i}", part, value[i])
    else:
        yield name, value


def round_trip(env, obs, act, next_obs):
    env_dict = create_env_dict(env)
    buffer = ReplayBuffer(4, env_dict)
    row = create_before_add_func(env)(obs, act, next_obs, 0.5, True)
    assert sorted(row) == sorted(env_dict)
    buffer.add(**row)
    stored = buffer.get_all_transitions()
    assert {len(column) for column in stored.values()} == {1}
    assert stored["rew"].tolist() == [[0.5]] and stored["done"].tolist() == [[1.0]]
    parts = [*walk("obs", env.observation_space, obs), *walk("act", env.action_space, act)]
    parts += walk("next_obs", env.observation_space, next_obs)
    assert len(parts) == len(env_dict) - 2
    for name, value in parts:
        assert all_equal(stored[name], value, stored[name].dtype), name
    return env_dict


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Blackjack-v1", "grid"])
def test_transitions_of_real_environments_are_returned_unchanged(name):
    env = GridWorld() if name == "grid" else gymnasium.make(name)
    obs, _ = env.reset(seed=1)
    for _ in range(3):
        act = env.action_space.sample()
        next_obs, *_ = env.step(act)
        round_trip(env, obs, act, next_obs)
        obs = next_obs


def test_fields_are_created_for_cartpole_and_blackjack():
    env = gymnasium.make("CartPole-v1")
    assert create_env_dict(env) == {
        "rew": {"shape": 1, "dtype": np.float32},
        "done": {"shape": 1, "dtype": np.float32},
        "obs": {"shape": (4,), "dtype": np.float32},
        "next_obs": {"shape": (4,), "dtype": np.float32},
        "act": {"shape": 1, "dtype": np.int32},
    }
    fields = create_env_dict(env)
    assert fields["obs"] is not fields["next_obs"]  # so that changing one does not change the other
    wide = create_env_dict(env, int_type=np.int64, float_type=np.float64)
    assert {name: field["dtype"] for name, field in wide.items()} == {
        "rew": np.float64,
        "done": np.float64,
        "obs": np.float64,
        "next_obs": np.float64,
        "act": np.int64,
    }
    parts = {f"{prefix}obs{i}" for i in range(3) for prefix in ("", "next_")}
    assert set(create_env_dict(gymnasium.make("Blackjack-v1"))) == {"rew", "done", "act", *parts}


@pytest.mark.parametrize(
    ("observation", "action", "names"),
    [
        (VECTOR, NUMBER, {"obs", "act"}),
        (spaces.MultiBinary(3), spaces.MultiDiscrete([[2, 3], [4, 5]]), {"obs", "act"}),
        (spaces.MultiBinary((2, 3)), spaces.Discrete(4, start=-2), {"obs", "act"}),
        (spaces.Tuple([NUMBER, VECTOR]), spaces.Tuple([VECTOR, NUMBER]), {"obs0", "obs1", "act0", "act1"}),
        (GOAL, GOAL, {"obs_observation", "obs_done", "act_observation", "act_done"}),
        (DEEP, NUMBER, {"obs0_a_0", "obs0_a_1", "obs0_b", "obs1_0", "obs1_1", "act"}),
    ],
)
def test_values_of_every_space_are_returned_unchanged(observation, action, names):
    """In cpprb, create_env_dict and create_before_add_func disagree on the keys of a Dict."""
    env = Spaces(observation, action)
    samples = observation.sample(), action.sample(), observation.sample()
    fields = round_trip(env, *samples)
    assert {name for name in fields if not name.startswith("next_")} == {"rew", "done", *names}
    assert {name for name in fields if name.startswith("next_")} == {f"next_{n}" for n in names if n.startswith("obs")}


def test_a_box_of_integers_keeps_its_type():
    """In cpprb, uint8 frames become float32."""
    for dtype, wanted in [("u1", "u1"), ("i8", "i8"), ("?", "?"), ("f4", "f4"), ("f8", "f4"), ("f2", "f4")]:
        env = Spaces(spaces.Box(0, 1, (2, 2), dtype=np.dtype(dtype).type))
        fields = create_env_dict(env)
        assert fields["obs"]["dtype"] == fields["next_obs"]["dtype"] == np.dtype(wanted)


@pytest.mark.parametrize("other", [spaces.Text(4), spaces.Sequence(NUMBER), spaces.Graph(VECTOR, NUMBER)])
@pytest.mark.parametrize("wrap", [lambda space: space, lambda s: spaces.Tuple([NUMBER, s]), lambda s: spaces.Dict(a=s)])
def test_other_spaces_are_refused_and_named_in_the_error(other, wrap):
    for env in (Spaces(wrap(other)), Spaces(VECTOR, wrap(other))):
        for function in (create_env_dict, create_before_add_func):
            with pytest.raises(NotImplementedError, match=r"(obs|act)\S*: .*" + type(other).__name__):
                function(env)


def test_parts_of_the_same_name_are_refused():
    env = Spaces(spaces.Dict({"a": spaces.Dict({"b": NUMBER}), "a_b": NUMBER}))
    for function in (create_env_dict, create_before_add_func):
        with pytest.raises(ValueError, match="'obs_a_b'"):
            function(env)


def test_the_error_names_a_missing_part():
    before_add = create_before_add_func(Spaces(GOAL, spaces.Tuple([NUMBER, NUMBER])))
    good = {"observation": np.zeros(2), "done": 1}
    with pytest.raises(ValueError, match="next_obs_done"):
        before_add(good, (1, 2), {"observation": np.zeros(2)}, 1.0, False)
    with pytest.raises(ValueError, match="act1"):
        before_add(good, (1,), good, 1.0, False)
    with pytest.raises(ValueError, match=r"^obs_done"):
        before_add(3, (1, 2), good, 1.0, False)


@pytest.mark.parametrize(
    "env",
    [
        Spaces(VECTOR),
        Spaces(spaces.MultiBinary(3), VECTOR),
        Spaces(spaces.MultiDiscrete([3, 4])),
        Spaces(spaces.Tuple([NUMBER, VECTOR]), spaces.Tuple([VECTOR, NUMBER])),
    ],
)
def test_spaces_are_described_as_in_cpprb(env):
    cpprb = pytest.importorskip("cpprb")
    theirs, ours = cpprb.create_env_dict(env), create_env_dict(env)
    assert list(ours) == list(theirs)
    for name in theirs:
        assert np.dtype(ours[name]["dtype"]) == np.dtype(theirs[name]["dtype"])
        assert np.array_equal(np.atleast_1d(ours[name]["shape"]), np.atleast_1d(theirs[name]["shape"]))
    row = env.observation_space.sample(), env.action_space.sample(), env.observation_space.sample(), 0.5, False
    theirs, ours = cpprb.create_before_add_func(env)(*row), create_before_add_func(env)(*row)
    assert list(ours) == list(theirs)
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_two_functions_of_cpprb_disagree_about_a_dict():
    cpprb = pytest.importorskip("cpprb")
    env = Spaces(spaces.Dict({"a": VECTOR}))
    obs = env.observation_space.sample()
    row = cpprb.create_before_add_func(env)(obs, 1, obs, 0.0, False)
    assert "a" in cpprb.create_env_dict(env) and "a" not in row
    assert cpprb.create_env_dict(Spaces(FRAME))["obs"]["dtype"] == np.float32


def test_without_gymnasium_a_call_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.setitem(sys.modules, "gym", None)
    for function in (cpprb_impl.create_env_dict, cpprb_impl.create_before_add_func):
        with pytest.raises(ImportError, match="need Gymnasium"):
            function(Spaces(VECTOR))


def test_gym_is_used_if_gymnasium_is_missing(monkeypatch):
    """cpprb does the same."""
    monkeypatch.setitem(sys.modules, "gym", types.SimpleNamespace(spaces=spaces))
    wanted = cpprb_impl.create_env_dict(Spaces(VECTOR))
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert cpprb_impl.create_env_dict(Spaces(VECTOR)) == wanted


def test_importing_cpprb_impl_does_not_import_gymnasium():
    code = "import sys, cpprb_impl; sys.exit('gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
