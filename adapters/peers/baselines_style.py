"""A row-oriented buffer that behaves like the replay buffers of OpenAI Baselines' deepq.

Written for this project from the behaviour of the original, without any of its code.
`tests/adapters/peers/test_fidelity.py` compares the two: the same seed gives the same draws and weights. The code does
as much work as the original, so that it is equally fast: rows are tuples in a Python list, a Python loop gathers a
batch, and priorities are kept in a sum tree and a min tree written in Python. Two oddities of the original are kept:
the buffer stores references to the caller's arrays, and the row in the last occupied slot is never drawn by priority.

Used as deepq's training loop does: positional `add`, then `sample(batch_size, beta)` and
`update_priorities(idxes, new_priorities)`.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Spec, Step
from adapters.behaviours import BadPriority, Dtype, GivenPriority, Prioritized, References
from adapters.contract import Contract, Returns, RowFields, Stated, no, yes

Row = tuple[Any, Any, float, Any, bool]


class BaselinesReplayBuffer:
    """A ring of rows; uniform draws with replacement."""

    def __init__(self, size: int, seed: int | None = None) -> None:
        self._rows: list[Row] = []
        self._size = size
        self._next = 0
        self._random = random.Random(seed)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, obs_t: Any, action: Any, reward: float, obs_tp1: Any, done: bool) -> None:
        row = (obs_t, action, reward, obs_tp1, done)
        if self._next == len(self._rows):
            self._rows.append(row)
        else:
            self._rows[self._next] = row
        self._next = (self._next + 1) % self._size

    def _gather(self, idxes: Iterable[int]) -> tuple[np.ndarray, ...]:
        obses_t, actions, rewards, obses_tp1, dones = [], [], [], [], []
        for idx in idxes:
            obs_t, action, reward, obs_tp1, done = self._rows[idx]
            obses_t.append(np.asarray(obs_t))
            actions.append(np.asarray(action))
            rewards.append(reward)
            obses_tp1.append(np.asarray(obs_tp1))
            dones.append(done)
        return np.array(obses_t), np.array(actions), np.array(rewards), np.array(obses_tp1), np.array(dones)

    def sample(self, batch_size: int) -> tuple[np.ndarray, ...]:
        last = len(self._rows) - 1
        return self._gather([self._random.randint(0, last) for _ in range(batch_size)])


class SegmentTree:
    """A complete binary tree in one list: leaf i is node `capacity + i`, node 1 the root."""

    def __init__(self, capacity: int, operation: Callable[[float, float], float], neutral: float) -> None:
        self.capacity = capacity
        self.operation = operation
        self.neutral = neutral
        self.nodes = [neutral] * (2 * capacity)

    def __setitem__(self, idx: int, value: float) -> None:
        node = idx + self.capacity
        self.nodes[node] = value
        node //= 2
        while node:
            self.nodes[node] = self.operation(self.nodes[2 * node], self.nodes[2 * node + 1])
            node //= 2

    def __getitem__(self, idx: int) -> float:
        return self.nodes[idx + self.capacity]

    def over(self, start: int = 0, end: int | None = None) -> float:
        """Return the operation's result over leaves start .. end - 1."""
        return self._over(start, self.capacity if end is None else end, 1, 0, self.capacity)

    def _over(self, start: int, end: int, node: int, low: int, high: int) -> float:
        """Like `over`, for the subtree of `node`, which covers leaves low .. high - 1."""
        if start == low and end == high:
            return self.nodes[node]
        middle = (low + high) // 2
        if end <= middle:
            return self._over(start, end, 2 * node, low, middle)
        if start >= middle:
            return self._over(start, end, 2 * node + 1, middle, high)
        return self.operation(
            self._over(start, middle, 2 * node, low, middle), self._over(middle, end, 2 * node + 1, middle, high)
        )

    def find_prefix(self, mass: float) -> int:
        """Return the first leaf at which the running sum exceeds `mass` (for a sum tree)."""
        if not 0 <= mass <= self.over() + 1e-5:
            raise ValueError(f"mass must be between 0 and the sum of the leaves, got {mass}")
        node = 1
        while node < self.capacity:
            if self.nodes[2 * node] > mass:
                node = 2 * node
            else:
                mass -= self.nodes[2 * node]
                node = 2 * node + 1
        return node - self.capacity


