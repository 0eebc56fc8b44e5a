"""Single episodes can be read and deleted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import cpprb_impl
from cpprb_impl import SelectiveReplayBuffer

NAMES = ("obs", "act", "rew", "next_obs", "done")


def rows(first, dones, obs_dim=1):
    """Return transitions number first, first + 1, ..., with episodes that end where `dones` is set."""
    number = np.arange(first, first + len(dones), dtype=np.float64)
    obs = np.repeat(number[:, None], obs_dim, axis=1)
    return obs, number + 0.25, -number, obs + 1, np.array(dones, dtype=np.float64)


def episodes(buffer):
    return [buffer.get_episode(i)["obs"][:, 0].tolist() for i in range(buffer.get_stored_episode_size())]


def sizes(buffer):
    return (
        buffer.get_stored_size(),
        buffer.get_next_index(),
        buffer.get_stored_episode_size(),
        buffer.get_buffer_size(),
    )


@pytest.fixture
def buffer():
    made = SelectiveReplayBuffer(5, Nepisodes=2)
    made.add(*rows(0, [0, 1]))
    made.add(*rows(2, [0, 0, 1, 0]))
    return made


def test_episodes_and_sizes_are_counted(buffer):
    assert episodes(buffer) == [[0, 1], [2, 3, 4], [5]]
    assert sizes(buffer) == (6, 6, 3, 10)
    episode = buffer.get_episode(1)
    assert list(episode) == list(NAMES)
    assert {column.dtype for column in episode.values()} == {np.dtype(np.float64)}
    for name, wanted in zip(NAMES, rows(2, [0, 0, 1]), strict=True):
        assert np.array_equal(episode[name].reshape(wanted.shape), wanted)


def test_an_episode_is_a_copy(buffer):
    buffer.get_episode(0)["obs"][:] = 77
    assert episodes(buffer)[0] == [0, 1]


@pytest.mark.parametrize(("which", "left"), [(0, [[2, 3, 4], [5]]), (1, [[0, 1], [5]]), (2, [[0, 1], [2, 3, 4]])])
def test_deleting_an_episode_removes_its_rows(buffer, which, left):
    gone = len(episodes(buffer)[which])
    assert buffer.delete_episode(which) == gone
    assert episodes(buffer) == left
    buffer.add(*rows(6, [0, 1]))
    last = [5, 6, 7] if which < 2 else [6, 7]  # an unfinished episode continues
    assert episodes(buffer) == ([*left[:-1], last] if which < 2 else [*left, last])


def test_deleting_a_missing_episode_is_refused(buffer):
    assert buffer.delete_episode(3) == 0
    assert buffer.delete_episode(10**30) == 0
    assert {name: column.shape for name, column in buffer.get_episode(3).items()} == dict.fromkeys(NAMES, (0, 1))
    for call in (buffer.delete_episode, buffer.get_episode):
        with pytest.raises(IndexError, match="-1"):
            call(-1)
        with pytest.raises(TypeError):
            call("first")
    assert episodes(buffer) == [[0, 1], [2, 3, 4], [5]]


def test_a_full_buffer_drops_until_an_episode_is_deleted(buffer):
    assert buffer.add(*rows(6, [0, 0, 1, 0, 0, 1])) == 6
    assert sizes(buffer) == (10, 10, 4, 10)
    assert episodes(buffer) == [[0, 1], [2, 3, 4], [5, 6, 7, 8], [9]]
    assert buffer.add(*rows(20, [1])) == buffer.get_buffer_size()
    assert episodes(buffer)[-1] == [9]
    assert buffer.delete_episode(0) == 2
    assert buffer.add(*rows(20, [1, 1, 1])) == 8
    assert episodes(buffer) == [[2, 3, 4], [5, 6, 7, 8], [9, 20], [21]]


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("obs_dim", [1, 3])
def test_episodes_agree_with_cpprb(seed, obs_dim):
    cpprb = pytest.importorskip("cpprb")
    rng = np.random.default_rng(seed)
    length, count = int(rng.integers(1, 8)), int(rng.integers(1, 6))
    theirs, ours = (m.SelectiveReplayBuffer(length, obs_dim, Nepisodes=count) for m in (cpprb, cpprb_impl))
    added = 0
    for _ in range(80):
        if rng.random() < 0.25:
            which = int(rng.integers(0, 6))
            assert ours.delete_episode(which) == theirs.delete_episode(which)
        else:
            ends = np.zeros(int(rng.integers(1, 6)))
            if rng.random() < 0.6:  # at most one end per call; the next test shows what cpprb does otherwise
                ends[rng.integers(0, len(ends))] = 1
            batch = rows(added, ends, obs_dim)
            by_name = dict(zip(NAMES, batch, strict=True))
            assert ours.add(**by_name) == theirs.add(*batch)
            added += len(batch[0])
        assert sizes(ours) == sizes(theirs)
        for i in range(ours.get_stored_episode_size()):
            mine, his = ours.get_episode(i), theirs.get_episode(i)
            assert list(mine) == list(his)
            for name in NAMES:
                assert mine[name].shape == his[name].shape and mine[name].dtype == his[name].dtype
                assert np.array_equal(mine[name], his[name])
    assert added > 50
    theirs.clear(), ours.clear()
    assert sizes(ours) == sizes(theirs) == (0, 0, 0, length * count)


def test_a_batch_may_contain_two_episode_ends():
    """cpprb 11.0.0 sees only the first end, and joins everything after it into one episode."""
    cpprb = pytest.importorskip("cpprb")
    theirs, ours = (module.SelectiveReplayBuffer(5, Nepisodes=2) for module in (cpprb, cpprb_impl))
    for buffer in (theirs, ours):
        buffer.add(*rows(0, [1, 0, 0, 1, 0]))
    assert episodes(theirs) == [[0], [1, 2, 3, 4]]
    assert episodes(ours) == [[0], [1, 2, 3], [4]]


def test_one_row_can_be_added_by_position_or_name_or_as_scalars():
    buffer = SelectiveReplayBuffer(3)
    assert buffer.add(1, 2, 3, 4, 0) == 0
    assert buffer.add(5, 6, rew=7, next_obs=8, done=True) == 1
    assert {name: column.ravel().tolist() for name, column in buffer.get_episode(0).items()} == {
        "obs": [1, 5],
        "act": [2, 6],
        "rew": [3, 7],
        "next_obs": [4, 8],
        "done": [0, 1],
    }
    assert buffer.get_stored_episode_size() == 1


def test_samples_are_uniform():
    made = SelectiveReplayBuffer(5, Nepisodes=2, seed=3)
    made.add(*rows(0, [0, 1, 0, 0, 1, 0]))
    counts = np.bincount(made.sample(60_000)["obs"].astype(int).ravel(), minlength=6)
    assert counts.sum() == 60_000 and stats.chisquare(counts).pvalue > 1e-6
    with pytest.raises(ValueError, match="empty"):
        SelectiveReplayBuffer(5).sample(1)


def test_a_seed_repeats_the_samples():
    def draws(seed):
        buffer = SelectiveReplayBuffer(50, seed=seed)
        buffer.add(*rows(0, np.zeros(400)))
        return buffer.sample(20)["obs"].ravel().tolist()

    assert draws(1) == draws(1) != draws(2)


def test_shapes_and_discrete_actions_are_supported():
    buffer = SelectiveReplayBuffer(4, 7, 3, Nepisodes=2, rew_dim=2, obs_shape=(2, 3), is_discrete_action=True)
    buffer.add(np.ones((2, 3)), [1, 2, 3], [1, 2], np.ones((2, 3)), 0)
    batch = buffer.sample(5)
    assert {name: column.shape for name, column in batch.items()} == {
        "obs": (5, 2, 3),
        "act": (5, 3),
        "rew": (5, 2),
        "next_obs": (5, 2, 3),
        "done": (5, 1),
    }
    assert batch["act"].dtype == np.int64
    assert (buffer.get_obs_shape(), buffer.get_obs_dim(), buffer.get_act_dim(), buffer.get_rew_dim()) == (
        (2, 3),
        6,
        3,
        2,
    )
    assert SelectiveReplayBuffer(4, 7).get_obs_shape() is None
    assert buffer._encode_sample([0, 0])["rew"].tolist() == [[1, 2], [1, 2]]
    assert buffer._encode_sample(0)["rew"].tolist() == [1, 2]  # as in cpprb, whose other buffers keep this axis


@pytest.mark.parametrize("count", [1, 4, 5])  # these fit, fill the buffer, or are too many
@pytest.mark.parametrize("field", NAMES)
def test_a_bad_add_names_the_field_and_changes_nothing(buffer, count, field):
    good = dict(zip(NAMES, rows(6, [1] * count), strict=True))
    for bad in (np.zeros(count + 1), [[1.0], [1.0, 2.0]]):
        with pytest.raises(ValueError, match=field):
            buffer.add(**{**good, field: bad})
    assert episodes(buffer) == [[0, 1], [2, 3, 4], [5]]
    with pytest.raises(TypeError, match="done"):
        buffer.add(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [((0,), {}, "episode_len"), ((-1,), {}, "episode_len"), ((5,), {"Nepisodes": 0}, "Nepisodes")],
)
def test_bad_sizes_are_refused(args, kwargs, says):
    with pytest.raises(ValueError, match=says):
        SelectiveReplayBuffer(*args, **kwargs)
    with pytest.raises(TypeError, match="episode_len"):
        SelectiveReplayBuffer("long")
