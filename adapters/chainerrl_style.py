"""A buffer of rows with the public behaviour of ChainerRL's replay buffers.

Written here from that behaviour; no code is taken from it, so its speed is its own and not the
original's. Rows are dicts in a queue made of two lists; a batch never holds a row twice; the
prioritized buffer remembers which rows it gave out and refuses another sample until `update_errors`
has told their errors. As there, an index counts from the oldest row: adding to a full buffer between
a sample and its update gives the errors to wrong rows.

Used as ChainerRL's agents do: `append(state=..., ...)`, `sample(n)`, rows stacked to arrays key by
key, `update_errors(errors)`. Beta is held still and errors are not clipped, so that every peer does
the same work at the same priorities (both are options of that library).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Features, Spec, Step

Row = dict[str, Any]


class RandomAccessQueue:
    """A queue with O(1) access by position and amortised O(1) pop of the oldest.

    `_old` holds the older half newest first, so that the oldest is popped off its end.
    """

    def __init__(self) -> None:
        self._old: list[Any] = []
        self._new: list[Any] = []

    def __len__(self) -> int:
        return len(self._old) + len(self._new)

    def __getitem__(self, position: int) -> Any:
        newer = position - len(self._old)
        return self._new[newer] if newer >= 0 else self._old[-1 - position]

    def append(self, value: Any) -> None:
        self._new.append(value)

    def popleft(self) -> Any:
        if not self._old:
            self._new.reverse()
            self._old, self._new = self._new, []
        return self._old.pop()


class PriorityTree:
    """Sums and minima over a queue of priorities; leaf slots form a ring that doubles when it is full."""

    def __init__(self) -> None:
        self._leaves, self._head, self._count = 1, 0, 0
        self._sums, self._mins = [0.0, 0.0], [float("inf")] * 2

    def total(self) -> float:
        return self._sums[1]

    def minimum(self) -> float:
        return self._mins[1]

    def _set(self, slot: int, weight: float, minimum: float) -> None:
        sums, mins, node = self._sums, self._mins, slot + self._leaves
        sums[node], mins[node] = weight, minimum
        while node > 1:
            left, right = node & ~1, node | 1
            node >>= 1
            sums[node] = sums[left] + sums[right]
            mins[node] = mins[left] if mins[left] < mins[right] else mins[right]

    def __setitem__(self, position: int, priority: float) -> None:
        self._set((self._head + position) % self._leaves, priority, priority)

    def append(self, priority: float) -> None:
        if self._count == self._leaves:
            self._grow()
        self._count += 1
        self[self._count - 1] = priority

    def popleft(self) -> None:
        self._set(self._head, 0.0, float("inf"))
        self._head, self._count = (self._head + 1) % self._leaves, self._count - 1

    def _grow(self) -> None:
        """Double the leaves, the oldest first again, and build the inner nodes bottom up."""
        ring = [self._leaves + (self._head + i) % self._leaves for i in range(self._leaves)]
        spare = self._leaves
        sums = [self._sums[node] for node in ring] + [0.0] * spare
        mins = [self._mins[node] for node in ring] + [float("inf")] * spare
        self._leaves, self._head = 2 * spare, 0
        self._sums, self._mins = [0.0] * self._leaves + sums, [float("inf")] * self._leaves + mins
        for node in range(self._leaves - 1, 0, -1):
            self._sums[node] = self._sums[2 * node] + self._sums[2 * node + 1]
            self._mins[node] = min(self._mins[2 * node], self._mins[2 * node + 1])

    def draw_and_remove(self, mass: float) -> tuple[int, float]:
        """The position at which the running sum exceeds `mass`, and its priority, which becomes 0."""
        sums, node = self._sums, 1
        while node < self._leaves:
            node *= 2
            # The second condition: rounding must not lead into a part whose rows are all out.
            if sums[node] <= mass and sums[node + 1] > 0.0:
                mass -= sums[node]
                node += 1
        slot, priority = node - self._leaves, sums[node]
        # A row that is out still counts for the minimum, which normalising by the whole memory needs.
        self._set(slot, 0.0, self._mins[node])
        return (slot - self._head) % self._leaves, priority


class PrioritizedMemory:
    """A bounded queue of rows with priorities; rows given out have priority 0 until they are set again."""

    def __init__(self, capacity: int | None, seed: int | None) -> None:
        self.rows, self.priorities = RandomAccessQueue(), PriorityTree()
        self.capacity, self.max_priority = capacity, 1.0
        self.sampled: list[int] = []
        self._random = random.Random(seed)

    def append(self, row: Row, priority: float | None = None) -> None:
        if len(self.rows) == self.capacity:
            self.rows.popleft()
            self.priorities.popleft()
        if priority is None:
            priority = self.max_priority
        self.max_priority = max(self.max_priority, priority)
        self.rows.append(row)
        self.priorities.append(priority)

    def sample(self, n: int) -> tuple[list[Row], list[float], float]:
        """Rows, their probabilities, and the smallest probability of all rows."""
        if self.sampled:
            raise RuntimeError("the rows of the last sample have no new priority yet")
        total, minimum = self.priorities.total(), self.priorities.minimum()
        drawn = [self.priorities.draw_and_remove(self._random.random() * self.priorities.total()) for _ in range(n)]
        self.sampled = [position for position, _ in drawn]
        return [self.rows[i] for i in self.sampled], [p / total for _, p in drawn], minimum / total

    def set_last_priority(self, priorities: Sequence[float]) -> None:
        for position, priority in zip(self.sampled, priorities, strict=True):
            self.priorities[position] = priority
            self.max_priority = max(self.max_priority, priority)
        self.sampled = []


class ReplayBuffer:
    """Rows as dicts; `sample` draws without replacement and gives the rows themselves."""

    def __init__(self, capacity: int | None = None, seed: int | None = None) -> None:
        self.capacity = capacity
        self.memory: Any = RandomAccessQueue()
        self._random = random.Random(seed)

    def __len__(self) -> int:
        return len(self.memory)

    def append(self, state, action, reward, next_state=None, next_action=None, is_state_terminal=False) -> None:
        if len(self.memory) == self.capacity:
            self.memory.popleft()
        self.memory.append(as_row(state, action, reward, next_state, next_action, is_state_terminal))

    def sample(self, n: int) -> list[Row]:
        return [self.memory[i] for i in self._random.sample(range(len(self.memory)), n)]


def as_row(state, action, reward, next_state=None, next_action=None, is_state_terminal=False) -> Row:
    return {
        "state": state,
        "action": action,
        "reward": reward,
        "next_state": next_state,
        "next_action": next_action,
        "is_state_terminal": is_state_terminal,
    }


class PrioritizedReplayBuffer(ReplayBuffer):
    """Priority (error + eps)^alpha; weights relative to the batch's largest; beta grows to 1 over `betasteps`."""

    def __init__(
        self,
        capacity: int | None = None,
        alpha: float = 0.6,
        beta0: float = 0.4,
        betasteps: float | None = 2e5,
        eps: float = 0.01,
        error_min: float | None = 0.0,
        error_max: float | None = 1.0,
        seed: int | None = None,
    ) -> None:
        self.capacity, self.alpha, self.beta, self.eps = capacity, alpha, beta0, eps
        self.beta_step = 0.0 if betasteps is None else (1.0 - beta0) / betasteps
        self.error_min, self.error_max = error_min, error_max
        self.memory = PrioritizedMemory(capacity, seed)

    def __len__(self) -> int:
        return len(self.memory.rows)

    def append(self, state, action, reward, next_state=None, next_action=None, is_state_terminal=False) -> None:
        self.memory.append(as_row(state, action, reward, next_state, next_action, is_state_terminal))

    def sample(self, n: int) -> list[Row]:
        if n > len(self):
            raise ValueError(f"{n} rows wanted of {len(self)} stored")
        rows, probabilities, _ = self.memory.sample(n)
        smallest = min(probabilities)
        for row, probability in zip(rows, probabilities, strict=True):
            row["weight"] = (probability / smallest) ** (-self.beta)
        self.beta = min(1.0, self.beta + self.beta_step)
        return rows

    def priority_from_error(self, error: float) -> float:
        if self.error_min is not None:
            error = max(self.error_min, error)
        if self.error_max is not None:
            error = min(self.error_max, error)
        return (error + self.eps) ** self.alpha

    def update_errors(self, errors: Sequence[float]) -> None:
        self.memory.set_last_priority([self.priority_from_error(error) for error in errors])


