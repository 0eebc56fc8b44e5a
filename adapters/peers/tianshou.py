"""Tianshou 2: replay buffers of Batches, its own nested columns of NumPy arrays.

Used as in its tutorial (pages "Buffer" and "Batch"): `add(Batch(...))` of one step, `sample(n)`, which returns a Batch
and its indexes, and `update_weight(indexes, priorities)`. There is no method to add many rows of one environment:
"tianshou" creates a buffer from them with `ReplayBuffer.from_data` and copies it with `update`, which is ten times as
fast as a loop. "tianshou[vector]" is a `VectorReplayBuffer`, which takes a row of each parallel environment per call.
Here each row goes to the next of up to 100 environments, so that a batch of 100 is one call and the oldest rows are
overwritten first.

Weights are relative to the largest in the batch (`weight_norm`, the default); without it they would be relative to the
smallest priority ever seen, before alpha. `random_seed` applies to uniform draws only; prioritized draws use NumPy's
global generator.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adapters import dict_observations, parallel
from adapters.base import Adapter, Columns, Spec, Step
from adapters.behaviours import BadPriority, Dtype, ImportanceWeights, Seed
from adapters.contract import Contract, Release, Returns, RowFields, Stated, no, yes
from adapters.dict_observations import NEXT_OBS, OBS, nested


class Tianshou(Adapter):
    name = "tianshou"
    distribution = "tianshou"
    venv = "torch"
    usage = (
        "ReplayBuffer.add(Batch(...)), many rows by update(ReplayBuffer.from_data(...)), sample (Tianshou docs, Buffer)"
    )
    contract = Contract(
        batch_add=yes("through a second buffer: from_data, update"),
        fields=Stated(
            RowFields.DICT_OBSERVATIONS, "fixed fields; obs, info and policy may be nested Batches of anything"
        ),
        priorities=yes("priorities on add (in a second call) and later"),
        returns=Stated(Returns.COLUMNS, "Batch"),
        n_step=yes("the algorithm computes them when it samples"),
        disk=yes("save_hdf5 and load_hdf5, or a pickle", "its source: ReplayBuffer.save_hdf5"),
        compression=no("ignore_obs_next and save_only_last_obs lose the last next_obs of each episode"),
        framework="PyTorch, Gymnasium, Numba",
        licence="MIT",
        release=Release("2.0.1", datetime.date(2026, 4, 2)),
        eps=float(np.finfo(np.float32).eps),  # as in its source
        dtype=Dtype.WIDER,
        weights=ImportanceWeights.OVER_BATCH,
        nan_priority=BadPriority.POISONS,
        negative_priority=BadPriority.ABSOLUTE_VALUE,
        infinite_priority=BadPriority.POISONS,
        seed=Seed.GLOBAL,  # NumPy's; its random_seed is not documented and applies to uniform draws only
        source="docstrings of PrioritizedReplayBuffer (weight_norm) and ReplayBuffer (circular); "
        "the rest is undocumented, only observed",
    )

    def __init__(self, spec: Spec) -> None:
        import torch
        from tianshou.data import Batch, ReplayBuffer

        torch.set_num_threads(1)
        self.fields, self.prioritized = spec.fields, spec.prioritized
        self.parts = dict_observations.parts(spec.fields)
        self.Batch, self.from_data = Batch, ReplayBuffer.from_data
        self.buffer = self.make_buffer(spec)

    def make_buffer(self, spec: Spec) -> Any:
        from tianshou.data import PrioritizedReplayBuffer, ReplayBuffer

        if spec.prioritized:
            return PrioritizedReplayBuffer(spec.capacity, alpha=spec.alpha, beta=spec.beta, random_seed=spec.seed)
        return ReplayBuffer(spec.capacity, random_seed=spec.seed)

    def add(self, steps: Sequence[Step]) -> None:
        add, Batch = self.buffer.add, self.Batch  # noqa: N806
        for obs, act, rew, next_obs, done in steps:
            add(Batch(obs=obs, act=act, rew=rew, terminated=done, truncated=False, obs_next=next_obs))

    def add_dicts(self, steps: Sequence[dict]) -> None:
        if not self.parts:
            super().add_dicts(steps)
            return
        rows = [(step["act"], step["rew"], step["done"], *nested(step, self.parts)) for step in steps]
        self.add([Step(obs, act, rew, next_obs, done) for act, rew, done, obs, next_obs in rows])

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        add, update, Batch = self.buffer.add, self.buffer.update_weight, self.Batch  # noqa: N806
        for (obs, act, rew, next_obs, done), priority in zip(steps, priorities, strict=True):
            row = Batch(obs=obs, act=act, rew=rew, terminated=done, truncated=False, obs_next=next_obs)
            update(add(row)[0], np.array([priority]))

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        rows = self.as_batch(columns)
        index = self.buffer.update(self.from_data(**rows, done=rows["terminated"]))
        if priorities is not None:
            self.buffer.update_weight(index, priorities)

    def as_batch(self, columns: Columns) -> dict[str, Any]:
        if self.parts:
            obs, next_obs = map(self.Batch, nested(columns, self.parts))
        else:
            obs, next_obs = columns["obs"], columns["next_obs"]
        done = columns["done"]
        return {
            "obs": obs,
            "act": columns["act"],
            "rew": columns["rew"],
            "terminated": done,
            "truncated": np.zeros_like(done),
            "obs_next": next_obs,
        }

    def sample(self, batch_size: int) -> Columns:
        drawn, indexes = self.buffer.sample(batch_size)
        batch = {"act": drawn.act, "rew": drawn.rew, "done": drawn.terminated}
        if self.parts:
            for part in self.parts:
                batch[OBS + part], batch[NEXT_OBS + part] = drawn.obs[part], drawn.obs_next[part]
        else:
            batch["obs"], batch["next_obs"] = drawn.obs, drawn.obs_next
        if self.prioritized:
            batch["weights"], batch["indexes"] = drawn.weight, indexes
        return batch

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self.buffer.update_weight(indexes, priorities)

    def __len__(self) -> int:
        return len(self.buffer)


class TianshouVector(Tianshou):
    name = "tianshou[vector]"
    usage = (
        "VectorReplayBuffer.add(Batch(...), buffer_ids), one row of each of 100 parallel environments (docs, Buffer)"
    )
    contract = replace(Tianshou.contract, batch_add=yes("one row of each parallel environment per call"))

    def make_buffer(self, spec: Spec) -> Any:
        from tianshou.data import PrioritizedVectorReplayBuffer, VectorReplayBuffer

        self.environments = parallel.environments(spec.capacity)
        self.next_environment = 0
        if spec.prioritized:
            return PrioritizedVectorReplayBuffer(spec.capacity, self.environments, alpha=spec.alpha, beta=spec.beta)
        return VectorReplayBuffer(spec.capacity, self.environments, random_seed=spec.seed)

    def add(self, steps: Sequence[Step]) -> None:
        add, Batch, array, never = self.buffer.add, self.Batch, np.array, np.zeros(1, bool)  # noqa: N806
        for (obs, act, rew, next_obs, done), ids in zip(steps, self.next_environments(len(steps), 1), strict=True):
            row = {"act": array([act]), "rew": array([rew]), "terminated": array([done]), "truncated": never}
            add(Batch(obs=[obs], obs_next=[next_obs], **row), buffer_ids=ids)

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        add, update, Batch = self.buffer.add, self.buffer.update_weight, self.Batch  # noqa: N806
        array, never = np.array, np.zeros(1, bool)
        all_ids = self.next_environments(len(steps), 1)
        for (obs, act, rew, next_obs, done), priority, ids in zip(steps, priorities, all_ids, strict=True):
            row = {"act": array([act]), "rew": array([rew]), "terminated": array([done]), "truncated": never}
            update(add(Batch(obs=[obs], obs_next=[next_obs], **row), buffer_ids=ids)[0], array([priority]))

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        first, rows = 0, self.Batch(self.as_batch(columns))
        for ids in self.next_environments(len(rows), self.environments):
            some = slice(first, first + len(ids))
            index = self.buffer.add(rows[some], buffer_ids=ids)[0]
            if priorities is not None:
                self.buffer.update_weight(index, priorities[some])
            first += len(ids)

    def next_environments(self, rows: int, at_once: int) -> list[np.ndarray]:
        """Yield the environments that the next `rows` rows belong to, at most `at_once` per call."""
        ids = (self.next_environment + np.arange(rows)) % self.environments
        self.next_environment = (self.next_environment + rows) % self.environments
        return [ids[first : first + at_once] for first in range(0, rows, at_once)]
