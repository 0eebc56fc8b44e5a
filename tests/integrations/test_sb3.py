"""What the buffers for Stable-Baselines3 store and draw."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN, SAC
from stable_baselines3.common import buffers as theirs
from stable_baselines3.common.env_util import make_vec_env

from cpprb_impl import sb3
from tests.integrations.tasks import Goals, Pictures

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
BUTTONS = spaces.Discrete(4)
STACK = spaces.Box(0, 255, (4, 84, 84), np.uint8)


def fill(buffers, steps, space=BOX, n_envs=2, seed=0):
    """Add the same steps to each buffer. The next observation of a step is the observation of the following step."""
    random = np.random.default_rng(seed)

    def draw(count=n_envs):
        if space.dtype == np.uint8:
            return random.integers(0, 255, (count, *space.shape), np.uint8)
        return random.normal(size=(count, *space.shape)).astype(space.dtype)

    obs = draw()
    for _ in range(steps):
        next_obs = draw()
        if space.dtype == np.uint8:
            next_obs[:, :-1] = obs[:, 1:]
        done = random.random(n_envs) < 0.2
        infos = [{"TimeLimit.truncated": bool(each and random.random() < 0.5)} for each in done]
        row = (obs, next_obs, random.integers(0, 4, (n_envs, 1)), random.normal(size=n_envs), done, infos)
        for buffer in buffers:
            buffer.add(*copy.deepcopy(row))
        obs = next_obs
        for n in np.flatnonzero(done):
            obs[n] = draw(1)[0]


def same(ours, expected):
    for one, other in zip(ours, expected, strict=True):
        if other is None:
            assert one is None
            continue
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def drawn(buffer, count=64, seed=1):
    np.random.seed(seed)
    return buffer.sample(count)


@pytest.mark.parametrize("timeouts", [False, True])
@pytest.mark.parametrize("frames_once", [False, True])
@pytest.mark.parametrize("steps", [1, 20, 47])
@pytest.mark.parametrize("space", [BOX, STACK])
def test_exact_samples_equal_those_of_the_original_buffer(space, steps, frames_once, timeouts):
    options = {"device": "cpu", "n_envs": 2, "handle_timeout_termination": timeouts}
    ours = sb3.ReplayBuffer(40, space, BUTTONS, optimize_memory_usage=frames_once, exact=True, **options)
    other = theirs.ReplayBuffer(40, space, BUTTONS, **options)
    fill([ours, other], steps, space)
    assert (ours.pos, ours.full, ours.size()) == (other.pos, other.full, other.size())
    same(drawn(ours), drawn(other))
    stored = slice(None, None if ours.full else ours.pos)
    for name in ("actions", "rewards", "dones", "timeouts"):
        np.testing.assert_array_equal(getattr(ours, name)[stored], getattr(other, name)[stored])


def test_draws_leave_numpys_generator_unchanged_unless_exact():
    np.random.seed(3)
    buffer = sb3.ReplayBuffer(100, BOX, BUTTONS, device="cpu", n_envs=2)
    fill([buffer], 30)
    before = np.random.get_state()[1].copy()
    first = buffer.sample(1000)
    np.testing.assert_array_equal(before, np.random.get_state()[1])
    np.random.seed(3)
    again = sb3.ReplayBuffer(100, BOX, BUTTONS, device="cpu", n_envs=2)
    fill([again], 30)
    same(again.sample(1000), first)
    assert len(np.unique(first.rewards)) == 60  # each stored row was drawn


def test_a_batch_is_not_a_view_of_the_buffer():
    buffer = sb3.ReplayBuffer(10, BOX, BUTTONS, device="cpu", n_envs=2, exact=True)
    fill([buffer], 5)
    batch = buffer.sample(8)
    kept = batch.observations.clone()
    fill([buffer], 5, seed=1)
    assert (batch.observations == kept).all()


def test_reset_removes_the_steps():
    ours = sb3.ReplayBuffer(40, BOX, BUTTONS, device="cpu", n_envs=2, exact=True)
    other = theirs.ReplayBuffer(40, BOX, BUTTONS, device="cpu", n_envs=2)
    fill([ours, other], 13)
    for buffer in (ours, other):
        buffer.reset()
    assert ours.size() == 0
    fill([ours, other], 7, seed=5)
    same(drawn(ours), drawn(other))


@pytest.mark.parametrize("frames_once", [False, True])
@pytest.mark.parametrize("steps", [9, 33])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_a_copy_continues_like_the_buffer(copied, steps, frames_once):
    buffer = sb3.ReplayBuffer(40, BOX, BUTTONS, device="cpu", n_envs=2, optimize_memory_usage=frames_once, exact=True)
    fill([buffer], steps)
    other = copied(buffer)
    same(drawn(other), drawn(buffer))
    fill([buffer, other], 5, seed=2)
    same(drawn(other), drawn(buffer))
    other.dones[0] = 1  # writes through a view of the copy's own memory
    assert (drawn(other, 1000).dones != drawn(buffer, 1000).dones).any()


def test_a_file_grows_with_the_number_of_stored_steps(tmp_path):
    def saved(n_steps):
        model = DQN(
            "CnnPolicy",
            Pictures(),
            buffer_size=5000,
            replay_buffer_class=sb3.ReplayBuffer,
            device="cpu",
            optimize_memory_usage=True,
            learning_starts=10**6,
        )
        model.learn(n_steps)
        path = tmp_path / f"{n_steps}.pkl"
        model.save_replay_buffer(path)
        return model, path

    model, path = saved(200)
    frame = 36 * 36
    assert path.stat().st_size < 200 * frame * 1.5 + 100_000 < 5000 * frame
    loaded = DQN("CnnPolicy", Pictures(), replay_buffer_class=sb3.ReplayBuffer, device="cpu")
    loaded.load_replay_buffer(path)
    assert loaded.replay_buffer.size() == 200
    same(loaded.replay_buffer.sample(50), model.replay_buffer.sample(50))
    loaded.learning_starts = 0
    loaded.learn(50)
    assert loaded._n_updates > 0


def test_hindsight_buffers_continue_after_saving_and_loading(tmp_path):
    def model():
        return SAC(
            "MultiInputPolicy",
            make_vec_env(Goals, 2, seed=0),
            replay_buffer_class=sb3.HerReplayBuffer,
            buffer_size=5000,
            learning_starts=100,
            seed=0,
            device="cpu",
            optimize_memory_usage=True,
        )

    one = model()
    one.learn(300)
    one.save_replay_buffer(tmp_path / "her.pkl")
    assert (
        tmp_path / "her.pkl"
    ).stat().st_size < 400_000  # most of it is the lengths of episodes, an array of Stable-Baselines3
    other = model()
    other.load_replay_buffer(tmp_path / "her.pkl", truncate_last_traj=False)
    np.random.seed(0)
    first = one.replay_buffer.sample(20)
    np.random.seed(0)
    again = other.replay_buffer.sample(20)
    for name, part in first.observations.items():
        np.testing.assert_array_equal(part, again.observations[name])
    other.learn(100)


def test_frames_of_several_environments_are_stored_once():
    buffer = sb3.ReplayBuffer(800, STACK, BUTTONS, device="cpu", n_envs=8, optimize_memory_usage=True)
    fill([buffer], 100, STACK, n_envs=8)
    per_step = buffer.nbytes / 800
    # One frame per step, and a whole stack of 4 after each end of an episode; a fifth of the steps here are ends.
    assert 84 * 84 < per_step < 84 * 84 * 2.2


def test_compressed_frames_take_less_memory():
    def stored(compress):
        options = {"optimize_memory_usage": True, "replay_buffer_kwargs": {"compress": compress}}
        buffers = {"replay_buffer_class": sb3.ReplayBuffer, "buffer_size": 300, **options}
        return DQN("CnnPolicy", Pictures(), device="cpu", learning_starts=1000, **buffers).learn(300).replay_buffer

    plain, compressed = stored(None), stored("lz4")
    assert compressed.nbytes < plain.nbytes / 2


@pytest.mark.parametrize(
    ("space", "options", "message"),
    [
        (STACK, {}, "compress must be None without optimize_memory_usage"),
        (BOX, {"optimize_memory_usage": True}, "compress needs a stack of frames, and none was found: pass stack_axis"),
    ],
    ids=["stored twice", "no image"],
)
def test_only_images_that_are_stored_once_can_be_compressed(space, options, message):
    with pytest.raises(ValueError, match=message):
        sb3.ReplayBuffer(10, space, BUTTONS, device="cpu", compress="lz4", **options)


def test_a_wrong_shape_leaves_the_buffer_unchanged():
    buffer = sb3.ReplayBuffer(10, BOX, BUTTONS, device="cpu", n_envs=2)
    fill([buffer], 3)
    wrong = np.zeros((2, 4), np.float32)
    with pytest.raises(ValueError, match="obs"):
        buffer.add(wrong, wrong, np.zeros((2, 1)), np.zeros(2), np.zeros(2), [{}, {}])
    assert buffer.size() == 3
    with pytest.raises(ValueError, match="rows"):
        buffer.add(wrong[:, :3], wrong[:, :3], np.zeros((3, 1)), np.zeros(2), np.zeros(2), [{}, {}])
    assert buffer.size() == 3


@pytest.mark.parametrize(
    "key", [0, (slice(None), 0), (0, 0, slice(0, 1)), (0, -1), (0, 2), ([0], [[0], [2]])], ids=lambda key: str(key)
)
def test_observations_stored_once_are_read_by_step_and_environment_only(key):
    buffer = sb3.ReplayBuffer(10, BOX, BUTTONS, device="cpu", n_envs=2, optimize_memory_usage=True)
    fill([buffer], 3)
    assert buffer.observations[[0, 2], 1, :].shape == (2, 3)
    with pytest.raises(IndexError, match="environments"):
        buffer.observations[key]


def test_observations_stored_once_are_not_an_array():
    buffer = sb3.ReplayBuffer(10, BOX, BUTTONS, device="cpu", optimize_memory_usage=True)
    with pytest.raises(TypeError, match="is not an array"):
        np.asarray(buffer.observations)
    with pytest.raises(TypeError, match="not iterable"):
        list(buffer.observations)


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("shape", [(2, 84, 84, 4), (2, 4, 84 * 84), (8, 84, 84)], ids=str)
def test_an_image_with_its_axes_in_a_different_order_is_refused(shape, once):
    buffer = sb3.ReplayBuffer(10, STACK, BUTTONS, device="cpu", n_envs=2, optimize_memory_usage=once)
    right, wrong = np.zeros((2, 4, 84, 84), np.uint8), np.zeros(shape, np.uint8)
    for what, pair in (("obs", (wrong, right)), ("next_obs", (right, wrong))):
        with pytest.raises(ValueError, match=f"^{what} must have the shape"):
            buffer.add(*pair, np.zeros((2, 1)), np.zeros(2), np.zeros(2), [{}, {}])
    with pytest.raises(ValueError, match="done must have the shape"):
        buffer.add(right, right, np.zeros((2, 1)), np.zeros(2), np.zeros((2, 1)), [{}, {}])
    assert buffer.size() == 0


@pytest.mark.parametrize("kind", [sb3.ReplayBuffer, sb3.PrioritizedReplayBuffer])
def test_two_buffers_draw_independently(kind):
    np.random.seed(3)
    buffers = [kind(100, BOX, BUTTONS, device="cpu", n_envs=2) for _ in range(2)]
    fill(buffers, 30)
    first, second = (buffer.sample(50).rewards for buffer in buffers)
    assert (first != second).any()


def test_n_step_buffers_refuse_the_option_exact():
    with pytest.raises(TypeError, match="exact must not be given"):
        sb3.NStepReplayBuffer(10, BOX, BUTTONS, device="cpu", exact=False)


@pytest.mark.parametrize(("n_steps", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("3", TypeError)])
def test_a_wrong_number_of_steps_is_refused_at_construction(n_steps, error):
    with pytest.raises(error, match="n_steps"):
        sb3.NStepReplayBuffer(10, BOX, BUTTONS, device="cpu", n_steps=n_steps)


def test_n_step_returns_of_dicts_are_refused_at_construction():
    parts = spaces.Dict({"a": BOX, "b": BOX})
    with pytest.raises(NotImplementedError, match="must not be a Dict with n-step returns"):
        sb3.NStepReplayBuffer(10, parts, BUTTONS, device="cpu")


def test_constructing_an_exact_buffer_does_not_draw_from_numpys_generator():
    before = np.random.get_state()[1].copy()
    assert sb3.NStepReplayBuffer(10, BOX, BUTTONS, device="cpu", n_steps=3).exact
    sb3.ReplayBuffer(10, BOX, BUTTONS, device="cpu", exact=True)
    np.testing.assert_array_equal(before, np.random.get_state()[1])


def test_sampling_an_empty_buffer_is_an_error():
    with pytest.raises(ValueError, match="empty"):
        sb3.ReplayBuffer(10, BOX, BUTTONS, device="cpu").sample(4)
