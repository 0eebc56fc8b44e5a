"""Pickles and models that an earlier revision wrote can be read, and training continues from them."""

from __future__ import annotations

import io
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.save_util import load_from_pkl
from stable_baselines3.common.vec_env import DummyVecEnv

from cpprb_impl import sb3
from tests.cpprb_impl.data.write import Reader
from tests.cpprb_impl.test_written_before import assert_same
from tests.integrations.tasks import Rooms

from .data.write import (
    ACTION,
    GOALS,
    MODELS,
    MODULES,
    N_ENVS,
    OF_CLEANRL,
    OF_SB3,
    OF_TORCHRL,
    PUBLIC,
    SIZE,
    STEP_BUFFERS,
    WRITTEN,
    Kind,
    contents,
    environments,
    sampler,
)

ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
OPTIONS = (
    *("pos", "full", "buffer_size", "n_envs", "exact", "handle_timeout_termination", "optimize_memory_usage"),
    *("observation_space", "action_space", "obs_shape", "action_dim", "device"),
    *("n_steps", "gamma", "alpha", "beta", "first_beta", "eps", "normalize", "check_for_update"),
    *("goal_selection_strategy", "n_sampled_goal", "copy_info_dict", "ep_start", "ep_length", "_current_ep_start"),
)
STORED = np.divmod(np.arange(SIZE * N_ENVS), N_ENVS)


def written(name: str) -> bytes:
    return (WRITTEN / name).read_bytes()


def seen(buffer: Any) -> dict[str, Any]:
    """Return the arrays and options of a buffer of steps. Frames that are stored once have no rows beyond these."""
    found = {name: getattr(buffer, name) for name in OPTIONS if hasattr(buffer, name)}
    steps, environments = (part[: buffer.size() * N_ENVS] for part in STORED)
    for name in ARRAYS:
        array = getattr(buffer, name)
        for part, values in array.items() if isinstance(array, dict) else [("", array)]:
            found[f"{name} {part}"] = values if isinstance(values, np.ndarray) else values[steps, environments]
    return found


def drawn(buffer: Any) -> dict[str, Any]:
    """Return a batch as arrays, after reseeding each generator that may draw it."""
    np.random.seed(7)
    if buffer._draws_from_ring():
        buffer.reseed(7)
    batch = {}
    for name, value in buffer.sample(12)._asdict().items():
        batch |= {f"{name} {part}": each for part, each in value.items()} if isinstance(value, dict) else {name: value}
    return {name: None if each is None else np.asarray(each) for name, each in batch.items()}


def assert_goes_on(buffer: Any, expected: Any, kind: Kind) -> None:
    """Assert that the buffers are equal, and remain equal in further use."""
    assert type(buffer) is type(expected)
    if kind.space is GOALS:
        buffer.set_env(environments())
    assert_same(seen(buffer), seen(expected))
    assert_same(drawn(buffer), drawn(expected))
    for each in (buffer, expected):
        kind.go_on(each)
    assert_same(seen(buffer), seen(expected))
    assert_same(drawn(buffer), drawn(expected))


@pytest.mark.parametrize("name", OF_SB3)
def test_training_continues_from_a_buffer_that_a_model_saved(name):
    kind = OF_SB3[name]
    assert_goes_on(load_from_pkl(io.BytesIO(written(f"{name}.pickle"))), kind.fill(kind.make()), kind)


@pytest.mark.parametrize("name", OF_CLEANRL)
def test_training_continues_from_a_pickle_of_the_buffer_for_cleanrl(name):
    kind = OF_CLEANRL[name]
    assert_goes_on(pickle.loads(written(f"{name}.pickle")), kind.fill(kind.make()), kind)


class Spaces(gymnasium.Env):
    """Random observations of a space, with the actions of the data."""

    action_space = ACTION

    def __init__(self, observations):
        self.observation_space = observations

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


