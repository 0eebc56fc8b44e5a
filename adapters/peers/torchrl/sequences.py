"""TorchRL's slices: sequences of consecutive steps that `SliceSampler` cuts out of the stored episodes.

Episodes are found by `end_key`, as SliceSampler's docstring recommends for speed, and their bounds are cached until the
next add.
`truncated_key=None` and `init_key=None` leave the stored steps as they are. Several streams need a storage with two
dimensions, and are added as (streams, steps) (pull request 4478). Priorities are those of single steps, and a slice is
drawn by that of its first step, so an update sets only this one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adapters.base import Columns
from adapters.behaviours import SequenceBounds, SequenceStarts
from adapters.peers.torchrl.adapter import CONTRACT
from adapters.sequences import SequenceAdapter, SequenceContract, SequenceSpec


class TorchRLSlices(SequenceAdapter):
    name = "torchrl[SliceSampler]"
    distribution = "torchrl"
    venv = "torch"
    usage = (
        "ReplayBuffer(LazyTensorStorage, (Prioritized)SliceSampler(slice_len, end_key, cache_values=True)), extend, "
        "sample(return_info=True) (docstring of SliceSampler); one thread"
    )
    contract = CONTRACT
    sequences = SequenceContract(
        starts=SequenceStarts.EPISODES_EVEN,
        prioritized_bounds=SequenceBounds.BROKEN,  # only with several streams
        source="docstring of SliceSampler; how starts are drawn: only observed",
    )

    def __init__(self, spec: SequenceSpec) -> None:
        import torch
        from tensordict import TensorDict
        from torchrl.data import LazyTensorStorage, ReplayBuffer

        torch.set_num_threads(1)
        self.spec, self.TensorDict, self.as_tensor = spec, TensorDict, torch.as_tensor
        self.dtypes = {name: getattr(torch, field.dtype) for name, field in spec.fields.items()}
        self.buffer = ReplayBuffer(
            storage=LazyTensorStorage(spec.capacity, ndim=1 if spec.streams == 1 else 2),
            sampler=self._sampler(),
            generator=torch.Generator().manual_seed(spec.seed),
        )

    def _sampler(self) -> Any:
        from torchrl.data import PrioritizedSliceSampler, SliceSampler

        spec = self.spec
        options = {
            "slice_len": spec.length,
            "end_key": "done",
            "cache_values": True,
            "truncated_key": None,
            "init_key": None,
        }
        if spec.prioritized:
            return PrioritizedSliceSampler(spec.capacity, spec.alpha, spec.beta, **options)
        return SliceSampler(**options)

    def add(self, columns: Columns) -> None:
        steps, streams = columns["done"].shape
        shape = (steps,) if streams == 1 else (streams, steps)
        rows = {
            name: self.as_tensor(np.swapaxes(column, 0, 1).reshape(*shape, *column.shape[2:]), dtype=self.dtypes[name])
            for name, column in columns.items()
        }
        self.buffer.extend(self.TensorDict(rows, batch_size=shape, device="cpu"))

    def sample(self, batch_size: int) -> Columns:
        length = self.spec.length
        drawn, info = self.buffer.sample(batch_size * length, return_info=True)
        rows = drawn.view(batch_size, length)
        batch = {name: rows.get(name).numpy() for name in self.dtypes}
        if self.spec.prioritized:
            batch["weights"] = info["priority_weight"].view(batch_size, length)[:, 0].numpy()
            batch["indexes"] = self._first(info["index"], length)
        return batch

    def _first(self, index: Any, length: int) -> Any:
        """Return the index of each slice's first step."""
        if isinstance(index, tuple):
            return tuple(each[::length] for each in index)
        return index.view(-1)[::length]

    def update_priorities(self, indexes: Any, priorities: np.ndarray) -> None:
        self.buffer.update_priority(indexes, self.as_tensor(priorities.astype(np.float32)))
