"""An adapter with which the gate compares two versions of a project's buffer: here, Stable-Baselines3's.

    make gate BASE=v2.8.0 PROJECT=../stable-baselines3 ADAPTER=examples/gate_adapter.py

docs/gate-elsewhere.md explains it. An adapter contains the loops, so that no harness code is timed between two calls of
the library.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adapters.base import Adapter, Columns, Field, Spec, Step
from adapters.behaviours import Seed, Shape
from adapters.contract import Contract, Returns, RowFields, Stated, no


class StableBaselines3(Adapter):
    name = "sb3"
    distribution = "stable-baselines3"
    venv = "torch"  # adapters/pins/torch.txt has PyTorch and Gymnasium; without this line: what .venv has
    usage = "ReplayBuffer.add of one environment, and sample, as in its DQN and SAC"
    # What the buffer promises. Each answer is checked before it is timed; what is not stated has the usual behaviour.
    contract = Contract(
        batch_add=no(),
        fields=Stated(RowFields.FIXED),
        priorities=no(),
        returns=Stated(Returns.COLUMNS, "PyTorch tensors"),
        n_step=no(),
        disk=no(),
        framework="PyTorch, Gymnasium",
        licence="MIT",
        shape=Shape.SCALARS_HAVE_AN_AXIS,
        seed=Seed.GLOBAL,
    )

    def __init__(self, spec: Spec) -> None:
        import torch
        from gymnasium.spaces import Box
        from stable_baselines3.common.buffers import ReplayBuffer

        def space(field: Field) -> Box:
            dtype = np.dtype(field.dtype)
            low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (-np.inf, np.inf)
            return Box(low, high, field.shape or (1,), dtype.type)

        torch.set_num_threads(1)
        self.fields = spec.fields
        spaces = space(spec.fields["obs"]), space(spec.fields["act"])
        self.buffer = ReplayBuffer(spec.capacity, *spaces, device="cpu", handle_timeout_termination=False)

    def add(self, steps: Sequence[Step]) -> None:
        add, array, infos = self.buffer.add, np.array, [{}]
        for obs, act, rew, next_obs, done in steps:
            add(obs, next_obs, array(act), rew, done, infos)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        add, infos = self.buffer.add, [{}]
        for obs, act, rew, next_obs, done in zip(*(columns[name] for name in Step._fields), strict=True):
            add(obs, next_obs, act, rew, done, infos)

    def sample(self, batch_size: int) -> Columns:
        drawn = self.buffer.sample(batch_size)
        return {
            "obs": drawn.observations.numpy(),
            "act": drawn.actions.numpy(),
            "rew": drawn.rewards.numpy(),
            "next_obs": drawn.next_observations.numpy(),
            "done": drawn.dones.numpy() != 0,
        }

    def __len__(self) -> int:
        return self.buffer.size()
