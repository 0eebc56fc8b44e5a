"""Prioritized replay in Stable-Baselines3."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.save_util import save_to_pkl
from stable_baselines3.common.vec_env import VecNormalize

from cpprb_impl import sb3
from tests.integrations.tasks import Rooms
from tests.integrations.test_sb3 import BOX, BUTTONS, fill


def test_rows_are_drawn_by_priority_and_weighted():
    buffer = sb3.PrioritizedReplayBuffer(100, BOX, BUTTONS, device="cpu", n_envs=2, alpha=1.0, eps=0.0, beta=1.0)
    fill([buffer], 10)
    priorities = np.arange(20) + 1.0
    buffer.update_priorities(np.arange(20), priorities)
    batch = buffer.sample(20_000)
    counts = np.bincount(batch.indexes, minlength=20)
    expected = 20_000 * priorities / priorities.sum()
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    # (N P(i))^-beta, over the largest of all (Schaul et al., section 3.4)
    np.testing.assert_allclose(batch.weights.ravel(), 1 / priorities[batch.indexes], rtol=1e-5)
    assert batch.weights.shape == batch.rewards.shape == batch.dones.shape == (20_000, 1)


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("part", [slice(None), slice(2), slice(2, 4), slice(None, None, -1), [0, 3]], ids=str)
def test_check_for_update_protects_rows_that_replaced_sampled_ones(part, n_steps):
    options = {"device": "cpu", "n_envs": 2, "n_steps": n_steps, "check_for_update": True}
    buffer = sb3.PrioritizedReplayBuffer(40, BOX, BUTTONS, **options)
    fill([buffer], 20)
    indexes = buffer.sample(4).indexes[part]
    fill([buffer], 20)
    buffer.sample(4)
    buffer.update_priorities(indexes, np.full(len(indexes), 1e3))
    assert (buffer.sample(100).weights == 1).all()


def test_masks_are_refused_as_indexes():
    buffer = sb3.PrioritizedReplayBuffer(4, BOX, BUTTONS, device="cpu", n_envs=2)
    fill([buffer], 2)
    with pytest.raises(TypeError, match=r"indexes must be numbers, got .*: pass np\.flatnonzero\(mask\)"):
        buffer.update_priorities(np.array([False, True, False, True]), np.ones(4))


def model(env, **options):
    return sb3.PrioritizedDQN(
        "MlpPolicy",
        env,
        learning_starts=50,
        train_freq=1,
        batch_size=16,
        buffer_size=500,
        seed=0,
        device="cpu",
        policy_kwargs={"net_arch": [16]},
        **options,
    )


def test_a_training_sets_priorities_and_raises_beta():
    trained = model(make_vec_env(Rooms, 2, seed=0), replay_buffer_kwargs={"beta": 0.5, "alpha": 0.7})
    trained.learn(400)
    buffer = trained.replay_buffer
    assert trained._n_updates > 100
    assert 0.98 < buffer.beta <= 1
    batch = buffer.sample(200)
    with torch.no_grad():
        following = trained.q_net_target(batch.next_observations).max(dim=1, keepdim=True).values
        target = batch.rewards + (1 - batch.dones) * trained.gamma * following
        values = trained.q_net(batch.observations).gather(1, batch.actions.long())
    errors = (values - target).abs().ravel().numpy()
    leaves = buffer._ring._get_leaves(batch.indexes)
    # Priorities are the errors under older weights, but are mostly large where the errors are.
    assert np.corrcoef(errors, leaves)[0, 1] > 0.3


def test_with_equal_priorities_an_update_equals_that_of_dqn(monkeypatch):
    """With weights of 1 and the same rows, the loss equals that of Stable-Baselines3's DQN."""
    env = make_vec_env(Rooms, 1, seed=0)
    ours, other = (
        model(env),
        DQN(
            "MlpPolicy",
            env,
            learning_starts=50,
            train_freq=1,
            batch_size=16,
            seed=0,
            device="cpu",
            policy_kwargs={"net_arch": [16]},
        ),
    )
    other.policy.load_state_dict(ours.policy.state_dict())
    ours.learn(30)
    batch = ours.replay_buffer.sample(16)
    assert (batch.weights == 1).all()
    other.learn(30)  # sets up the logger, and updates nothing
    for each in (ours, other):
        monkeypatch.setattr(each.replay_buffer, "sample", lambda *_args, **_options: batch)
        each.train(3, 16)
    for one, two in zip(ours.policy.parameters(), other.policy.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-7)


def test_observations_may_be_dicts():
    space = spaces.Dict({"a": BOX, "b": spaces.Discrete(3)})
    buffer = sb3.PrioritizedReplayBuffer(10, space, BUTTONS, device="cpu", optimize_memory_usage=True)
    seen = {"a": np.ones((1, 3), np.float32), "b": np.array([2])}
    buffer.add(seen, seen, np.array([[1]]), np.zeros(1), np.zeros(1), [{}])
    batch = buffer.sample(4)
    assert batch.observations["a"].shape == (4, 3) and (batch.next_observations["b"] == 2).all()


