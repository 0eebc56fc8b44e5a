"""Stable-Baselines3: the replay buffers of its off-policy algorithms.

Used as in `OffPolicyAlgorithm._store_transition`: `add` stores one step of every parallel environment, and `sample`
returns PyTorch tensors. "stable-baselines3" has one environment, so a call adds one row and a batch takes one call per
row. "stable-baselines3[vector]" has up to 100 (`n_envs`); rows wait until there is one for each environment. Fields
named "obs.x" and "next_obs.x" select a `DictReplayBuffer`. `handle_timeout_termination` is off, because it needs steps
whose `infos` report a timeout, which a `Step` lacks. `done` is stored and returned as float32.

The buffers' option `optimize_memory_usage` is not equivalent to this project's `next_of`: an episode's last next_obs is
overwritten with the first obs of the next one, and one row of a full buffer is never drawn.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adapters import dict_observations, parallel
from adapters.base import Adapter, Columns, Field, Spec, Step
from adapters.behaviours import Seed, Shape
from adapters.contract import Contract, Release, Returns, RowFields, Stated, no, yes
from adapters.dict_observations import NEXT_OBS, OBS, nested
from adapters.parallel import RowCollector


class StableBaselines3(Adapter):
    name = "stable-baselines3"
    distribution = "stable-baselines3"
    venv = "torch"
    usage = (
        "ReplayBuffer.add(obs, next_obs, action, reward, done, infos) of one environment, sample, as in its DQN and SAC"
    )
    contract = Contract(
        batch_add=no("one row of each parallel environment per call; here one environment, so a loop of single adds"),
        fields=Stated(RowFields.DICT_OBSERVATIONS, "five fixed fields; observations may be dicts (DictReplayBuffer)"),
        priorities=no(),
        returns=Stated(Returns.COLUMNS, "PyTorch tensors"),
        n_step=yes("NStepReplayBuffer, when sampling"),
        disk=yes("the algorithm's save_replay_buffer: a pickle", "its source: OffPolicyAlgorithm"),
        compression=no("optimize_memory_usage loses the last next_obs of each episode"),
        framework="PyTorch, Gymnasium",
        licence="MIT",
        release=Release("2.9.2", datetime.date(2026, 10, 26)),
        shape=Shape.SCALARS_HAVE_AN_AXIS,
        seed=Seed.GLOBAL,
        source="docstring of set_random_seed (the different random generators); the rest is only observed",
    )

    def __init__(self, spec: Spec) -> None:
        import torch
        from gymnasium import spaces

        torch.set_num_threads(1)
        self.fields = spec.fields
        self.parts = dict_observations.parts(spec.fields)

        def space(field: Field) -> spaces.Space:
            dtype = np.dtype(field.dtype)
            bounds = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (-np.inf, np.inf)
            return spaces.Box(*bounds, field.shape or (1,), dtype.type)  # a scalar gets an axis, as in Discrete

        if self.parts:
            observation = spaces.Dict({part: space(spec.fields[OBS + part]) for part in self.parts})
        else:
            observation = space(spec.fields["obs"])
        kind, options = self.buffer_class(spec)
        self.buffer = kind(
            spec.capacity,
            observation,
            space(spec.fields["act"]),
            device="cpu",
            n_envs=self.environments(spec),
            handle_timeout_termination=False,
            **options,
        )

    def buffer_class(self, spec: Spec) -> tuple[type[Any], Mapping[str, Any]]:
        """Return the class of the buffer and further arguments for its constructor."""
        from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

        return DictReplayBuffer if self.parts else ReplayBuffer, {}

    def environments(self, spec: Spec) -> int:
        return 1

    def add(self, steps: Sequence[Step]) -> None:
        add, array, infos = self.buffer.add, np.array, [{}]
        for obs, act, rew, next_obs, done in steps:
            add(obs, next_obs, array(act), rew, done, infos)

    def add_dicts(self, steps: Sequence[dict]) -> None:
        if not self.parts:
            super().add_dicts(steps)
            return
        add, array, infos = self.buffer.add, np.array, [{}]
        for step in steps:
            obs, next_obs = nested(step, self.parts)
            add(obs, next_obs, array(step["act"]), step["rew"], step["done"], infos)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        rows = zip(*columns.values(), strict=True)
        if self.parts:
            self.add_dicts([dict(zip(columns, row, strict=True)) for row in rows])
        else:
            self.add_batches([Step(**columns)])

    def add_batches(self, batches: Sequence[Step]) -> None:
        add, infos = self.buffer.add, [{}]
        for batch in batches:
            for obs, act, rew, next_obs, done in zip(*batch, strict=True):
                add(obs, next_obs, act, rew, done, infos)

    def sample(self, batch_size: int) -> Columns:
        drawn = self.buffer.sample(batch_size)
        batch = {"act": drawn.actions.numpy(), "rew": drawn.rewards.numpy(), "done": drawn.dones.numpy() != 0}
        if self.parts:
            for part in self.parts:
                batch[OBS + part] = drawn.observations[part].numpy()
                batch[NEXT_OBS + part] = drawn.next_observations[part].numpy()
        else:
            batch["obs"], batch["next_obs"] = drawn.observations.numpy(), drawn.next_observations.numpy()
        return batch

    def __len__(self) -> int:
        return self.buffer.size()


class StableBaselines3Vector(StableBaselines3):
    name = "stable-baselines3[vector]"
    usage = (
        "ReplayBuffer(n_envs=100).add, one row of each of 100 parallel environments (guide, Vectorized Environments)"
    )
    contract = replace(StableBaselines3.contract, batch_add=yes("one row of each parallel environment per call"))

    def environments(self, spec: Spec) -> int:
        self.gathered = RowCollector(parallel.environments(spec.capacity), self._put)
        self.infos = [{}] * self.gathered.at_once
        # In its space, a scalar has an axis: see `space` in the constructor.
        self.numbers = [name for name, field in spec.fields.items() if not field.shape and "obs" in name]
        return self.gathered.at_once

    def add(self, steps: Sequence[Step]) -> None:
        self.gathered.add_dicts([dict(zip(Step._fields, step, strict=True)) for step in steps])

    def add_dicts(self, steps: Sequence[dict]) -> None:
        self.gathered.add_dicts(steps)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        self.gathered.add(columns)

    def add_batches(self, batches: Sequence[Step]) -> None:
        for batch in batches:
            self.gathered.add(batch._asdict())

    def _put(self, columns: Columns) -> None:
        columns = columns | {name: columns[name][:, np.newaxis] for name in self.numbers}
        obs, next_obs = nested(columns, self.parts) if self.parts else (columns["obs"], columns["next_obs"])
        self.buffer.add(obs, next_obs, columns["act"], columns["rew"], columns["done"], self.infos)

    def __len__(self) -> int:
        return self.buffer.size() * self.buffer.n_envs

    @property
    def waiting(self) -> int:
        return self.gathered.waiting
