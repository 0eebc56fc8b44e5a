"""PFRL: ChainerRL's successor for PyTorch, with the same two replay buffers.

Used as its agents do (`pfrl.agents.dqn`): `append` with keywords, `sample(n)`, `update_errors` with a list. A sample is
a list of n-step lists of dicts, which the learner converts to columns. "pfrl" stacks the values of each key with NumPy.
"pfrl[naive]" calls `batch_experiences`, as PFRL's agents do, which returns tensors (with `is_state_terminal` as
floats). `append` takes no priority, so a row with a priority is appended to the buffer's inner memory.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Field, Spec, Step
from adapters.behaviours import (
    BadPriority,
    BatchOverStored,
    ImportanceWeights,
    NewRowPriority,
    References,
    Replacement,
    Seed,
    StaleUpdate,
)
from adapters.contract import Contract, Release, Returns, RowFields, Stated, no, yes

#: PFRL's names for the five fields. `append` stores other fields under their own names.
_KEYS = {"obs": "state", "act": "action", "rew": "reward", "next_obs": "next_state", "done": "is_state_terminal"}
#: The arguments that `append` requires.
_NEEDED = {"state": None, "action": None, "reward": 0.0}

_ONE = Field((), "bool")


class Pfrl(Adapter):
    name = "pfrl"
    distribution = "pfrl"
    venv = "torch"
    usage = (
        "append(state=...), sample(n), keys stacked by NumPy, update_errors(errors), as in its DQN (pfrl.agents.dqn)"
    )
    contract = Contract(
        batch_add=no("a loop of single appends"),
        fields=Stated(RowFields.ANY, "any Python object; further keys as keywords of append"),
        priorities=yes("on add only through its inner memory"),
        returns=Stated(Returns.ROWS, "stacked here"),
        n_step=yes(),
        disk=yes("save and load, as a pickle", "its source: ReplayBuffer.save"),
        framework="PyTorch",
        licence="MIT",
        release=Release("0.4.0", datetime.date(2023, 7, 16)),
        eps=0.01,  # its default
        new_row_priority=NewRowPriority.LARGEST_UPDATE,
        weights=ImportanceWeights.OVER_BATCH,
        replacement=Replacement.WITHOUT,
        prioritized_replacement=Replacement.WITHOUT,
        stale_update=StaleUpdate.CHANGES_OTHER_ROWS,
        references=References.KEPT,
        batch_over_stored=BatchOverStored.REFUSED,
        nan_priority=BadPriority.IGNORED,  # treated as an error of 0
        negative_priority=BadPriority.IGNORED,  # the same
        infinite_priority=BadPriority.POISONS,
        seed=Seed.GLOBAL,
        source="docstrings of AbstractReplayBuffer (n unique transitions) and PrioritizedReplayBuffer "
        "(normalize_by_max); the rest is undocumented, only observed",
        remarks={"weights": "optionally, the largest in the buffer"},
    )

    def __init__(self, spec: Spec) -> None:
        import torch
        from pfrl.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer

        torch.set_num_threads(1)
        self.prioritized, self.fields = spec.prioritized, spec.fields
        self.keys = {name: _KEYS.get(name, name) for name in spec.fields}
        if spec.fields.get("done", _ONE).shape:
            self.keys["done"] = "done"  # `is_state_terminal` is a single bool, but a sequence has many
        self.absent = {key: value for key, value in _NEEDED.items() if key not in self.keys.values()}
        if spec.prioritized:
            self.buffer = PrioritizedReplayBuffer(
                spec.capacity,
                alpha=spec.alpha,
                beta0=spec.beta,
                betasteps=None,
                eps=self.contract.eps,
                error_max=None,  # the default, 1, would clip all larger priorities to 1
            )
        else:
            self.buffer = ReplayBuffer(spec.capacity)

    def add(self, steps: Iterable[Step]) -> None:
        if self.keys["done"] == "done":
            self.add_dicts([step._asdict() for step in steps])
            return
        append = self.buffer.append
        for obs, act, rew, next_obs, done in steps:
            append(state=obs, action=act, reward=rew, next_state=next_obs, is_state_terminal=done)

    def add_dicts(self, steps: Sequence[dict]) -> None:
        append, keys, absent = self.buffer.append, self.keys, self.absent
        for step in steps:
            append(**{keys[name]: value for name, value in step.items()}, **absent)

    def add_with_priorities(self, steps: Iterable[Step], priorities: Sequence[float]) -> None:
        append, priority_from_errors = self.buffer.memory.append, self.buffer.priority_from_errors
        done_key = self.keys["done"]
        for (obs, act, rew, next_obs, done), error in zip(steps, priorities, strict=True):
            row = {
                "state": obs,
                "action": act,
                "reward": rew,
                "next_state": next_obs,
                "next_action": None,
                done_key: done,
            }
            append([row], *priority_from_errors([error]))

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        # Pass Python numbers, as a training loop has them: NumPy scalars would take more time and memory.
        parts = [column if column.ndim > 1 else column.tolist() for column in columns.values()]
        if priorities is None:
            self.add_dicts([dict(zip(columns, values, strict=True)) for values in zip(*parts, strict=True)])
            return
        append, priority_from_errors = self.buffer.memory.append, self.buffer.priority_from_errors
        keys, absent = [self.keys[name] for name in columns], {**self.absent, "next_action": None}
        for values, error in zip(zip(*parts, strict=True), priorities.tolist(), strict=True):
            append([dict(zip(keys, values, strict=True), **absent)], *priority_from_errors([error]))

    def sample(self, batch_size: int) -> Columns:
        rows = [steps[0] for steps in self.buffer.sample(batch_size)]
        batch = {name: np.array([row[key] for row in rows], self.fields[name].dtype) for name, key in self.keys.items()}
        return self._with_weights(batch, rows)

    def _with_weights(self, batch: Columns, rows: Sequence[dict[str, Any]]) -> Columns:
        if self.prioritized:
            batch["weights"] = np.array([row["weight"] for row in rows], np.float32)
            batch["indexes"] = self.buffer.memory.sampled_indices  # the update accepts only errors
        return batch

    def update_priorities(self, indexes: Sequence[int], priorities: np.ndarray) -> None:
        self.buffer.update_errors(priorities.tolist())

    def __len__(self) -> int:
        return len(self.buffer)


class PfrlNaive(Pfrl):
    name = "pfrl[naive]"
    usage = "as pfrl, with columns from batch_experiences, as in its agents (pfrl.replay_buffer)"
    contract = replace(
        Pfrl.contract,
        fields=Stated(RowFields.FIXED, "the five fields of batch_experiences; append accepts any"),
        returns=Stated(Returns.ROWS, "stacked by its batch_experiences"),
    )

    @classmethod
    def refusal(cls, spec: Spec) -> str | None:
        if spec.is_plain and spec.fields["done"].shape:
            return f"{cls.name} returns one is_state_terminal per row, but a sequence has many"
        return super().refusal(spec)

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        import torch
        from pfrl.replay_buffer import batch_experiences

        self.batch_experiences, self.device = batch_experiences, torch.device("cpu")

    def sample(self, batch_size: int) -> Columns:
        experiences = self.buffer.sample(batch_size)
        drawn = self.batch_experiences(experiences, self.device, phi=_unchanged, gamma=0.99)
        batch = {name: drawn[key].numpy() for name, key in self.keys.items()}
        batch["done"] = batch["done"].astype(np.bool_)
        return self._with_weights(batch, [steps[0] for steps in experiences])


def _unchanged(state: np.ndarray) -> np.ndarray:
    return state
