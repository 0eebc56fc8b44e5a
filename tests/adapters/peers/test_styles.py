"""The two buffers that this project wrote to the public behaviour of Baselines and ChainerRL."""

from __future__ import annotations

import operator
import random
from collections import deque

import numpy as np
import pytest

from adapters.peers import baselines_style
from adapters.peers.chainerrl_style import buffer as chainerrl_style


def test_the_segment_tree_agrees_with_plain_loops() -> None:
    rng = random.Random(1)
    tree, values = baselines_style.SegmentTree(16, operator.add, 0.0), [0.0] * 16
    for _ in range(200):
        i = rng.randrange(16)
        tree[i] = values[i] = float(rng.randrange(10))
        start, end = sorted(rng.sample(range(17), 2))
        assert tree.over(start, end) == sum(values[start:end])
        mass = rng.random() * tree.over()
        if tree.over() > 0:
            running = np.cumsum(values)
            assert tree.find_prefix(mass) == int(np.searchsorted(running, mass, side="right"))


def test_baselines_style_returns_a_tuple_of_columns_and_indexes() -> None:
    buffer = baselines_style.BaselinesPrioritizedReplayBuffer(8, alpha=0.6, seed=1)
    for i in range(8):
        buffer.add(np.full(3, i), i, float(i), np.full(3, i + 1), i == 7)
    obs, actions, rewards, next_obs, dones, weights, idxes = buffer.sample(5, 0.4)
    assert obs.shape == next_obs.shape == (5, 3)
    assert actions.tolist() == rewards.tolist() == obs[:, 0].tolist() == list(idxes)
    assert weights.shape == dones.shape == (5,)
    assert 7 not in buffer.sample(1000, 0.4)[-1]  # the last slot is never drawn


def test_baselines_style_gives_new_rows_the_largest_priority() -> None:
    buffer = baselines_style.BaselinesPrioritizedReplayBuffer(8, alpha=1.0, seed=1)
    buffer.add(0, 0, 0.0, 0, False)
    buffer.update_priorities([0], [5.0])
    buffer.add(1, 1, 1.0, 1, False)
    assert buffer._sums[1] == 5.0


@pytest.mark.parametrize("priority", [0.0, -1.0, float("nan")])
def test_baselines_style_refuses_a_priority_that_is_not_above_0(priority: float) -> None:
    buffer = baselines_style.BaselinesPrioritizedReplayBuffer(8, alpha=1.0)
    buffer.add(0, 0, 0.0, 0, False)
    with pytest.raises(ValueError, match="must be above 0"):
        buffer.update_priorities([0], [priority])


def test_a_queue_of_two_lists_is_first_in_first_out() -> None:
    rng = random.Random(2)
    queue, model = chainerrl_style.RandomAccessQueue(), deque()
    for i in range(2000):
        if model and rng.random() < 0.45:
            assert queue.popleft() == model.popleft()
        else:
            queue.append(i)
            model.append(i)
        assert len(queue) == len(model)
        if i % 50 == 0:
            assert [queue[j] for j in range(len(queue))] == list(model)


def test_the_priority_tree_follows_its_queue() -> None:
    rng = random.Random(3)
    sums, minima = trees = chainerrl_style.PriorityTree(sum), chainerrl_style.PriorityTree(min)
    model: deque[float] = deque()
    for _ in range(1000):
        choice = rng.random()
        if len(model) > 1 and choice < 0.3:
            model.popleft()
            for tree in trees:
                tree.popleft()
        elif model and choice < 0.5:
            i = rng.randrange(len(model))
            model[i] = float(rng.randrange(1, 9))
            for tree in trees:
                tree[i] = model[i]
        else:
            model.append(float(rng.randrange(1, 9)))
            for tree in trees:
                tree.append(model[-1])
        assert sums.whole() == sum(model)
        assert minima.whole() == min(model)
        mass = rng.random() * sum(model)
        assert sums.find(mass) == int(np.searchsorted(np.cumsum(model), mass, side="right"))


def prioritized(capacity: int = 8, **options) -> chainerrl_style.ChainerPrioritizedReplayBuffer:
    buffer = chainerrl_style.ChainerPrioritizedReplayBuffer(capacity, seed=1, **options)
    for i in range(8):
        buffer.append(state=i, action=i, reward=float(i), next_state=i + 1, is_state_terminal=False)
    return buffer


@pytest.mark.parametrize(
    "buffer", [chainerrl_style.ChainerReplayBuffer(8, seed=1), prioritized()], ids=["uniform", "prioritized"]
)
def test_chainerrl_style_draws_each_row_once_per_batch(buffer) -> None:
    for i in range(8 - len(buffer)):
        buffer.append(state=i, action=i, reward=float(i))
    rows = buffer.sample(8)
    assert sorted(row["state"] for (row,) in rows) == list(range(8))
    assert {"state", "action", "reward", "next_state", "next_action", "is_state_terminal"} <= set(rows[0][0])


def test_chainerrl_style_requires_errors_before_the_next_sample() -> None:
    buffer = prioritized()
    buffer.sample(4)
    with pytest.raises(RuntimeError, match="update_errors must be called"):
        buffer.sample(4)
    buffer.update_errors([1.0] * 4)
    buffer.sample(4)


def test_chainerrl_style_anneals_beta_and_clips_errors() -> None:
    buffer = prioritized(beta0=0.5, betasteps=2)
    betas = []
    for _ in range(4):
        betas.append(buffer.beta)
        buffer.sample(2)
        buffer.update_errors([0.1, 100.0])
    assert betas == [0.5, 0.75, 1.0, 1.0]
    assert buffer.priority_from_errors([100.0]) == [(1.0 + buffer.eps) ** buffer.alpha]
    assert prioritized(error_max=None).priority_from_errors([100.0]) == [(100.0 + buffer.eps) ** buffer.alpha]


def test_chainerrl_style_drops_the_oldest_rows() -> None:
    buffer = prioritized(capacity=5)
    assert sorted(row["state"] for (row,) in buffer.sample(5)) == [3, 4, 5, 6, 7]
