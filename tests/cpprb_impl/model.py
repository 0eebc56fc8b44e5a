"""A model of a buffer in plain Python: a deque of transitions with their priorities."""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass

import numpy as np

Row = dict[str, np.ndarray]  # one transition or step: field -> value


@dataclass
class Held:
    """A transition in the ring."""

    row: Row
    priority: float
    seen: bool = False  # whether there was a sample since it was written


class Model:
    """A ring of `capacity` transitions, oldest first, and the pending steps of N-step transitions.

    `steps` is cpprb's Nstep; `exponents` are (alpha, eps), None without priorities.
    """

    def __init__(
        self, capacity: int, steps: dict | None, exponents: tuple[float, float] | None, check_for_update: bool
    ) -> None:
        self.capacity, self.steps, self.exponents = capacity, steps, exponents
        self.check_for_update = check_for_update
        # The newest samples: their indexes, and the transitions that were there.
        self.samples: deque[tuple[list[int], list[Held]]] = deque(maxlen=16)
        self.clear()

    def clear(self) -> None:
        self.held: deque[Held] = deque(maxlen=self.capacity)
        self.waiting: list[tuple[Row, float | None]] = []
        self.next_index = self.episode_len = 0
        self.largest = 1.0

    # State.

    def slots(self) -> list[int]:
        """Return the index of each transition, oldest first."""
        return [(self.next_index - back) % self.capacity for back in range(len(self.held), 0, -1)]

    def by_slot(self) -> dict[int, Held]:
        return dict(sorted(zip(self.slots(), self.held, strict=True)))

    def leaf(self, held: Held) -> float:
        alpha, eps = self.exponents
        return (held.priority + eps) ** alpha

    def weights(self, indexes: list[int], beta: float) -> list[float]:
        """Return (N P(i))^-beta, over its maximum for all transitions that can be drawn (Schaul et al. 2015, 3.4)."""
        leaves = {slot: self.leaf(held) for slot, held in self.by_slot().items()}
        chance = {slot: leaf / sum(leaves.values()) for slot, leaf in leaves.items() if leaf > 0}
        weight = {slot: (len(leaves) * p) ** -beta for slot, p in chance.items()}
        return [weight[index] / max(weight.values()) for index in indexes]

    def is_empty(self) -> bool:
        return not self.held and not self.waiting and self.episode_len == 0

    # Calls.

    def add(self, rows: list[Row], priorities: list[float] | None) -> int | None:
        self.waiting += zip(rows, priorities or [None] * len(rows), strict=True)
        most = self.steps["size"] - 1 if self.steps else 0
        return self._store(len(self.waiting) - most)

    def on_episode_end(self) -> None:
        self._store(len(self.waiting))
        self.episode_len = 0

    def _store(self, count: int) -> int | None:
        """Store the first `count` pending steps as transitions, and return the index of the first one."""
        if count <= 0:
            return None
        new = [
            Held(self._transition([row for row, _ in self.waiting[at:]]), self.largest if given is None else given)
            for at, (_, given) in enumerate(self.waiting[:count])
        ]
        del self.waiting[:count]
        return self._append(new)

    def _append(self, new: list[Held]) -> int:
        first = self.next_index
        self.held += new
        self.next_index = (first + len(new)) % self.capacity
        self.episode_len += len(new)
        if self.exponents:
            self.largest = max(self.largest, *(held.priority for held in new))
        return first

    def _transition(self, steps: list[Row]) -> Row:
        if not self.steps:
            return steps[0]
        window: list[Row] = []
        for step in steps[: self.steps["size"]]:
            window.append(step)
            if step["done"]:
                break
        row, last = dict(steps[0]), window[-1]
        total = sum(self.steps["gamma"] ** k * float(step["rew"][0]) for k, step in enumerate(window))
        row["rew"] = np.array([total], row["rew"].dtype)
        row.update({name: last[name] for name in (*self.steps["next"], "done")})
        return row

    def sampled(self, indexes: list[int]) -> None:
        for held in self.held:
            held.seen = True
        by_slot = self.by_slot()
        self.samples.append((indexes, [by_slot[index] for index in indexes]))

    def update_priorities(self, indexes: list[int], priorities: list[float]) -> None:
        by_slot = self.by_slot()
        meant = [held for those, held in self.samples if those == indexes]  # the update may be for any of these
        drawn = [pair for those, held in self.samples for pair in zip(those, held, strict=True)]
        changed = []
        for at, (index, priority) in enumerate(zip(indexes, priorities, strict=True)):
            held = by_slot[index]
            there = [those[at] for those in meant] if meant else [each for slot, each in drawn if slot == index]
            seen = all(each is held for each in there) if there else held.seen
            if seen or not self.check_for_update:
                changed.append((held, priority))
        for held, priority in changed:
            held.priority = priority
        if changed and self.exponents[0] > 0:
            self.largest = max(1.0, *(held.priority for held in self.held))
        elif changed:  # with an alpha of 0, all stored priorities are the same
            self.largest = max(self.largest, *priorities)

    def load(self, saved: Model) -> None:
        """Restore the saved state if possible; otherwise append as many of its newest transitions as fit."""
        alike = self.capacity == saved.capacity and self.exponents == saved.exponents
        if alike and self.is_empty():
            check_for_update, samples = self.check_for_update, self.samples
            vars(self).update(vars(copy.deepcopy(saved)))
            samples.extend(self.samples if saved.check_for_update else ())
            self.check_for_update, self.samples = check_for_update, samples
            return
        known = saved.exponents and (saved.exponents[0] > 0 or saved.exponents == self.exponents)
        new = [
            Held(h.row, h.priority if self.exponents and known else self.largest)
            for h in list(saved.held)[-self.capacity :]
        ]
        episode_len = self.episode_len
        if new:
            self._append(new)
        if self.exponents and saved.exponents:
            self.largest = max(self.largest, saved.largest)
        self.episode_len = episode_len
