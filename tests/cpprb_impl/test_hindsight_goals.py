"""The steps from which hindsight draws its goals, and how often (Andrychowicz et al. 2017, section 4.5)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cpprb_impl import ReplayBuffer

from .test_hindsight import FIELDS, STRATEGIES, check_rows, make, run_episode, steps


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.integers(0, 4),
    st.sampled_from([4, 11, 1000]),
    st.integers(0, 99),
)
@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_goals_are_drawn_from_the_steps_that_the_strategy_allows(strategy, prioritized, lengths, goals, size, seed):
    buffer = make(size, strategy=strategy, additional_goals=goals, prioritized=prioritized, seed=seed)
    copies = 2 if strategy == "final" else 1 + goals
    added, first, reached = 0, 0, []
    for length in lengths:
        before = set(buffer.get_all_transitions()["next_obs"][:, 0])
        if length:
            run_episode(buffer, first, length)
        else:
            buffer.on_episode_end((-1, -1))  # no step is pending, so nothing is stored
        added += copies * length
        assert buffer.get_stored_size() == min(size, added)
        rows = buffer.get_all_transitions()
        check_rows(rows)
        new = (rows["obs"][:, 0] >= first) & (rows["goal"][:, 0] != -1)
        number, goal = rows["obs"][new, 0], rows["goal"][new, 0]
        assert (rows["goal"][new, 1] == -goal).all()  # the goal is a whole state
        reached = {
            "future": (goal > number) & (goal <= first + length),
            "episode": (goal > first) & (goal <= first + length),
            "final": goal == first + length,
            "random": np.isin(goal, [*before, *range(first + 1, first + length + 1)]),
        }[strategy]
        assert reached.all()
        first += length


def drawn_goals(strategy, length=8, episodes=400, before=0, **options):
    """Return how often each (step, step of the goal) was drawn, as an array (length, before + length)."""
    counts = np.zeros((length, before + length))
    for seed in range(episodes):
        buffer = make(strategy=strategy, seed=seed, additional_goals=4, **options)
        if before:
            run_episode(buffer, 0, before)
            buffer.rb.clear()  # removes the copies with their goals
            buffer.rb.add(**steps(0, before), goal=np.zeros((before, 2)), rew=np.zeros(before))  # restores the states
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
    # The check can fail: if only later steps were drawn, the first column would be empty.
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
def test_random_goals_are_correct_if_the_episode_overwrites_rows(size, stored, length):
    """Goals are drawn before the episode is stored, as if it had been stored."""
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


VALUES = {
    "too large": [-1, 300],
    "fractions": [0.5, 0.9],
    "NaN": [np.nan, 1.0],
    "infinite": [np.inf, 1.0],
    "complex": np.array([1 + 2j, 3]),
    "text": ["1", "x"],
    "too large for float32": [1e300, 1.0],
    "bools": [True, False],
    "objects": np.array([1, 2], object),
    "numbers": [1, 2],
}


def outcome(call):
    """Return the result of `call` as nested lists, or its error, and its warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = call().tolist()
        except (TypeError, ValueError, OverflowError) as error:
            result = type(error), str(error)
    return repr(result), [str(each.message) for each in warned]


def buffer_of(dtype, shape, function=None, **options):
    field = {"shape": shape, "dtype": dtype}
    fields = {"obs": field, "act": {}, "next_obs": field}
    return make(
        8, 4, lambda states, *_: np.zeros(len(states)), fields, goal_func=function, additional_goals=1, **options
    )


def goals_of(dtype, value, where):
    def function(states):
        return np.array([value] * len(states)) if where == "goal_func" else states

    buffer = buffer_of(dtype, 2, function)
    state = np.zeros(2, dtype)
    buffer.add(obs=state, act=0, next_obs=state)
    buffer.on_episode_end({"goal": value, "goals of steps": [value], "goal_func": state}[where])
    return buffer.get_all_transitions()["goal"][int(where == "goal_func")]


@pytest.mark.parametrize("where", ["goal", "goals of steps", "goal_func"])
@pytest.mark.parametrize("dtype", ["u1", "i4", "f4", "?", "c8", "O"])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_goals_are_read_as_add_reads_a_field(value, dtype, where):
    """A cast of the goal [-1, 300] to uint8 would yield [255, 44]."""
    plain = ReplayBuffer(1, {"goal": {"shape": 2, "dtype": dtype}})

    def added():
        plain.add(goal=np.asarray(value))
        return plain.get_all_transitions()["goal"][0]

    assert outcome(lambda: goals_of(dtype, value, where)) == outcome(added)


def test_goals_whose_values_change_cause_one_warning():
    buffer = buffer_of("u1", 2, lambda states: states / 255)
    for times in (1, 0):
        buffer.add(obs=[100, 100], act=0, next_obs=[100, 100])
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            buffer.on_episode_end([0.5, 0.9])
        assert [str(each.message)[:5] for each in warned] == ["goal:"] * times


@pytest.mark.parametrize("axes", [(2, 3), (6,), (3, 2), (1, 6), (6, 1)], ids=str)
def test_goals_of_a_function_may_be_flat_but_their_axes_must_be_in_order(axes):
    buffer = buffer_of("f4", (2, 3), lambda states: np.arange(len(states) * 6.0).reshape(len(states), *axes))
    state = np.zeros((2, 2, 3))
    buffer.add(obs=state, act=[0, 0], next_obs=state)
    if axes not in ((2, 3), (6,)):
        with pytest.raises(ValueError, match=r"goal: shape .* does not hold rows of shape \(2, 3\)"):
            buffer.on_episode_end(0)
        assert buffer.get_stored_size() == 0
        return
    buffer.on_episode_end(0)
    assert buffer.get_all_transitions()["goal"][2:].ravel().tolist() == list(range(12))


@pytest.mark.parametrize("value", [np.nan, 2.0**40])
def test_nothing_is_stored_if_a_reward_does_not_fit(value):
    """Only the last copy has that reward."""
    buffer = buffer_of("i4", 1, default_dtype=np.int32)
    buffer.reward_func = lambda states, *_: np.array([0.0, value])
    buffer.add(obs=0, act=0, next_obs=0)
    with pytest.raises((ValueError, OverflowError), match="rew must be"):
        buffer.on_episode_end(0)
    assert buffer.get_stored_size() == 0
