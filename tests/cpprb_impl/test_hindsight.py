"""Hindsight: episodes stored again with goals that were reached (Andrychowicz et al. 2017)."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import cpprb_impl
from cpprb_impl import HindsightReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

FIELDS = {"obs": {"shape": 2}, "act": {"dtype": np.int32}, "next_obs": {"shape": 2}}
STRATEGIES = ["future", "episode", "random", "final"]


def reward(next_states, actions, goals):
    """Tells of all three by which rows it was called with."""
    return next_states[:, 0] * 1000 + actions.ravel() * 100 + goals[:, 0]


def make(size=1000, max_episode_len=50, reward_func=reward, fields=FIELDS, **options):
    return HindsightReplayBuffer(size, fields, max_episode_len, reward_func, **options)


def steps(first, count):
    """Steps number `first` on; the next state of a step is one more than its number."""
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


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.integers(0, 4),
    st.sampled_from([4, 11, 1000]),
    st.integers(0, 99),
)
@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_goals_come_from_where_the_strategy_allows(strategy, prioritized, lengths, goals, size, seed):
    buffer = make(size, strategy=strategy, additional_goals=goals, prioritized=prioritized, seed=seed)
    copies = 2 if strategy == "final" else 1 + goals
    added, first, reached = 0, 0, []
    for length in lengths:
        before = set(buffer.get_all_transitions()["next_obs"][:, 0])
        if length:
            run_episode(buffer, first, length)
        else:
            buffer.on_episode_end((-1, -1))  # nothing waits: nothing is stored
        added += copies * length
        assert buffer.get_stored_size() == min(size, added)
        rows = buffer.get_all_transitions()
        check_rows(rows)
        new = (rows["obs"][:, 0] >= first) & (rows["goal"][:, 0] != -1)
        number, goal = rows["obs"][new, 0], rows["goal"][new, 0]
        assert (rows["goal"][new, 1] == -goal).all()  # a whole state
        reached = {
            "future": (goal > number) & (goal <= first + length),
            "episode": (goal > first) & (goal <= first + length),
            "final": goal == first + length,
            "random": np.isin(goal, [*before, *range(first + 1, first + length + 1)]),
        }[strategy]
        assert reached.all()
        first += length


def drawn_goals(strategy, length=8, episodes=400, before=0, **options):
    """How often each (step, goal's step) was drawn: (length, before + length)."""
    counts = np.zeros((length, before + length))
    for seed in range(episodes):
        buffer = make(strategy=strategy, seed=seed, additional_goals=4, **options)
        if before:
            run_episode(buffer, 0, before)
            buffer.rb.clear()  # the copies with their goals are gone,
            buffer.rb.add(**steps(0, before), goal=np.zeros((before, 2)), rew=np.zeros(before))  # the states are back
        run_episode(buffer, before, length)
        rows = buffer.get_all_transitions()
        new = (rows["obs"][:, 0] >= before) & (rows["goal"][:, 0] > 0)
        np.add.at(counts, (rows["obs"][new, 0].astype(int) - before, rows["goal"][new, 0].astype(int) - 1), 1)
    return counts


def test_future_goals_are_uniform_over_this_and_later_steps():
    counts = drawn_goals("future")
    assert counts.sum(axis=1).tolist() == [1600] * 8
    for step in range(7):
        assert counts[step, :step].sum() == 0
        assert stats.chisquare(counts[step, step:]).pvalue > 1e-6
    # The check can fail: strictly later steps only would leave the first column of each empty.
    assert stats.chisquare([0, *counts[0, 1:]], np.full(8, counts[0, 1:].sum() / 8)).pvalue < 1e-6


def test_episode_goals_are_uniform_over_the_episode():
    counts = drawn_goals("episode")
    assert all(stats.chisquare(row).pvalue > 1e-6 for row in counts)


@pytest.mark.parametrize("size", [1000, 60])
def test_random_goals_are_uniform_over_all_that_is_stored(size):
    counts = drawn_goals("random", before=12, size=size)
    assert counts.shape == (8, 20)
    assert stats.chisquare(counts.sum(axis=0)).pvalue > 1e-6


@pytest.mark.parametrize(("size", "stored", "length"), [(10, 0, 4), (10, 8, 4), (10, 10, 4), (5, 3, 13), (7, 7, 7)])
def test_random_goals_when_the_episode_overwrites(size, stored, length):
    """They are drawn before it is stored, as if after."""
    buffer = make(size, 100, strategy="random", additional_goals=300, seed=1)
    plain = ReplayBuffer(size, FIELDS)
    if stored:
        rows = {**steps(0, stored + 3), "goal": np.zeros((stored + 3, 2)), "rew": np.zeros(stored + 3)}
        buffer.rb.add(**rows)
        plain.add(**rows)
    seen = buffer._reached_anywhere(steps(500, length)["next_obs"].astype(float), 3000)[:, 0]
    plain.add(**steps(500, length))
    values, counts = np.unique(seen, return_counts=True)
    assert values.tolist() == sorted(plain.get_all_transitions()["next_obs"][:, 0])
    assert len(values) == 1 or stats.chisquare(counts).pvalue > 1e-6


def test_rewards_come_from_one_call_an_episode():
    calls = []

    def watched(next_states, actions, goals):
        calls.append((next_states.shape, actions.shape, goals.shape))
        return reward(next_states, actions, goals)

    buffer = make(reward_func=watched, additional_goals=3)
    run_episode(buffer, 0, 7)
    assert calls == [((28, 2), (28, 1), (28, 2))]


def test_goals_of_another_shape():
    buffer = make(
        reward_func=lambda states, actions, goals: states.sum(axis=1) == goals.ravel(),
        goal_func=lambda states: states.sum(axis=1),
        goal_shape=1,
        strategy="final",
    )
    run_episode(buffer, 0, 3, goal=9)
    assert buffer.get_all_transitions()["goal"].tolist() == [[9], [9], [9], [0], [0], [0]]


def test_a_goal_for_each_step():
    buffer = make(strategy="final")
    run_episode(buffer, 0, 2, goal=[[1, 2], [3, 4]])
    assert buffer.get_all_transitions()["goal"].tolist() == [[1, 2], [3, 4], [2, -2], [2, -2]]


def test_seed():
    batches = []
    for seed in (1, 1, 2):
        buffer = make(seed=seed)
        run_episode(buffer, 0, 20)
        batches.append((buffer.get_all_transitions()["goal"], buffer.sample(16)["obs"]))
    assert all(np.array_equal(a, b) for a, b in zip(batches[0], batches[1], strict=True))
    assert not np.array_equal(batches[0][0], batches[2][0])


def test_prioritized_or_not():
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


def test_too_long_episodes_are_refused_whole():
    """cpprb looks only before it adds: a batch overwrites the episode's beginning."""
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
def test_an_episode_that_can_not_be_stored_still_waits(broken, goal, text):
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


def test_clear_forgets_the_waiting_episode():
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
        ({"prioritized": False, "alpha": 0.5}, TypeError, "alpha"),
    ],
)
def test_bad_options(options, error, text):
    with pytest.raises(error, match=text):
        make(**options)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_copies_go_on_as_the_original_would(copied):
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


def test_next_of():
    """cpprb's waiting episode has no next_*: KeyError."""
    fields = {name: field for name, field in FIELDS.items() if name != "next_obs"}
    buffer = make(fields=fields, next_of="obs", strategy="final")
    run_episode(buffer, 0, 5)
    rows = buffer.get_all_transitions()
    check_rows(rows)
    assert rows["next_obs"][:, 0].tolist() == [1, 2, 3, 4, 5] * 2


def test_each_copy_is_an_episode_of_its_own_for_nstep():
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
def test_sizes_shapes_and_dtypes_as_cpprb(strategy, prioritized):
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