@pytest.mark.parametrize("name", ["sb3", "sb3_nstep", "sb3_her"])
def test_a_model_learns_from_a_saved_buffer(name):
    kind = OF_SB3[name]
    goals = kind.space is GOALS
    env = environments() if goals else DummyVecEnv([lambda: Spaces(kind.space)] * N_ENVS)
    options = {
        "replay_buffer_class": kind.kind,
        "replay_buffer_kwargs": kind.options,
        "policy_kwargs": {"net_arch": [2]},
    }
    policy = "MultiInputPolicy" if goals else "MlpPolicy"
    model = SAC(policy, env, device="cpu", buffer_size=SIZE * N_ENVS, learning_starts=0, **options)
    model.load_replay_buffer(WRITTEN / f"{name}.pickle", truncate_last_traj=False)
    assert_same(seen(model.replay_buffer), seen(kind.fill(kind.make())))
    model.learn(N_ENVS)
    assert model._n_updates > 0


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_makes_a_buffer_of_its_class(name):
    algorithm, buffer = MODELS[name]
    model = algorithm.load(WRITTEN / f"{name}.zip", env=DummyVecEnv([Rooms]), device="cpu")
    assert model.replay_buffer_class is buffer
    assert type(model.replay_buffer) is buffer
    model.learn(12)
    assert model._n_updates > 0


@pytest.mark.parametrize("name", OF_TORCHRL)
def test_training_continues_from_a_pickle_of_the_buffer_for_torchrl(name):
    kind = OF_TORCHRL[name]
    buffer, expected = pickle.loads(written(f"{name}.pickle")), kind.fill(kind.make())
    assert type(buffer) is type(expected)
    assert len(buffer) == len(expected) == min(kind.rows, SIZE)
    for name in ("max_size", "batch_size", "priority_key", "alpha", "beta", "eps", "normalize"):
        assert getattr(buffer, name, None) == getattr(expected, name, None)
    for step in range(2):
        for each in (buffer, expected):
            each.reseed(7)
            if step == 1:
                kind.go_on(each)
        if len(expected):
            assert_equal(buffer[:], expected[:])
            assert_equal(buffer.sample(), expected.sample())


def assert_equal(one: Any, other: Any) -> None:
    assert set(one.keys(True, True)) == set(other.keys(True, True))
    for key in other.keys(True, True):
        assert one[key].dtype == other[key].dtype
        torch.testing.assert_close(one[key], other[key], rtol=0, atol=0)


def test_frames_in_a_pickle_are_those_of_the_buffer():
    kind = STEP_BUFFERS["sb3_frames_once"]
    frames, expected = pickle.loads(written("frames.pickle")), kind.fill(kind.make()).observations
    assert type(frames) is type(expected)
    np.testing.assert_array_equal(frames[STORED], expected[STORED])


def test_a_sampler_in_a_pickle_draws_as_a_new_one():
    samplers = pickle.loads(written("sampler.pickle")), sampler()
    assert type(samplers[0]) is type(samplers[1])
    for each in samplers:
        each._buffer.reseed(7)
    one, other = (each.sample(12) for each in samplers)
    assert one.keys() == other.keys()
    for name, column in other.items():
        torch.testing.assert_close(one[name], column, rtol=0, atol=0)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_in_a_pickle_are_those_of_the_module(name):
    names = pickle.loads(written(f"public_names_{name}.pickle"))
    assert names == {each: getattr(MODULES[name], each) for each in PUBLIC[name]}


def test_every_kind_of_buffer_has_its_data():
    assert {path.name for path in WRITTEN.iterdir()} == contents().keys()


def test_every_buffer_of_stable_baselines3_is_among_the_kinds():
    buffers = {getattr(sb3, name) for name in sb3.__all__ if name.endswith("Buffer")}
    assert {kind.kind for kind in OF_SB3.values()} == buffers


@pytest.mark.parametrize("name", sorted(path.name for path in WRITTEN.glob("*.pickle")))
def test_no_pickle_contains_names_of_the_tests(name):
    """If it did, the data could no longer be read after tests are renamed."""
    reader = Reader(written(name))
    reader.load()
    assert not [each for each in reader.named if each.startswith(("tests", "__main__"))]
