"""This project's buffer with the behaviour of ChainerRL's, used as ChainerRL's agents use the original.

The calls: `append(state=..., ...)`, `sample(n)`, rows stacked into arrays key by key, `update_errors(errors)`. Beta is
constant and errors are not clipped (both are options of ChainerRL), so that all peers do the same work with the same
priorities.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Spec, Step
from adapters.behaviours import (
    BadPriority,
    BatchOverStored,
    ImportanceWeights,
    NewRowPriority,
    References,
    Replacement,
    StaleUpdate,
)
from adapters.contract import Contract, Returns, RowFields, Stated, no, yes
from adapters.peers.chainerrl_style.buffer import ChainerPrioritizedReplayBuffer, ChainerReplayBuffer


class ChainerRLStyle(Adapter):
    name = "chainerrl-style"
    distribution = None
    usage = (
        "as in ChainerRL's agents: append(state=...), sample(n), rows stacked by key, update_errors(errors); "
        "written in this project from its behaviour"
    )
    contract = Contract(
        batch_add=no("a loop of single appends"),
        fields=Stated(RowFields.FIXED, "six fixed fields, any Python object in each"),
        priorities=yes("on add only through its inner memory"),
        returns=Stated(Returns.ROWS, "stacked here"),
        n_step=yes("num_steps"),
        disk=no("only as a pickle of the whole buffer"),
        framework="NumPy (the original: Chainer)",
        licence="MIT (the original: MIT)",
        eps=0.01,
        new_row_priority=NewRowPriority.LARGEST_UPDATE,
        weights=ImportanceWeights.OVER_BATCH,
        replacement=Replacement.WITHOUT,
        prioritized_replacement=Replacement.WITHOUT,
        stale_update=StaleUpdate.CHANGES_OTHER_ROWS,
        references=References.KEPT,
        batch_over_stored=BatchOverStored.REFUSED,
        infinite_priority=BadPriority.POISONS,
        source="ChainerRL's docstrings (n unique transitions; normalize_by_max); the rest is only observed",
    )

    def __init__(self, spec: Spec) -> None:
        self.prioritized, self.fields = spec.prioritized, spec.fields
        self.buffer = self.make_buffer(spec)

    def make_buffer(self, spec: Spec) -> Any:
        """Return the buffer. The adapter of the original overrides only this method."""
        if not spec.prioritized:
            return ChainerReplayBuffer(spec.capacity, seed=spec.seed)
        return ChainerPrioritizedReplayBuffer(
            spec.capacity,
            alpha=spec.alpha,
            beta0=spec.beta,
            betasteps=None,
            eps=self.contract.eps,
            error_min=None,
            error_max=None,
            seed=spec.seed,
        )

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
        append = self.buffer.memory.append
        priorities = self.buffer.priority_from_errors(priorities)
        for (obs, act, rew, next_obs, done), priority in zip(steps, priorities, strict=True):
            step = {
                "state": obs,
                "action": act,
                "reward": rew,
                "next_state": next_obs,
                "next_action": None,
                "is_state_terminal": done,
            }
            append([step], priority)

    def sample(self, batch_size: int) -> Columns:
        rows = [row for (row,) in self.buffer.sample(batch_size)]
        batch = {
            "obs": np.asarray([row["state"] for row in rows]),
            "act": np.asarray([row["action"] for row in rows]),
            "rew": np.asarray([row["reward"] for row in rows], dtype=self.fields["rew"].dtype),
            "next_obs": np.asarray([row["next_state"] for row in rows]),
            "done": np.asarray([row["is_state_terminal"] for row in rows]),
        }
        if self.prioritized:
            batch["weights"] = np.asarray([row["weight"] for row in rows], dtype=np.float32)
            batch["indexes"] = self.buffer.memory.sampled_indices  # the update accepts only errors
        return batch

    def update_priorities(self, indexes: Sequence[int], priorities: np.ndarray) -> None:
        self.buffer.update_errors(priorities.tolist())

    def __len__(self) -> int:
        return len(self.buffer)
