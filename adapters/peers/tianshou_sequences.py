"""Tianshou's stacks: `stack_num` makes sequences of the steps that precede each drawn step (docs, Buffer).

`ReplayBuffer.sample` stacks obs and obs_next, and returns the other keys of the last step only. `get` stacks any key
(its docstring), so a sequence is `sample_indices` and a `get` per key.

- "tianshou[stack_num]" draws any stored step. Where its episode has too few steps before it, the episode's first step
  is repeated, and nothing says so.
- "tianshou[sample_avail]" sets `sample_avail=True`: only steps with enough steps before them are drawn. Each sample
  searches the whole buffer for them. A prioritized buffer ignores this option, so it is not measured.

Several streams are the sub-buffers of a VectorReplayBuffer, and are added step by step. Many steps of one stream are
added with `from_data` and `update`, as in `tianshou.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from adapters.base import Columns
from adapters.behaviours import SequencePadding
from adapters.contract import no
from adapters.peers.tianshou import Tianshou
from adapters.sequences import SequenceAdapter, SequenceContract, SequenceSpec

KEYS = {"obs": "obs", "act": "act", "rew": "rew", "next_obs": "obs_next", "done": "terminated"}


class TianshouStacks(SequenceAdapter):
    name = "tianshou[stack_num]"
    distribution = "tianshou"
    venv = "torch"
    usage = (
        "(Prioritized)ReplayBuffer(stack_num), many steps by update(ReplayBuffer.from_data(...)); sample_indices, and "
        "get for each key (Tianshou docs, Buffer; docstring of get)"
    )
    contract = Tianshou.contract
    sequences = SequenceContract(
        padding=SequencePadding.REPEATED,
        source="docs, Buffer; docstrings of get and prev, which keeps the index of an episode's first step",
    )
    sample_avail: ClassVar[bool] = False

    def __init__(self, spec: SequenceSpec) -> None:
        import torch
        from tianshou.data import Batch, ReplayBuffer

        torch.set_num_threads(1)
        self.spec, self.Batch, self.from_data = spec, Batch, ReplayBuffer.from_data
        self.streams = np.arange(spec.streams)
        self.buffer = self._make()

    def _make(self) -> Any:
        from tianshou import data

        spec = self.spec
        options: dict[str, Any] = {
            "stack_num": spec.length,
            "sample_avail": self.sample_avail,
            "random_seed": spec.seed,
        }
        if spec.prioritized:
            options |= {"alpha": spec.alpha, "beta": spec.beta}
        if spec.streams == 1:
            return (data.PrioritizedReplayBuffer if spec.prioritized else data.ReplayBuffer)(spec.capacity, **options)
        kind = data.PrioritizedVectorReplayBuffer if spec.prioritized else data.VectorReplayBuffer
        return kind(spec.capacity, spec.streams, **options)

    def add(self, columns: Columns) -> None:
        rows = {key: columns[name] for name, key in KEYS.items()}
        rows["truncated"] = np.zeros_like(rows["terminated"])
        if self.spec.streams == 1:
            one = {key: column[:, 0] for key, column in rows.items()}
            self.buffer.update(self.from_data(**one, done=one["terminated"]))
            return
        for step in range(len(rows["terminated"])):
            self.buffer.add(self.Batch({key: column[step] for key, column in rows.items()}), buffer_ids=self.streams)

    def sample(self, batch_size: int) -> Columns:
        indexes = self.buffer.sample_indices(batch_size)
        batch = {name: self.buffer.get(indexes, key) for name, key in KEYS.items()}
        if self.spec.prioritized:
            weights = self.buffer.get_weight(indexes)
            batch["weights"], batch["indexes"] = weights / weights.max(), indexes
        return batch

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self.buffer.update_weight(indexes, priorities)


class TianshouAvailable(TianshouStacks):
    name = "tianshou[sample_avail]"
    usage = "as tianshou[stack_num], and sample_avail=True (docstring of ReplayBuffer)"
    contract = replace(Tianshou.contract, priorities=no("sample_avail has no effect on prioritized sampling"))
    sequences = SequenceContract(source="docstring of ReplayBuffer")
    sample_avail = True