class ChainerRLStyle(Adapter):
    name = "chainerrl-style"
    distribution = None
    usage = (
        "as ChainerRL's agents: append(state=...), sample(n), rows stacked by key, update_errors(errors); "
        "written here after its behaviour, so its speed is not the original's"
    )
    eps = 0.01
    weights_relative_to = "batch"
    features = Features(
        batch_add="no: a loop of single appends",
        flexible_fields="no: six fixed fields, any Python object in each",
        prioritized="yes, on add only through its inner memory; an update must follow each sample",
        weights="relative to the largest in the batch",
        duplicates="never",
        gives="rows (stacked here)",
        copies_on_add="no: keeps references to the caller's arrays",
        n_step="no (the original: yes)",
        processes="no",
        framework="NumPy (the original: Chainer)",
        licence="MIT (the original: MIT)",
        disk="no (a pickle of the whole)",
        machines="no",
        last_release="in this project",
    )

    def __init__(self, spec: Spec) -> None:
        self.prioritized, self.fields = spec.prioritized, spec.fields
        if spec.prioritized:
            self.buffer = PrioritizedReplayBuffer(
                spec.capacity,
                alpha=spec.alpha,
                beta0=spec.beta,
                betasteps=None,
                eps=self.eps,
                error_min=None,
                error_max=None,
                seed=spec.seed,
            )
        else:
            self.buffer = ReplayBuffer(spec.capacity, spec.seed)

    def add(self, steps: Iterable[Step]) -> None:
        append = self.buffer.append
        for obs, act, rew, next_obs, done in steps:
            append(state=obs, action=act, reward=rew, next_state=next_obs, is_state_terminal=done)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        rewards, dones = columns["rew"].tolist(), columns["done"].tolist()
        actions = columns["act"] if columns["act"].ndim > 1 else columns["act"].tolist()
        steps = zip(columns["obs"], actions, rewards, columns["next_obs"], dones, strict=True)
        if priorities is None:
            self.add(steps)
            return
        self.add_with_priorities(steps, priorities.tolist())

    def add_with_priorities(self, steps: Iterable[Step], priorities: Sequence[float]) -> None:
        append, priority_from_error = self.buffer.memory.append, self.buffer.priority_from_error
        for (obs, act, rew, next_obs, done), priority in zip(steps, priorities, strict=True):
            append(as_row(obs, act, rew, next_obs, None, done), priority_from_error(priority))

    def sample(self, batch_size: int) -> Columns:
        rows = self.buffer.sample(batch_size)
        batch = {
            "obs": np.asarray([row["state"] for row in rows]),
            "act": np.asarray([row["action"] for row in rows]),
            "rew": np.asarray([row["reward"] for row in rows], dtype=self.fields["rew"].dtype),
            "next_obs": np.asarray([row["next_state"] for row in rows]),
            "done": np.asarray([row["is_state_terminal"] for row in rows]),
        }
        if self.prioritized:
            batch["weights"] = np.asarray([row["weight"] for row in rows], dtype=np.float32)
            batch["indexes"] = self.buffer.memory.sampled  # remembered there too: the update takes errors only
        return batch

    def update_priorities(self, indexes: Sequence[int], priorities: np.ndarray) -> None:
        self.buffer.update_errors(priorities.tolist())

    def __len__(self) -> int:
        return len(self.buffer)
