"""The buffer for CleanRL's scripts agrees with the buffer of Stable-Baselines3, from which CleanRL's is copied."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3.common.buffers import ReplayBuffer as Theirs
from torch import nn

from cpprb_impl.cleanrl import ReplayBuffer
from tests.integrations.tasks import Pictures
from tests.integrations.test_sb3 import BOX, BUTTONS, STACK, drawn, fill, same

NO_TIMEOUTS = {"device": "cpu", "handle_timeout_termination": False}


@pytest.mark.parametrize("timeouts", [False, True])
@pytest.mark.parametrize("n_envs", [1, 2])
@pytest.mark.parametrize("steps", [1, 20, 47])
@pytest.mark.parametrize("space", [BOX, STACK])
def test_exact_samples_equal_those_of_the_original_buffer(space, steps, n_envs, timeouts):
    options = {"device": "cpu", "n_envs": n_envs, "handle_timeout_termination": timeouts}
    ours, other = ReplayBuffer(40, space, BUTTONS, exact=True, **options), Theirs(40, space, BUTTONS, **options)
    fill([ours, other], steps, space, n_envs)
    assert (ours.pos, ours.full, ours.size()) == (other.pos, other.full, other.size())
    same(drawn(ours), drawn(other)[:5])


@pytest.mark.parametrize("n_envs", [1, 2])
@pytest.mark.parametrize("steps", [1, 20, 47])
@pytest.mark.parametrize("space", [BOX, STACK])
def test_frames_stored_once_return_the_added_next_observations(space, steps, n_envs):
    options = NO_TIMEOUTS | {"n_envs": n_envs}
    ours = ReplayBuffer(40, space, BUTTONS, optimize_memory_usage=True, exact=True, **options)
    other = Theirs(40, space, BUTTONS, optimize_memory_usage=True, **options)
    added = Theirs(1000, space, BUTTONS, **options)
    fill([ours, other, added], steps, space, n_envs)
    batch, expected = drawn(ours), drawn(other)[:5]
    same(batch._replace(next_observations=expected[2]), expected)  # the original is wrong where an episode ends
    step_of = {reward: step for step, reward in np.ndenumerate(added.rewards)}
    for reward, next_obs in zip(batch.rewards.ravel().tolist(), batch.next_observations, strict=True):
        np.testing.assert_array_equal(next_obs, added.next_observations[step_of[np.float32(reward)]])


def test_time_limits_are_handled_with_frames_stored_once():
    ours = ReplayBuffer(40, BOX, BUTTONS, "cpu", 2, optimize_memory_usage=True, exact=True)
    other = Theirs(40, BOX, BUTTONS, "cpu", 2)
    fill([ours, other], 19)
    same(drawn(ours), drawn(other)[:5])


def test_frames_are_stored_once():
    buffer = ReplayBuffer(400, STACK, BUTTONS, "cpu", 4, optimize_memory_usage=True)
    fill([buffer], 100, STACK, n_envs=4)
    # One frame per step, and a whole stack of 4 after each end of an episode; a fifth of the steps here are ends.
    assert 84 * 84 < buffer.nbytes / 400 < 84 * 84 * 2.2


def test_compressed_frames_are_the_same_and_take_less_memory():
    plain, compressed = (
        ReplayBuffer(400, STACK, BUTTONS, "cpu", optimize_memory_usage=True, exact=True, compress=compress)
        for compress in (None, "lz4")
    )
    zeros = np.zeros((1, *STACK.shape), np.uint8)
    for _ in range(300):
        for buffer in (plain, compressed):
            buffer.add(zeros, zeros + 1, np.array([1]), np.zeros(1), np.zeros(1), [{}])
    assert compressed.nbytes < plain.nbytes / 2
    same(drawn(compressed), drawn(plain))


class Network(nn.Sequential):
    def __init__(self, envs):
        n_inputs = int(np.prod(envs.single_observation_space.shape))
        super().__init__(nn.Flatten(), nn.Linear(n_inputs, 16), nn.ReLU(), nn.Linear(16, 2))


def losses(make_env, buffer_class, size, steps=400, **options):
    """Return the losses of a DQN that is written like CleanRL's."""
    random = np.random.default_rng(0)
    np.random.seed(0)
    torch.manual_seed(0)
    envs = SyncVectorEnv([make_env], autoreset_mode=AutoresetMode.SAME_STEP)
    network, target = Network(envs), Network(envs)
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    rb = buffer_class(size, envs.single_observation_space, envs.single_action_space, **NO_TIMEOUTS, **options)
    found = []
    obs, _ = envs.reset(seed=0)
    for step in range(steps):
        actions = random.integers(0, 2, 1)
        if random.random() > 0.3:
            actions = network(torch.Tensor(obs)).argmax(dim=1).numpy()
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)
        real_next_obs = next_obs.copy()
        for i in np.flatnonzero(truncations):
            real_next_obs[i] = infos["final_obs"][i]
        rb.add(obs, real_next_obs, actions, rewards, terminations, infos)
        obs = next_obs
        if step < 50:
            continue
        data = rb.sample(16)
        with torch.no_grad():
            best = target(data.next_observations.float()).max(dim=1).values
            wanted = data.rewards.flatten() + 0.99 * best * (1 - data.dones.flatten())
        loss = nn.functional.mse_loss(wanted, network(data.observations.float()).gather(1, data.actions).squeeze())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
        if step % 50 == 0:
            target.load_state_dict(network.state_dict())
    return found