def test_a_model_is_saved_and_loaded(tmp_path):
    env = make_vec_env(Rooms, 1, seed=0)
    one = model(env)
    one.learn(100)
    one.save(tmp_path / "model")
    one.save_replay_buffer(tmp_path / "buffer")
    other = sb3.PrioritizedDQN.load(tmp_path / "model", env=env)
    other.load_replay_buffer(tmp_path / "buffer")
    np.testing.assert_array_equal(other.replay_buffer.sample(30).indexes, one.replay_buffer.sample(30).indexes)
    other.learn(50)


def test_only_a_prioritized_buffer_is_accepted():
    with pytest.raises(TypeError, match="replay_buffer_class must be a PrioritizedReplayBuffer"):
        model("CartPole-v1", replay_buffer_class=sb3.ReplayBuffer)
    with pytest.raises(TypeError, match="exact"):
        sb3.PrioritizedReplayBuffer(10, BOX, BUTTONS, exact=True)


@pytest.mark.parametrize("normalize", ["buffer", "batch", None])
def test_weights_are_normalised_as_requested(normalize):
    buffer = sb3.PrioritizedReplayBuffer(100, BOX, BUTTONS, "cpu", alpha=1.0, eps=0.0, beta=0.7, normalize=normalize)
    fill([buffer], 50, n_envs=1)
    priorities = np.r_[1e-6, np.arange(1.0, 50.0)]
    buffer.update_priorities(np.arange(50), priorities)
    batch = buffer.sample(16)
    drawn = priorities[batch.indexes]
    unit = {"buffer": priorities.min(), "batch": drawn.min(), None: priorities.mean()}[normalize]
    np.testing.assert_allclose(batch.weights.ravel(), (drawn / unit) ** -0.7, rtol=1e-5)


