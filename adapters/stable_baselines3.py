"""Stable-Baselines3: its replay buffers, which its off-policy algorithms fill and learn from.

Used as `OffPolicyAlgorithm._store_transition` does: `add` of one step of every parallel environment (one here, so a row
a call, and many rows are as many calls), `sample` of PyTorch tensors. Spaces tell the shapes and dtypes. Fields named
"obs.x" and "next_obs.x" make it a `DictReplayBuffer`.
Without `handle_timeout_termination`: it is for steps whose `infos` say that time ran out, and a `Step` has none.
It keeps and gives `done` as float32.

Its `optimize_memory_usage` is not this project's `next_of`: the last next_obs of an episode is overwritten with the
first obs of the next one, and of a full buffer one row is never drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adapters import dict_observations
from adapters.base import Adapter, Columns, Features, Field, Spec, Step
from adapters.dict_observations import NEXT_OBS, OBS, nested
from adapters.promises import Promises


class StableBaselines3(Adapter):
    name = "stable-baselines3"
    distribution = "stable-baselines3"
    environment = "torch"
    any_fields = True  # dict observations; the constructor refuses others
    usage = (
        "ReplayBuffer.add(obs, next_obs, action, reward, done, infos) of one environment, sample (as its DQN and SAC)"
    )
    features = Features(
        batch_add="no: one row of each parallel environment a call (here: a loop of single adds)",
        flexible_fields="no: five fixed fields; observations may be dicts (DictReplayBuffer)",
        prioritized="no",
        weights="no",
        duplicates="yes",
        gives="columns (PyTorch tensors)",
        copies_on_add="yes",
        n_step="yes (NStepReplayBuffer, when sampling)",
        processes="no",
        framework="PyTorch, Gymnasium",
        licence="MIT",
        disk="yes, the algorithm's save_replay_buffer: a pickle [its source: OffPolicyAlgorithm]",
        machines="no",
        last_release="2.9.2, 2026-10-26 [PyPI]",
        compression="no: optimize_memory_usage loses the last next_obs of each episode",
    )

    promises = Promises(
        shape="scalars as (1,)",
        seed="global seed",
        source="docstring of set_random_seed (the different random generators); the rest is not documented, seen",
    )

    def __init__(self, spec: Spec) -> None:
        import torch
        from gymnasium import spaces
        from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

        torch.set_num_threads(1)
        self.fields = spec.fields
        self.parts = dict_observations.parts(self.name, spec)

        def space(field: Field) -> spaces.Space:
            dtype = np.dtype(field.dtype)
            bounds = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (-np.inf, np.inf)
            return spaces.Box(*bounds, field.shape or (1,), dtype.type)  # a number as its Discrete: with an axis

        if self.parts:
            observation = spaces.Dict({part: space(spec.fields[OBS + part]) for part in self.parts})
        else:
            observation = space(spec.fields["obs"])
        buffer = DictReplayBuffer if self.parts else ReplayBuffer
        self.buffer = buffer(
            spec.capacity, observation, space(spec.fields["act"]), device="cpu", handle_timeout_termination=False
        )

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
