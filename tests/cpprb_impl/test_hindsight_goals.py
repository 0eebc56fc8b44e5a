"""Where hindsight's goals come from, and how often from where (Andrychowicz et al. 2017, section 4.5)."""

from __future__ import annotations

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
