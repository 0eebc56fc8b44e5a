"""A saved buffer that a model cannot use is refused when it is loaded, not later, in `learn`."""

from __future__ import annotations

import copy
import pickle

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, SAC, HerReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv

from cpprb_impl import sb3


class Ends(gymnasium.Env):
    """Episodes of 3 steps with discrete or continuous actions and, on request, goals."""

    def __init__(self, goals, discrete):
        seen = spaces.Box(-1, 1, (2,), np.float32)
        parts = dict.fromkeys(("observation", "achieved_goal", "desired_goal"), seen)
        self.goals, self.observation_space = goals, spaces.Dict(parts) if goals else seen
        self.action_space = spaces.Discrete(2) if discrete else spaces.Box(-1, 1, (1,), np.float32)
        self.step_number = 0

    def seen(self):
        zeros = np.zeros(2, np.float32)
        return dict.fromkeys(self.observation_space.spaces, zeros) if self.goals else zeros

    def reset(self, *, seed=None, options=None):
        self.step_number = 0
        return self.seen(), {}

    def step(self, action):
        self.step_number += 1
        return self.seen(), 0.0, self.step_number == 3, False, {}

    def compute_reward(self, achieved, desired, info):
        return np.zeros(len(achieved))


KINDS = {
    "ReplayBuffer": (SAC, False),
    "DictReplayBuffer": (SAC, True),
    "NStepReplayBuffer": (SAC, False),
    "HerReplayBuffer": (SAC, True),
    "PrioritizedReplayBuffer": (DQN, False),
}


def model_of(kind, n_envs):
    algorithm, goals = KINDS[kind]
    buffer = getattr(sb3, kind)
    envs = DummyVecEnv([lambda: Ends(goals, algorithm is DQN)] * n_envs)
    options = {"learning_starts": 20, "buffer_size": 64, "device": "cpu", "replay_buffer_class": buffer}
    return algorithm("MultiInputPolicy" if goals else "MlpPolicy", envs, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("saved", "loaded"), [(1, 4), (4, 1), (2, 2)])
def test_a_different_number_of_environments_is_refused(kind, saved, loaded, tmp_path):
    model = model_of(kind, saved)
    model.learn(16)
    model.save_replay_buffer(tmp_path / "steps.pkl")
    other = model_of(kind, loaded)
    if saved == loaded:
        other.load_replay_buffer(tmp_path / "steps.pkl")
        other.learn(16)
        return
    other.learn(16)
    own, count = other.replay_buffer, other.replay_buffer.size()
    with pytest.raises(
        ValueError, match=f"n_envs of the loaded buffer must be that of the model, {loaded}, got {saved}"
    ):
        other.load_replay_buffer(tmp_path / "steps.pkl")
    assert other.replay_buffer is own
    other.learn(16, reset_num_timesteps=False)
    assert own.size() == count + 16 // loaded


def test_a_different_number_is_refused_by_a_model_without_an_environment(tmp_path):
    """`set_env` accepts no other number of environments either."""
    model_of("ReplayBuffer", 2).save_replay_buffer(tmp_path / "steps.pkl")
    model_of("ReplayBuffer", 1).save(tmp_path / "model")
    model = SAC.load(tmp_path / "model", device="cpu")
    with pytest.raises(ValueError, match="n_envs of the loaded buffer must be that of the model, 1, got 2"):
        model.load_replay_buffer(tmp_path / "steps.pkl")


class Spaces(gymnasium.Env):
    """Random observations of one space and actions of another."""

    def __init__(self, observations, actions):
        self.observation_space, self.action_space = observations, actions

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


def box(*shape, limit=1.0):
    return spaces.Box(-limit, limit, shape, np.float32)


TWO, THREE = spaces.Discrete(2), spaces.Discrete(3)
# The spaces of observations and actions of a file, and of the model that loads it.
CANNOT_WORK = {
    "shape": (SAC, (box(6), box(1)), (box(4), box(1))),
    "number of axes": (SAC, (box(2, 2), box(1)), (box(4), box(1))),
    "action shape": (SAC, (box(2), box(2)), (box(2), box(1))),
    "kind of action": (DQN, (box(2), box(1)), (box(2), TWO)),
    "more actions": (DQN, (box(2), THREE), (box(2), TWO)),
    "more values": (DQN, (THREE, TWO), (TWO, TWO)),
    "more values of one": (DQN, (spaces.MultiDiscrete([2, 3]), TWO), (spaces.MultiDiscrete([3, 2]), TWO)),
    "buttons": (DQN, (spaces.MultiBinary(3), TWO), (spaces.MultiBinary(2), TWO)),
    "no dict": (DQN, (spaces.Dict(a=box(2)), TWO), (box(2), TWO)),
    "a dict": (DQN, (box(2), TWO), (spaces.Dict(a=box(2)), TWO)),
    "names": (DQN, (spaces.Dict(a=box(2)), TWO), (spaces.Dict(b=box(2)), TWO)),
    "fewer parts": (DQN, (spaces.Dict(a=box(2)), TWO), (spaces.Dict(a=box(2), b=box(2)), TWO)),
    "more parts": (DQN, (spaces.Dict(a=box(2), b=box(2)), TWO), (spaces.Dict(a=box(2)), TWO)),
    "shape of a part": (DQN, (spaces.Dict(a=box(2), b=box(3)), TWO), (spaces.Dict(a=box(2), b=box(2)), TWO)),
}
WORK = {
    "bounds": (SAC, (box(2), box(1)), (box(2, limit=2.0), box(1))),
    "fewer actions": (DQN, (box(2), TWO), (box(2), THREE)),
    "fewer values": (DQN, (TWO, TWO), (THREE, TWO)),
    "order of parts": (DQN, (spaces.Dict(a=box(2), b=box(3)), TWO), (spaces.Dict(b=box(3), a=box(2)), TWO)),
}