def cart_pole():
    return gym.make("CartPole-v1")


@pytest.mark.parametrize(
    ("make_env", "size", "theirs"),
    [
        pytest.param(cart_pole, 200, {}, id="rows"),
        pytest.param(cart_pole, 200, {"optimize_memory_usage": True}, id="rows stored once"),
        # Episodes reach a time limit, where the original memory-optimized buffer has wrong next observations.
        pytest.param(Pictures, 1000, {}, id="frames stored once"),
    ],
)
def test_a_training_with_our_buffer_has_the_same_losses(make_env, size, theirs):
    once = bool(theirs) or make_env is Pictures
    found = losses(make_env, ReplayBuffer, size, optimize_memory_usage=once, exact=True)
    assert found == losses(make_env, Theirs, size, **theirs)
    assert found != losses(make_env, ReplayBuffer, size, optimize_memory_usage=once)


def test_unless_exact_our_generator_draws_with_a_seed_from_numpys_generator():
    def first(seed):
        np.random.seed(seed)
        buffer = ReplayBuffer(100, BOX, BUTTONS, "cpu", 2)
        fill([buffer], 30)
        before = np.random.get_state()[1].copy()
        batch = buffer.sample(1000)
        np.testing.assert_array_equal(before, np.random.get_state()[1])
        return batch

    one = first(3)
    same(first(3), one)
    assert (first(4).rewards != one.rewards).any()
    assert len(np.unique(one.rewards)) == 60  # each stored step was drawn


def test_a_batch_is_not_a_view_of_the_buffer():
    buffer = ReplayBuffer(10, BOX, BUTTONS, "cpu", 2, exact=True)
    fill([buffer], 5)
    batch = buffer.sample(8)
    kept = batch.observations.clone()
    fill([buffer], 5, seed=1)
    assert (batch.observations == kept).all()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_a_copy_continues_like_the_buffer(copied):
    buffer = ReplayBuffer(40, STACK, BUTTONS, "cpu", 2, optimize_memory_usage=True)
    fill([buffer], 13, STACK)
    other = copied(buffer)
    fill([buffer, other], 12, STACK, seed=2)
    same(other.sample(30), buffer.sample(30))


def test_reset_removes_the_steps():
    buffer = ReplayBuffer(10, BOX, BUTTONS, "cpu", 2)
    fill([buffer], 7)
    buffer.reset()
    assert (buffer.size(), buffer.pos, buffer.full) == (0, 0, False)
    for exact in (False, True):
        buffer.exact = exact
        with pytest.raises(ValueError, match="empty"):
            buffer.sample(1)