class BaselinesPrioritizedReplayBuffer(BaselinesReplayBuffer):
    """Draws rows independently, with probabilities proportional to priority^alpha."""

    def __init__(self, size: int, alpha: float, seed: int | None = None) -> None:
        super().__init__(size, seed)
        leaves = 1 << (size - 1).bit_length()
        self._alpha = alpha
        self._sums = SegmentTree(leaves, operator.add, 0.0)
        self._mins = SegmentTree(leaves, min, float("inf"))
        self._max_priority = 1.0

    def add(self, *args: Any, **kwargs: Any) -> None:
        idx = self._next
        super().add(*args, **kwargs)
        self._sums[idx] = self._max_priority**self._alpha
        self._mins[idx] = self._max_priority**self._alpha

    def sample(self, batch_size: int, beta: float) -> tuple[Any, ...]:
        count = len(self._rows)
        # Baselines omits the last slot from the total that it draws from, and computes that total once per row of the
        # batch. Computing it once per batch would be faster than the original.
        idxes = [
            self._sums.find_prefix(self._random.random() * self._sums.over(0, count - 1)) for _ in range(batch_size)
        ]
        max_weight = (self._mins.over() / self._sums.over() * count) ** (-beta)
        weights = [(self._sums[idx] / self._sums.over() * count) ** (-beta) / max_weight for idx in idxes]
        return (*self._gather(idxes), np.array(weights), idxes)

    def update_priorities(self, idxes: Sequence[int], priorities: Sequence[float]) -> None:
        for idx, priority in zip(idxes, priorities, strict=True):
            if not priority > 0:
                raise ValueError(f"priority of row {idx} must be above 0, got {priority}")
            if not 0 <= idx < len(self._rows):
                raise IndexError(f"idx must be at least 0 and below {len(self._rows)}, the number of rows, got {idx}")
            self._sums[idx] = priority**self._alpha
            self._mins[idx] = priority**self._alpha
            self._max_priority = max(self._max_priority, priority)


class BaselinesStyle(Adapter):
    name = "baselines-style"
    distribution = None
    usage = (
        "as in Baselines' deepq training: positional add, sample(batch, beta), update_priorities(idxes, priorities); "
        "written in this project from its behaviour"
    )
    contract = Contract(
        batch_add=no("a loop of single adds"),
        fields=Stated(RowFields.FIXED, "five fixed fields, any Python object in each"),
        priorities=yes(),
        returns=Stated(Returns.COLUMNS),
        n_step=no(),
        disk=no("only as a pickle of the whole buffer"),
        framework="NumPy (the original: TensorFlow 1)",
        licence="MIT (the original: MIT)",
        dtype=Dtype.WIDER,
        prioritized=Prioritized.NEVER_LAST_SLOT,
        given_priority=GivenPriority.NOT_POSSIBLE,
        references=References.KEPT,
        infinite_priority=BadPriority.POISONS,
        source="Baselines' docstrings document only the ring and alpha; the rest is observed",
    )

    def __init__(self, spec: Spec) -> None:
        self.capacity, self.beta, self.prioritized, self.added = spec.capacity, spec.beta, spec.prioritized, 0
        self.fields = spec.fields
        self.names = ("obs", "act", "rew", "next_obs", "done")
        if spec.prioritized:
            self.names += ("weights", "indexes")
        self.buffer = self.make_buffer(spec)

    def make_buffer(self, spec: Spec) -> Any:
        """Return the buffer. The adapter of the original overrides only this method."""
        if spec.prioritized:
            return BaselinesPrioritizedReplayBuffer(spec.capacity, spec.alpha, spec.seed)
        return BaselinesReplayBuffer(spec.capacity, spec.seed)

    def add(self, steps: Sequence[Step]) -> None:
        add = self.buffer.add
        for obs, act, rew, next_obs, done in steps:
            add(obs, act, rew, next_obs, done)
        self.added += len(steps)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        add = self.buffer.add
        rewards, dones = columns["rew"].tolist(), columns["done"].tolist()
        actions = columns["act"] if columns["act"].ndim > 1 else columns["act"].tolist()
        for obs, act, rew, next_obs, done in zip(
            columns["obs"], actions, rewards, columns["next_obs"], dones, strict=True
        ):
            add(obs, act, rew, next_obs, done)
        first, self.added = self.added, self.added + len(rewards)
        if priorities is not None:
            idxes = [i % self.capacity for i in range(first, self.added)]
            self.buffer.update_priorities(idxes, priorities.tolist())

    def sample(self, batch_size: int) -> Columns:
        drawn = self.buffer.sample(batch_size, self.beta) if self.prioritized else self.buffer.sample(batch_size)
        return dict(zip(self.names, drawn, strict=True))

    def update_priorities(self, indexes: Sequence[int], priorities: np.ndarray) -> None:
        self.buffer.update_priorities(indexes, priorities.tolist())

    def __len__(self) -> int:
        return len(self.buffer)