def test_an_error_of_0_does_not_affect_the_default_weights():
    buffer = sb3.PrioritizedReplayBuffer(2000, BOX, BUTTONS, device="cpu")
    fill([buffer], 1000, n_envs=1)
    errors = np.random.default_rng(0).exponential(size=1000)
    means = []
    for first in (errors[0], 0.0):
        buffer.update_priorities(np.arange(1000), np.r_[first, errors[1:]])
        means.append(np.mean([buffer.sample(32).weights.mean() for _ in range(100)]))
    assert means[1] == pytest.approx(means[0], rel=0.1) and means[0] > 0.4


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("added", [9, 40])
@pytest.mark.parametrize("normalized", [False, True])
def test_n_step_returns_are_those_of_stable_baselines3(added, once, normalized, monkeypatch):
    env = VecNormalize(make_vec_env("Pendulum-v1", 2)) if normalized else None
    if env is not None:
        env.ret_rms.var, env.clip_reward = 4.0, 0.3
    theirs = NStepReplayBuffer(64, BOX, BUTTONS, device="cpu", n_envs=2, n_steps=3, gamma=0.9)
    ours = sb3.PrioritizedReplayBuffer(
        64, BOX, BUTTONS, device="cpu", n_envs=2, n_steps=3, gamma=0.9, optimize_memory_usage=once
    )
    fill([theirs, ours], added)
    batch = ours.sample(200, env)
    monkeypatch.setattr(np.random, "randint", lambda *_args, **_options: batch.indexes % 2)
    expected = theirs._get_samples(batch.indexes // 2, env)
    for name in ("observations", "actions", "next_observations", "dones", "rewards", "discounts"):
        torch.testing.assert_close(getattr(batch, name), getattr(expected, name), rtol=1e-5, atol=1e-6)
    assert len(batch.discounts.unique()) > 1, "some windows are shorter"
    by_method = ours._get_samples(batch.indexes // 2, env)
    torch.testing.assert_close(by_method.rewards, batch.rewards)


def test_n_steps_of_the_model_reach_its_buffer(recwarn, tmp_path):
    env = make_vec_env(Rooms, 1, seed=0)
    trained = model(env, n_steps=3, gamma=0.9, double=True)
    assert not [each for each in recwarn if "n_steps" in str(each.message)]
    assert (trained.n_steps, trained.replay_buffer.n_steps, trained.replay_buffer.gamma) == (3, 3, 0.9)
    trained.learn(100)
    trained.save(tmp_path / "model")
    trained.save_replay_buffer(tmp_path / "buffer")
    other = sb3.PrioritizedDQN.load(tmp_path / "model", env=env)
    assert other.double and (other.n_steps, other.replay_buffer.n_steps) == (3, 3)
    other.load_replay_buffer(tmp_path / "buffer")
    np.testing.assert_array_equal(other.replay_buffer.sample(30).rewards, trained.replay_buffer.sample(30).rewards)
    with pytest.raises(ValueError, match="n_steps must be 2, as in replay_buffer_kwargs, or not be given, got 3"):
        model(env, n_steps=3, replay_buffer_kwargs={"n_steps": 2})


@pytest.mark.parametrize("given", [{}, {"gamma": 0.9}])
@pytest.mark.parametrize("options", [{"n_steps": 3}, {"replay_buffer_kwargs": {"n_steps": 3}}])
def test_the_buffer_has_the_gamma_of_the_model(given, options, tmp_path):
    options["replay_buffer_kwargs"] = options.get("replay_buffer_kwargs", {}) | given
    env = make_vec_env(Rooms, 1, seed=0)
    trained = model(env, gamma=0.9, **options)
    assert (trained.replay_buffer.n_steps, trained.replay_buffer.gamma) == (3, 0.9)
    trained.learn(60)
    discounts = trained.replay_buffer.sample(50).discounts.numpy()
    np.testing.assert_allclose(discounts, 0.9 ** np.round(np.log(discounts) / np.log(0.9)), rtol=1e-5)
    trained.save(tmp_path / "model")
    if not given:  # only options that the user passed are saved
        other = sb3.PrioritizedDQN.load(tmp_path / "model", env=env, gamma=0.8)
        assert (other.replay_buffer.n_steps, other.replay_buffer.gamma) == (3, 0.8)


@pytest.mark.parametrize("options", [{"n_steps": 3}, {"replay_buffer_kwargs": {"n_steps": 3}}])
def test_a_different_gamma_for_the_buffer_is_refused(options):
    options["replay_buffer_kwargs"] = options.get("replay_buffer_kwargs", {}) | {"gamma": 0.95}
    message = r"gamma must be 0\.95, as in replay_buffer_kwargs, or not be given there, got 0\.9"
    with pytest.raises(ValueError, match=message):
        model(make_vec_env(Rooms, 1, seed=0), gamma=0.9, **options)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_new_priorities_are_the_errors_of_the_targets(double, n_steps):
    trained = model(make_vec_env(Rooms, 1, seed=0), n_steps=n_steps, double=double, learning_rate=1e-30)
    trained.learn(200)
    for each in (trained.q_net, trained.q_net_target):  # so that the two networks choose different actions
        for weight in each.parameters():
            torch.nn.init.normal_(weight)
    buffer, drawn = trained.replay_buffer, []
    original = buffer.sample
    buffer.sample = lambda *args, **options: drawn.append(original(*args, **options)) or drawn[-1]
    trained.train(1, 64)
    (batch,) = drawn
    with torch.no_grad():
        values = trained.q_net_target(batch.next_observations).numpy()
        own = trained.q_net(batch.next_observations).numpy() if double else values
        predicted = trained.q_net(batch.observations).gather(1, batch.actions.long()).numpy()
    following = values[np.arange(64), own.argmax(axis=1)][:, None]
    discounts = trained.gamma if batch.discounts is None else batch.discounts.numpy()
    target = batch.rewards.numpy() + (1 - batch.dones.numpy()) * discounts * following
    leaves = (np.abs(predicted - target).ravel() + buffer.eps) ** buffer.alpha
    np.testing.assert_allclose(buffer._ring._get_leaves(batch.indexes), leaves, rtol=1e-4)
    assert trained.logger.name_to_value["train/mean_weight"] == pytest.approx(batch.weights.mean().item())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_steps": 0}, ValueError, "n_steps must be"),
        ({"n_steps": 2.5}, TypeError, "n_steps must be"),
        ({"gamma": -1}, ValueError, "gamma must be"),
        ({"normalize": "max"}, ValueError, "normalize must be 'buffer', 'batch' or None, got 'max'"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        sb3.PrioritizedReplayBuffer(10, BOX, BUTTONS, device="cpu", **options)


def test_beta_never_exceeds_1():
    trained = model(make_vec_env(Rooms, 3, seed=0))
    trained.learn(100)  # plays 102 steps
    assert trained.num_timesteps > 100
    assert trained.replay_buffer.beta == 1


@pytest.mark.parametrize(("beta", "error"), [(-1, ValueError), ("x", TypeError), (np.nan, ValueError)])
def test_a_wrong_beta_is_refused(beta, error):
    with pytest.raises(error, match="beta must be"):
        sb3.PrioritizedReplayBuffer(10, BOX, BUTTONS, device="cpu", beta=beta)


def test_a_file_with_another_buffer_is_refused(tmp_path):
    trained = model(make_vec_env(Rooms, 1, seed=0))
    before = trained.replay_buffer
    uniform = sb3.ReplayBuffer(10, trained.observation_space, trained.action_space, device="cpu")
    save_to_pkl(tmp_path / "uniform.pkl", uniform)
    with pytest.raises(TypeError, match="with a PrioritizedReplayBuffer, got a ReplayBuffer"):
        trained.load_replay_buffer(tmp_path / "uniform.pkl")
    assert trained.replay_buffer is before