def test_spaces_are_recognized_by_their_attributes():
    """The spaces of Gym are different classes."""
    box, number = SimpleNamespace(shape=(2, 3), dtype=np.float64), SimpleNamespace(shape=(), dtype=np.int64, n=4)
    buffer = ReplayBuffer(10, number, box, n_envs=2, **NO_TIMEOUTS)
    action = np.arange(12.0).reshape(2, 2, 3)
    buffer.add(np.array([1, 2]), np.array([2, 3]), action, np.array([0.5, 1.5]), np.array([False, True]), {})
    batch = buffer.sample(30)
    assert batch.observations.shape == (30, 1) and batch.actions.shape == (30, 6)
    assert batch.observations.dtype == torch.int64 and batch.actions.dtype == torch.float32
    second = batch.dones.ravel().bool()
    assert (batch.actions[second] == torch.arange(6.0, 12)).all() and (batch.next_observations[second] == 3).all()


def test_observations_may_be_dicts():
    space = spaces.Dict({"a": BOX, "b": BUTTONS})
    buffer = ReplayBuffer(10, space, BUTTONS, optimize_memory_usage=True, **NO_TIMEOUTS)
    seen = {"a": np.ones((1, 3), np.float32), "b": np.array([2])}
    buffer.add(seen, seen, np.array([1]), np.zeros(1), np.zeros(1), {})
    batch = buffer.sample(4)
    assert batch.observations["a"].shape == (4, 3) and (batch.next_observations["b"] == 2).all()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["auto", "cuda", torch.device("cuda:1")])
def test_the_cpu_is_used_if_there_is_no_gpu(device):
    buffer = ReplayBuffer(10, BOX, BUTTONS, device)
    fill([buffer], 3, n_envs=1)
    assert buffer.sample(2).observations.device == torch.device("cpu")


def row(n_envs=2, n_numbers=3):
    obs = np.zeros((n_envs, n_numbers), np.float32)
    return [obs, obs, np.zeros(n_envs, int), np.zeros(n_envs), np.zeros(n_envs), [{}] * n_envs]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (row(n_numbers=4), r"obs must have the shape \(2, 3\), got \(2, 4\)"),
        (row(n_envs=4), r"reward must have the shape \(2,\), got \(4,\)"),
        ([*row()[:2], np.zeros(3, int), *row()[3:]], "rows"),
        ([*row()[:5], [{}] * 3], r"infos must have one dict per environment \(2\), got 3"),
        ([*row()[:5], []], r"infos must have one dict per environment \(2\), got 0"),
        ([*row()[:5], None], "infos must be a sequence of one dict per environment, got NoneType"),
        ([*row()[:5], {"final_info": [None]}], "infos must be a sequence of one dict per environment, got a dict"),
    ],
)
def test_a_wrong_step_is_refused_and_not_stored(wrong, message):
    buffer = ReplayBuffer(10, BOX, BUTTONS, "cpu", 2)
    fill([buffer], 3)
    with pytest.raises((ValueError, TypeError), match=message):
        buffer.add(*wrong)
    assert (buffer.size(), buffer._ring.get_stored_size()) == (3, 6)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((10, spaces.Tuple([BOX]), BUTTONS), NotImplementedError, "observation_space must be a Box"),
        (
            (10, spaces.Dict({"a": spaces.Dict({"b": BOX})}), BUTTONS),
            NotImplementedError,
            r"observation_space\['a'\] must",
        ),
        ((10, BOX, spaces.Dict({"a": BUTTONS})), NotImplementedError, "action_space must be a Box"),
        ((0, BOX, BUTTONS), ValueError, "buffer_size must be at least 1"),
        ((10, BOX, BUTTONS, "cpu", 0), ValueError, "n_envs must be at least 1"),
        ((10, BOX, BUTTONS, "cpu", None), TypeError, "n_envs must be a number"),
        ((10, BOX, BUTTONS, "cpu", 1, True, True), ValueError, "compress needs a stack of frames"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        ReplayBuffer(*arguments, compress="lz4" if "compress" in message else None)
