"""A buffer of rows that behaves like ChainerRL's replay buffers.

Written for this project from the behaviour of the original, without any of its code.
`tests/adapters/peers/test_fidelity.py` compares the two: the same seed gives the same draws and weights. The code does
as much work as the original, so that it is equally fast: trees of nested lists, traversed recursively.

Rows are lists of dicts in a queue of two lists (in a deque if prioritized), and a batch never contains a row twice. The
prioritized buffer remembers which rows it returned and refuses another sample until `update_errors` has set their
errors. As in the original, an index counts from the oldest row: if rows are added to a full buffer between a sample
and its update, the errors go to the wrong rows.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

Row = list[dict[str, Any]]  # its steps: one, or several for n-step rows


def distinct(random: np.random.RandomState, n: int, k: int) -> Iterable[int]:
    """Return `k` distinct numbers below `n`. Repeated draws are replaced by spare ones."""
    if 3 * k >= n:
        return random.choice(n, k, replace=False)
    drawn = random.choice(n, 2 * k)
    spares, chosen = iter(drawn[k:]), set()
    for i in range(k):
        number = drawn[i]
        while number in chosen:
            number = next(spares, None)
            if number is None:
                spares = iter(random.choice(n, k))
                number = next(spares)
        chosen.add(number)
        drawn[i] = number
    return drawn[:k]


class RandomAccessQueue:
    """A queue with O(1) access by position and amortised O(1) removal of the oldest element.

    `_old` holds the older half, newest first, so that the oldest element is popped from its end.
    """

    def __init__(self, maxlen: int | None = None) -> None:
        self.maxlen = maxlen
        self._old: list[Any] = []
        self._new: list[Any] = []

    def __len__(self) -> int:
        return len(self._old) + len(self._new)

    def __getitem__(self, position: int) -> Any:
        newer = position - len(self._old)
        return self._new[newer] if newer >= 0 else self._old[-1 - position]

    def append(self, value: Any) -> None:
        self._new.append(value)
        if self.maxlen is not None and len(self) > self.maxlen:
            self.popleft()

    def popleft(self) -> Any:
        if not self._old:
            self._new.reverse()
            self._old, self._new = self._new, []
        return self._old.pop()


class PriorityTree:
    """A tree over a queue of priorities; each node stores the result of `combine` for its two halves.

    A node is [older half, newer half, value], or empty. The root covers the positions from `_first` (at most 0) up to
    but not including `_end`. It grows to the right, and drops its older half once that is empty.
    """

    def __init__(self, combine: Callable[[list[float]], float]) -> None:
        self._combine, self._count = combine, 0
        self._root: list = []
        self._first, self._end = 0, 1

    def whole(self) -> float:
        return self._root[2]

    def __setitem__(self, position: int, priority: float) -> None:
        self.write(position, priority)

    def write(self, position: int, priority: float | None) -> float | None:
        """Set the priority at a position, or clear it if `priority` is None; return the previous priority."""
        return _write(self._root, self._first, self._end, position, priority, self._combine)

    def append(self, priority: float) -> None:
        if self._count == self._end:
            self._root = [self._root, [], self._root[2]]
            self._end += self._end - self._first
        self.write(self._count, priority)
        self._count += 1

    def popleft(self) -> None:
        self.write(0, None)
        self._count -= 1
        self._first, self._end = self._first - 1, self._end - 1
        if self._count == 0:
            self._root, self._first, self._end = [], 0, 1
        elif self._first + self._end in (0, 1):  # the middle is position 0
            self._root, self._first = self._root[1], 0

    def find(self, mass: float) -> int:
        """Return the position at which the running sum exceeds `mass` (for a tree of sums)."""
        return _find(self._root, self._first, self._end, mass)


def _write(node: list, first: int, end: int, position: int, value: float | None, combine: Callable) -> float | None:
    if end - first == 1:
        before = node[2] if node else None
        if value is None:
            node.clear()
        else:
            node[:] = None, None, value
        return before
    if not node:
        node[:] = [], [], None
    middle = (first + end) // 2
    if position < middle:
        before = _write(node[0], first, middle, position, value, combine)
    else:
        before = _write(node[1], middle, end, position, value, combine)
    _sum_up(node, combine)
    return before


def _sum_up(node: list, combine: Callable) -> None:
    older, newer, _ = node
    values = [older[2]] if older else []
    if newer:
        values.append(newer[2])
    if values:
        node[2] = combine(values)
    else:
        node.clear()


def _find(node: list, first: int, end: int, mass: float) -> int:
    if end - first == 1:
        return first
    older, newer, _ = node
    middle, passed = (first + end) // 2, older[2] if older else 0.0
    if mass < passed:
        return _find(older, first, middle, mass)
    return _find(newer, middle, end, mass - passed)


class PrioritizedMemory:
    """A bounded queue of rows with priorities. Sampled rows have priority 0 until they are updated."""

    def __init__(self, capacity: int | None, random: np.random.RandomState) -> None:
        self.rows: collections.deque[Row] = collections.deque()
        # A sampled row still counts towards the minimum.
        self.sums, self.minima = PriorityTree(sum), PriorityTree(min)
        self.capacity, self.max_priority = capacity, 1.0
        self.sampled_indices: list[int] = []
        self._random = random

    def __len__(self) -> int:
        return len(self.rows)

    def append(self, row: Row, priority: float | None = None) -> None:
        if len(self.rows) == self.capacity:
            self.rows.popleft()
            self.sums.popleft()
            self.minima.popleft()
        if priority is None:
            priority = self.max_priority
        self.rows.append(row)
        self.sums.append(priority)
        self.minima.append(priority)

    def sample(self, n: int) -> tuple[list[Row], list[float], float]:
        """Return rows, their probabilities, and the smallest probability of all stored rows."""
        if self.sampled_indices:
            raise RuntimeError("update_errors must be called before the next sample")
        total, smallest = self.sums.whole(), self.minima.whole()
        drawn, priorities = [], []
        for _ in range(n):
            position = self.sums.find(self._random.uniform(0.0, self.sums.whole()))
            priorities.append(self.sums.write(position, 0.0))
            drawn.append(position)
        self.sampled_indices = drawn
        return [self.rows[i] for i in drawn], [priority / total for priority in priorities], smallest / total

    def set_last_priority(self, priorities: Sequence[float]) -> None:
        if not all(priority > 0.0 for priority in priorities):
            raise ValueError(f"priorities must be above 0, got {min(priorities)}")
        for position, priority in zip(self.sampled_indices, priorities, strict=True):
            self.sums[position] = priority
            self.minima[position] = priority
            self.max_priority = max(self.max_priority, priority)
        self.sampled_indices = []


class ChainerReplayBuffer:
    """Rows of up to `num_steps` dicts. `sample` draws without replacement and returns the rows themselves."""

    def __init__(self, capacity: int | None = None, num_steps: int = 1, seed: int | None = None) -> None:
        self.capacity, self.num_steps = capacity, num_steps
        self._random = np.random.RandomState(seed)
        self._last_steps = collections.defaultdict(lambda: collections.deque(maxlen=num_steps))
        self.memory = self.make_memory()

    def make_memory(self) -> Any:
        return RandomAccessQueue(self.capacity)

    def __len__(self) -> int:
        return len(self.memory)

    def append(
        self, state, action, reward, next_state=None, next_action=None, is_state_terminal=False, env_id=0, **more
    ) -> None:
        last = self._last_steps[env_id]
        step = dict(
            state=state,
            action=action,
            reward=reward,
            next_state=next_state,
            next_action=next_action,
            is_state_terminal=is_state_terminal,
            **more,
        )
        last.append(step)
        if is_state_terminal:
            while last:
                self.memory.append(list(last))
                last.popleft()
        elif len(last) == self.num_steps:
            self.memory.append(list(last))

    def sample(self, n: int) -> list[Row]:
        return [self.memory[i] for i in distinct(self._random, len(self.memory), n)]


class ChainerPrioritizedReplayBuffer(ChainerReplayBuffer):
    """Draws by priority, (error + eps)^alpha. Weights are relative to the largest in the batch. Beta grows to 1 over
    `betasteps` samples."""

    def __init__(
        self,
        capacity: int | None = None,
        alpha: float = 0.6,
        beta0: float = 0.4,
        betasteps: float | None = 2e5,
        eps: float = 0.01,
        error_min: float | None = 0.0,
        error_max: float | None = 1.0,
        num_steps: int = 1,
        seed: int | None = None,
    ) -> None:
        super().__init__(capacity, num_steps, seed)
        self.alpha, self.beta, self.eps = alpha, beta0, eps
        self.beta_step = 0.0 if betasteps is None else (1.0 - beta0) / betasteps
        self.error_min, self.error_max = error_min, error_max

    def make_memory(self) -> PrioritizedMemory:
        return PrioritizedMemory(self.capacity, self._random)

    def sample(self, n: int) -> list[Row]:
        if n > len(self):
            raise ValueError(f"n must be at most the number of stored rows, {len(self)}, got {n}")
        rows, probabilities, _ = self.memory.sample(n)
        smallest = np.min(probabilities)
        for row, probability in zip(rows, probabilities, strict=True):
            row[0]["weight"] = (probability / smallest) ** (-self.beta)
        self.beta = min(1.0, self.beta + self.beta_step)
        return rows

    def priority_from_errors(self, errors: Sequence[float]) -> list[float]:
        return [(self._clipped(error) + self.eps) ** self.alpha for error in errors]

    def _clipped(self, error: float) -> float:
        if self.error_min is not None:
            error = max(self.error_min, error)
        if self.error_max is not None:
            error = min(self.error_max, error)
        return error

    def update_errors(self, errors: Sequence[float]) -> None:
        self.memory.set_last_priority(self.priority_from_errors(errors))
