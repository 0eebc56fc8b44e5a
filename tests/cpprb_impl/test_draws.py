"""Draws are random in order and independent of each other, and these checks can fail.

How often each row is drawn is tested with each sampler: test_ring, test_prioritized, test_laber, test_selective.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy import stats

from cpprb_impl import LaBERlazy, PrioritizedReplayBuffer

X = {"x": {"dtype": np.int64}}


def p_of_orders(shuffles: np.ndarray) -> float:
    """Return the p-value that rows (shuffles, n), each an order of n things, come from a fair shuffle."""
    n = shuffles.shape[1]
    number_of = {order: i for i, order in enumerate(itertools.permutations(sorted(shuffles[0])))}
    counts = np.bincount([number_of[tuple(order)] for order in shuffles.tolist()], minlength=math.factorial(n))
    return stats.chisquare(counts).pvalue


def p_of_neighbours(draws: np.ndarray, size: int) -> float:
    """Return the p-value that each draw of 0 to size - 1 is independent of the draw after it."""
    pairs = draws[:-1:2] * size + draws[1::2]
    return stats.chisquare(np.bincount(pairs, minlength=size * size)).pvalue


def test_shuffled_transitions_are_in_every_order_equally_often(make):
    buffer = make(5, X, seed=11)
    buffer.add(x=np.arange(4))
    buffer.add(x=np.arange(4, 7))  # wraps around
    orders = np.array([buffer.get_all_transitions(shuffle=True)["x"].ravel() for _ in range(40_000)])
    assert p_of_orders(orders) > 1e-6


def test_uniform_draws_are_independent_of_each_other(make):
    buffer = make(20, X, seed=12)
    buffer.add(x=np.arange(20))
    if isinstance(buffer, PrioritizedReplayBuffer):
        return  # those are stratified: see the next test
    assert p_of_neighbours(buffer.sample(400_000)["x"].ravel(), 20) > 1e-6
    single = np.concatenate([buffer.sample(1)["x"].ravel() for _ in range(100_000)])
    assert p_of_neighbours(single, 20) > 1e-6


def test_prioritized_draws_of_different_calls_are_independent():
    """Draws of one call are stratified: the i-th is drawn from the i-th part of the sum of priorities."""
    buffer = PrioritizedReplayBuffer(16, X, alpha=1.0, eps=0.0, seed=13)
    buffer.add(x=np.arange(16), priorities=np.ones(16))
    single = np.concatenate([buffer.sample(1)["indexes"] for _ in range(100_000)])
    assert p_of_neighbours(single, 16) > 1e-6


def test_priorities_have_no_effect_with_an_alpha_of_0():
    buffer = PrioritizedReplayBuffer(50, X, alpha=0.0, seed=14)
    buffer.add(x=np.arange(80), priorities=np.geomspace(1e-3, 1e3, 80))
    buffer.update_priorities(np.arange(25), np.geomspace(1e3, 1e-3, 25))
    counts = np.bincount(np.concatenate([buffer.sample(1)["indexes"] for _ in range(50_000)]), minlength=50)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_the_rows_of_laber_are_drawn_independently():
    laber = LaBERlazy(1000, m=0.02, eps=0.0, seed=15)
    draws = np.concatenate([laber(priorities=np.ones(20))["indexes"] for _ in range(200)])
    assert p_of_neighbours(draws, 20) > 1e-6


def unfair_orders(rng):
    """Return orders in which each place was swapped with any other: n^n equally likely ways lead to n! orders."""
    orders = np.tile(np.arange(5), (40_000, 1))
    rows = np.arange(len(orders))
    for i in range(5):
        with_ = rng.integers(0, 5, len(orders))
        orders[rows, i], orders[rows, with_] = orders[rows, with_], orders[rows, i].copy()
    return orders


def test_unfair_draws_are_detected():
    rng = np.random.default_rng(0)
    assert p_of_orders(rng.permuted(np.tile(np.arange(5), (40_000, 1)), axis=1)) > 1e-6
    assert p_of_orders(unfair_orders(rng)) < 1e-6
    bits = rng.integers(0, 256, 400_000)
    assert p_of_neighbours(bits % 16, 16) > 1e-6
    assert p_of_neighbours(bits % 20, 20) < 1e-6  # unfair, since 256 is not a multiple of 20
    follows = np.where(rng.random(400_000) < 0.02, np.roll(bits, 1), bits)  # 2% repeat the previous draw
    assert p_of_neighbours(follows % 16, 16) < 1e-6
