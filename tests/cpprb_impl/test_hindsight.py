"""Hindsight: episodes are stored again with goals that were reached (Andrychowicz et al. 2017)."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import cpprb_impl
from cpprb_impl import HindsightReplayBuffer, PrioritizedReplayBuffer

FIELDS = {"obs": {"shape": 2}, "act": {"dtype": np.int32}, "next_obs": {"shape": 2}}
STRATEGIES = ["future", "episode", "random", "final"]


def reward(next_states, actions, goals):
    """Return a number that shows which row of each argument was passed."""
    return next_states[:, 0] * 1000 + actions.ravel() * 100 + goals[:, 0]


def make(size=1000, max_episode_len=50, reward_func=reward, fields=FIELDS, **options):
    return HindsightReplayBuffer(size, fields, max_episode_len, reward_func, **options)


def steps(first, count):
    """Return steps numbered from `first`; the next state of a step is its number plus one."""
    number = np.arange(first, first + count)
    pair = np.stack([number, -number], axis=1)
    return {"obs": pair, "act": number % 5, "next_obs": np.stack([number + 1, -number - 1], axis=1)}


def run_episode(buffer, first, count, goal=(-1, -1)):
    buffer.add(**steps(first, count))
    buffer.on_episode_end(goal)


def check_rows(rows):
    number = rows["obs"][:, 0]
    assert (rows["next_obs"][:, 0] == number + 1).all() and (rows["next_obs"][:, 1] == -number - 1).all()
    assert (rows["act"].ravel() == number % 5).all()
    assert rows["rew"].ravel() == pytest.approx(reward(rows["next_obs"], rows["act"], rows["goal"]))


def test_rewards_are_computed_by_one_call_per_episode():
    calls = []

    def watched(next_states, actions, goals):
        calls.append((next_states.shape, actions.shape, goals.shape))
        return reward(next_states, actions, goals)

    buffer = make(reward_func=watched, additional_goals=3)
    run_episode(buffer, 0, 7)
    assert calls == [((28, 2), (28, 1), (28, 2))]


def test_goals_may_have_a_different_shape_from_observations():
    buffer = make(
        reward_func=lambda states, actions, goals: states.sum(axis=1) == goals.ravel(),
        goal_func=lambda states: states.sum(axis=1),
        goal_shape=1,
        strategy="final",
    )
    run_episode(buffer, 0, 3, goal=9)
    assert buffer.get_all_transitions()["goal"].tolist() == [[9], [9], [9], [0], [0], [0]]


def test_each_step_can_have_its_own_goal():
    buffer = make(strategy="final")
    run_episode(buffer, 0, 2, goal=[[1, 2], [3, 4]])
    assert buffer.get_all_transitions()["goal"].tolist() == [[1, 2], [3, 4], [2, -2], [2, -2]]


def test_a_seed_makes_goals_and_samples_reproducible():
    batches = []
    for seed in (1, 1, 2):
        buffer = make(seed=seed)
        run_episode(buffer, 0, 20)
        batches.append((buffer.get_all_transitions()["goal"], buffer.sample(16)["obs"]))
    assert all(np.array_equal(a, b) for a, b in zip(batches[0], batches[1], strict=True))
    assert not np.array_equal(batches[0][0], batches[2][0])


def test_hindsight_works_with_and_without_priorities():
    buffer = make(strategy="final")
    run_episode(buffer, 0, 4)
    assert isinstance(buffer.rb, PrioritizedReplayBuffer)
    batch = buffer.sample(8, beta=1.0)
    buffer.update_priorities(batch["indexes"], np.full(8, 7.0))
    assert buffer.get_max_priority() == 7
    buffer.sample(8, 0.5)
    plain = make(prioritized=False)
    run_episode(plain, 0, 4)
    assert set(plain.sample(3)) == {*FIELDS, "rew", "goal"}
    with pytest.raises(ValueError, match="prioritized"):
        plain.update_priorities([0], [1.0])
    with pytest.raises(ValueError, match="prioritized"):
        plain.get_max_priority()


def test_priorities_are_refused_by_add():
    """cpprb ignores such priorities. The copies of a step have their own goals, and therefore their own TD errors."""
    buffer = make()
    with pytest.raises(ValueError, match="priorities must not be given to add"):
        buffer.add(**steps(0, 2), priorities=[1.0, 2.0])
    buffer.add(**steps(0, 2), priorities=None)
    plain = make(prioritized=False)
    plain.add(**steps(0, 2), priorities=[1.0, 2.0])  # accepted, as by ReplayBuffer
    for each in (buffer, plain):
        each.on_episode_end((-1, -1))
        assert each.get_stored_size() == 10


@pytest.mark.parametrize("prioritized", [False, True])
def test_sequences_are_refused(prioritized):
    with pytest.raises(ValueError, match=r"sequences must be None, got \{'size': 3\}: HindsightReplayBuffer"):
        make(prioritized=prioritized, sequences={"size": 3})


def test_episodes_that_are_too_long_are_refused_whole():
    """cpprb checks the length only before it adds, so that a batch can overwrite the beginning of the episode."""
    buffer = make(max_episode_len=5, strategy="final")
    buffer.add(**steps(0, 3))
    with pytest.raises(ValueError, match="max_episode_len"):
        buffer.add(**steps(3, 3))
    buffer.add(**steps(3, 2))
    with pytest.raises(ValueError, match="max_episode_len"):
        buffer.add(**steps(5, 1))
    buffer.on_episode_end((-1, -1))
    rows = buffer.get_all_transitions()
    check_rows(rows)
    assert rows["obs"][:, 0].tolist() == [0, 1, 2, 3, 4] * 2


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [({"obs": np.zeros((2, 3))}, ValueError, "obs"), ({"act": [1, 2, 3]}, ValueError, "act")],
)
def test_a_failed_add_changes_nothing(change, error, text):
    buffer = make(strategy="final")
    buffer.add(**steps(0, 2))
    with pytest.raises(error, match=text):
        buffer.add(**{**steps(2, 2), **change})
    with pytest.raises(KeyError, match="act"):
        buffer.add(obs=[1, 2], next_obs=[1, 2])
    buffer.add(**steps(2, 1), done=False, unknown=object())
    buffer.on_episode_end((-1, -1))
    assert buffer.get_all_transitions()["obs"][:, 0].tolist() == [0, 1, 2] * 2


@pytest.mark.parametrize(
    ("broken", "goal", "text"),
    [
        ({}, (1, 2, 3), "goal"),
        ({"reward_func": lambda *_: np.zeros(7)}, (0, 0), "reward_func"),
        ({"reward_func": lambda *_: 0.0}, (0, 0), "reward_func"),
        ({"reward_func": lambda states, *_: states}, (0, 0), "reward_func"),
        ({"goal_func": lambda states: states[1:]}, (0, 0), "goal_func"),
        ({"goal_func": lambda states: states[:, :1]}, (0, 0), "goal_func"),
    ],
)
def test_an_episode_that_cannot_be_stored_remains_pending(broken, goal, text):
    buffer = make(**broken)
    buffer.add(**steps(0, 3))
    with pytest.raises(ValueError, match=text):
        buffer.on_episode_end(goal)
    assert buffer.get_stored_size() == 0
    buffer.reward_func, buffer.goal_func = reward, lambda states: states
    buffer.on_episode_end((-1, -1))
    rows = buffer.get_all_transitions()
    assert len(rows["obs"]) == 15
    check_rows(rows)


def test_clear_discards_the_pending_episode():
    buffer = make()
    run_episode(buffer, 0, 3)
    buffer.add(**steps(3, 2))
    buffer.clear()
    buffer.on_episode_end((0, 0))
    assert buffer.get_stored_size() == 0
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"strategy": "past"}, ValueError, "past"),
        ({"additional_goals": -1}, ValueError, "additional_goals"),
        ({"additional_goals": 1.5}, TypeError, "additional_goals"),
        ({"max_episode_len": 0}, ValueError, "max_episode_len"),
        ({"state": "s"}, KeyError, "'s'"),
        ({"action": "a"}, KeyError, "'a'"),
        ({"next_state": "n"}, KeyError, "'n'"),
        ({"fields": {**FIELDS, "rew": {}}}, ValueError, "rew"),
        ({"fields": {**FIELDS, "goal": {}}}, ValueError, "goal"),
        ({"additonal_goals": 2}, TypeError, "additonal_goals"),
    ],
)
def test_bad_options_are_refused(options, error, text):
    with pytest.raises(error, match=text):
        make(**options)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_copies_continue_like_the_original(copied):
    buffer = make(seed=3)
    run_episode(buffer, 0, 4)
    buffer.add(**steps(4, 3))
    other = copied(buffer)
    for each in (buffer, other):
        run_episode(each, 7, 2)
    one, two = buffer.get_all_transitions(), other.get_all_transitions()
    assert len(one["obs"]) == 45
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert np.array_equal(buffer.sample(9)["goal"], other.sample(9)["goal"])
    other.clear()
    assert buffer.get_stored_size() == 45


def test_next_of_applies_to_the_pending_episode():
    """In cpprb, the pending episode has no next_*, which causes a KeyError."""
    fields = {name: field for name, field in FIELDS.items() if name != "next_obs"}
    buffer = make(fields=fields, next_of="obs", strategy="final")
    run_episode(buffer, 0, 5)
    rows = buffer.get_all_transitions()
    check_rows(rows)
    assert rows["next_obs"][:, 0].tolist() == [1, 2, 3, 4, 5] * 2


def test_each_relabelled_copy_is_an_episode_for_n_step():
    fields = {**FIELDS, "done": {"dtype": bool}}
    nstep = {"size": 3, "rew": "rew", "gamma": 1.0, "next": "next_obs"}
    buffer = make(fields=fields, strategy="final", Nstep=nstep, reward_func=lambda s, a, g: np.ones(len(s)))
    buffer.add(**steps(0, 4), done=[0, 0, 0, 1])
    buffer.on_episode_end((-1, -1))
    rows = buffer.get_all_transitions()
    assert rows["rew"].ravel().tolist() == [3, 3, 2, 1] * 2
    assert rows["done"].ravel().tolist() == [False, True, True, True] * 2
    assert rows["next_obs"][:, 0].tolist() == [3, 4, 4, 4] * 2


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_sizes_shapes_and_dtypes_agree_with_cpprb(strategy, prioritized):
    cpprb = pytest.importorskip("cpprb")
    pair = [
        module.HindsightReplayBuffer(40, FIELDS, 9, reward, strategy=strategy, prioritized=prioritized)
        for module in (cpprb, cpprb_impl)
    ]
    assert pair[0].additional_goals == pair[1].additional_goals
    for episode, length in enumerate([3, 1, 9, 5]):
        for buffer in pair:
            for number in range(length):
                assert buffer.add(**steps(10 * episode + number, 1)) is None
            assert buffer.on_episode_end((-1, -1)) is None
        assert pair[0].get_stored_size() == pair[1].get_stored_size()
        theirs, ours = (buffer.get_all_transitions() for buffer in pair)
        assert list(theirs) == list(ours)
        for name in theirs:
            assert (theirs[name].shape, theirs[name].dtype) == (ours[name].shape, ours[name].dtype)
            if strategy == "final" or name not in ("goal", "rew"):
                assert np.array_equal(theirs[name], ours[name]), name
    assert pair[0].get_buffer_size() == pair[1].get_buffer_size() == 40
