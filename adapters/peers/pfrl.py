"""PFRL: ChainerRL's successor for PyTorch; of it, its two replay buffers, unchanged.

Used as its agents do (`pfrl.agents.dqn`): `append` with keywords, `sample(n)`, `update_errors` with a list. A sample is
a list of n-step lists of dicts, which the learner turns into columns. "pfrl" stacks each key with NumPy; "pfrl[naive]"
calls `batch_experiences`, as its agents do, which makes tensors of them (and "is_state_terminal" a float).
Its appends take no priority: a step that brings one is appended to the buffer's inner memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Features, Field, Spec, Step
from adapters.promises import Promises

#: PFRL's names for the five fields. Others are kept by its `append` under their own names.
_KEYS = {"obs": "state", "act": "action", "rew": "reward", "next_obs": "next_state", "done": "is_state_terminal"}
#: What `append` can't do without.
_NEEDED = {"state": None, "action": None, "reward": 0.0}

_ONE = Field((), "bool")

FEATURES = {
    "batch_add": "no: a loop of single appends",
    "flexible_fields": "yes: any Python object, more keys as keywords of append",
    "prioritized": "yes, on add only through its inner memory; an update must follow each sample",
    "weights": "relative to the largest in the batch (or, an option, in the buffer)",
    "duplicates": "never",
    "copies_on_add": "no: keeps references to the caller's arrays",
    "n_step": "yes",
    "processes": "no",
    "framework": "PyTorch",
    "licence": "MIT",
    "disk": "yes, save and load: a pickle [its source: ReplayBuffer.save]",
    "machines": "no",
    "last_release": "0.4.0, 2023-07-16 [PyPI]",
}


class Pfrl(Adapter):
    name = "pfrl"
    distribution = "pfrl"
    environment = "torch"
    any_fields = True
    usage = (
        "append(state=...), sample(n), each key stacked by NumPy, update_errors(errors), as its DQN (pfrl.agents.dqn)"
    )
    eps = 0.01  # its default
    features = Features(gives="rows (stacked here)", **FEATURES)
    promises = Promises(
        new_row_priority="the largest update",
        weights="over the batch",
        replacement="without",
        prioritized_replacement="without",
        stale_update="changes other rows",
        references="keeps references",
        batch_over_stored="refused",
        nan_priority="ignored",  # taken for an error of 0
        negative_priority="ignored",  # this, too
        infinite_priority="poisons",
        seed="global seed",
        source="docstrings of AbstractReplayBuffer (n unique transitions) and PrioritizedReplayBuffer "
        "(normalize_by_max); the rest is not documented, seen",
    )

    def __init__(self, spec: Spec) -> None:
        import torch
        from pfrl.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer

        torch.set_num_threads(1)
        self.prioritized, self.fields = spec.prioritized, spec.fields
        self.keys = {name: _KEYS.get(name, name) for name in spec.fields}
        if spec.fields.get("done", _ONE).shape:
            self.keys["done"] = "done"  # of a sequence there are many, and its append asks for one
        self.absent = {key: value for key, value in _NEEDED.items() if key not in self.keys.values()}
        if spec.prioritized:
            self.buffer = PrioritizedReplayBuffer(
                spec.capacity,
                alpha=spec.alpha,
                beta0=spec.beta,
                betasteps=None,
                eps=self.eps,
                error_max=None,  # its default, 1, would make all priorities above it alike
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
        # Numbers as a training loop has them: a NumPy scalar a value would take longer, and more memory.
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
            batch["indexes"] = self.buffer.memory.sampled_indices  # remembered there too: the update takes errors only
        return batch

    def update_priorities(self, indexes: Sequence[int], priorities: np.ndarray) -> None:
        self.buffer.update_errors(priorities.tolist())

    def __len__(self) -> int:
        return len(self.buffer)


class PfrlNaive(Pfrl):
    name = "pfrl[naive]"
    any_fields = False
    usage = "the same, with batch_experiences, as its agents do, for the columns (pfrl.replay_buffer)"
    features = Features(gives="rows (stacked by its batch_experiences)", **FEATURES)

    def __init__(self, spec: Spec) -> None:
        if spec.fields["done"].shape:
            raise NotImplementedError(f"{self.name} makes one is_state_terminal a row, and a sequence has many")
        super().__init__(spec)
        import torch
        from pfrl.replay_buffer import batch_experiences

        self.batch_experiences, self.device = batch_experiences, torch.device("cpu")

    def sample(self, batch_size: int) -> Columns:
        experiences = self.buffer.sample(batch_size)
        drawn = self.batch_experiences(experiences, self.device, phi=_as_it_is, gamma=0.99)
        batch = {name: drawn[key].numpy() for name, key in self.keys.items()}
        batch["done"] = batch["done"].astype(np.bool_)
        return self._with_weights(batch, [steps[0] for steps in experiences])


def _as_it_is(state: np.ndarray) -> np.ndarray:
    return state