def model_for(algorithm, seen, actions):
    policy = "MultiInputPolicy" if isinstance(seen, spaces.Dict) else "MlpPolicy"
    kind = sb3.DictReplayBuffer if isinstance(seen, spaces.Dict) else sb3.ReplayBuffer
    options = {"learning_starts": 20, "buffer_size": 64, "device": "cpu", "replay_buffer_class": kind}
    return algorithm(policy, DummyVecEnv([lambda: Spaces(seen, actions)]), **options)


@pytest.mark.parametrize(("algorithm", "saved", "loaded"), CANNOT_WORK.values(), ids=CANNOT_WORK)
def test_spaces_that_the_model_cannot_use_are_refused(algorithm, saved, loaded, tmp_path):
    model_for(SAC if isinstance(saved[1], spaces.Box) else DQN, *saved).save_replay_buffer(tmp_path / "steps.pkl")
    made = model_for(algorithm, *loaded)
    made.save(tmp_path / "model")
    for model in (made, algorithm.load(tmp_path / "model", device="cpu")):
        own = model.replay_buffer
        with pytest.raises(ValueError, match="_space of the loaded buffer must be that of the model"):
            model.load_replay_buffer(tmp_path / "steps.pkl")
        assert model.replay_buffer is own


@pytest.mark.parametrize(("algorithm", "saved", "loaded"), WORK.values(), ids=WORK)
def test_spaces_whose_values_the_model_can_use_are_accepted(algorithm, saved, loaded, tmp_path):
    model = model_for(algorithm, *saved)
    model.learn(16)
    model.save_replay_buffer(tmp_path / "steps.pkl")
    model = model_for(algorithm, *loaded)
    model.load_replay_buffer(tmp_path / "steps.pkl")
    model.learn(40)


def prioritized(**options):
    env = DummyVecEnv([lambda: Ends(False, True)])
    return sb3.PrioritizedDQN("MlpPolicy", env, learning_starts=20, buffer_size=64, device="cpu", **options)


@pytest.mark.parametrize("content", ["none", "uniform"])
def test_a_prioritized_model_keeps_its_buffer_whatever_a_file_contains(content, tmp_path):
    saved = model_for(DQN, box(2), TWO).replay_buffer if content == "uniform" else content
    (tmp_path / "steps.pkl").write_bytes(pickle.dumps(saved))
    model = prioritized(gamma=0.9)
    own = model.replay_buffer
    with pytest.raises((TypeError, AssertionError)):
        model.load_replay_buffer(tmp_path / "steps.pkl")
    assert model.replay_buffer is own
    model.learn(16)


def test_a_buffer_with_a_discount_other_than_that_of_the_model_is_refused(tmp_path):
    saved, other = (prioritized(gamma=gamma, n_steps=3) for gamma in (0.9, 0.8))
    saved.save_replay_buffer(tmp_path / "steps.pkl")
    own = other.replay_buffer
    with pytest.raises(ValueError, match=r"gamma of the loaded buffer must be that of the model, 0\.8, got 0\.9"):
        other.load_replay_buffer(tmp_path / "steps.pkl")
    assert other.replay_buffer is own
    saved.load_replay_buffer(tmp_path / "steps.pkl")


@pytest.mark.parametrize("given", ["n_steps", "replay_buffer_kwargs"])
@pytest.mark.parametrize(("saved", "loaded"), [(1, 3), (3, 1), (3, 2), (2, 2)])
def test_a_buffer_with_n_steps_other_than_those_of_the_model_is_refused(saved, loaded, given, tmp_path):
    def made(n_steps):
        return prioritized(**({given: n_steps} if given == "n_steps" else {given: {"n_steps": n_steps}}))

    made(saved).save_replay_buffer(tmp_path / "steps.pkl")
    model = made(loaded)
    model.save(tmp_path / "model")
    for other in (model, sb3.PrioritizedDQN.load(tmp_path / "model", device="cpu")):
        own = other.replay_buffer
        if saved == loaded:
            other.load_replay_buffer(tmp_path / "steps.pkl")
            assert other.replay_buffer is not own
            continue
        with pytest.raises(ValueError, match=f"n_steps .* must be that of the model, {loaded}, got {saved}"):
            other.load_replay_buffer(tmp_path / "steps.pkl")
        assert other.replay_buffer is own


def test_a_file_that_does_not_state_n_steps_has_single_steps(tmp_path):
    """Such a file may come from before this option existed, or from a model whose buffer was released."""
    saved, other = prioritized(), prioritized(n_steps=3)
    del saved.replay_buffer.__dict__["n_steps"]
    saved.save_replay_buffer(tmp_path / "steps.pkl")
    saved.load_replay_buffer(tmp_path / "steps.pkl")
    other.replay_buffer = None
    with pytest.raises(ValueError, match=r"n_steps .* must be that of the model, 3, got 1"):
        other.load_replay_buffer(tmp_path / "steps.pkl")


def test_the_table_has_every_class():
    without_algorithm = {"SequenceReplayBuffer"}  # it refuses to be sampled by those of Stable-Baselines3
    assert KINDS.keys() == {name for name in sb3.__all__ if name.endswith("Buffer")} - without_algorithm
    assert issubclass(sb3.HerReplayBuffer, HerReplayBuffer)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_the_device_is_kept_and_can_be_set(copied):
    buffer = copied(model_of("ReplayBuffer", 2).replay_buffer)
    assert buffer.device == torch.device("cpu")
    buffer.device = torch.device("meta")
    assert buffer.device.type == "meta"
