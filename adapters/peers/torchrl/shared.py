"""TorchRL's buffer in memory that processes share: explorers extend it, the learner samples and sets priorities.

Used as its reference shows ("Sharing replay buffers across processes" and `TensorDictPrioritizedReplayBuffer`):
`LazyMemmapStorage`, which is shared memory if it has no folder; `shared=True`, which puts each call under one lock; and
`sync=False`, with which only the learner holds the priorities. Before each sample, the learner sets rows added since
the last sample to the largest priority so far. An explorer cannot set the priorities of its rows, so they are ignored
here. The learner can set them, once a sample has registered the new rows.

The storage takes its layout from the first row, which must exist before other processes start, so one row is added and
removed again.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Spec
from adapters.behaviours import GivenPriority
from adapters.contract import Processes, Stated, yes
from adapters.peers.torchrl.adapter import CONTRACT, TorchRL


class TorchRLShared(TorchRL):
    name = "torchrl[shared]"
    usage = (
        "TensorDict(Prioritized)ReplayBuffer(storage=LazyMemmapStorage, shared=True, sync=False), passed to forked "
        "explorers (TorchRL, Sharing replay buffers across processes)"
    )
    contract = replace(
        CONTRACT,
        priorities=yes("set by the learner, only after the add"),
        processes=Stated(Processes.ONE_LEARNER, "shared memory, one lock around every call"),
        given_priority=GivenPriority.NOT_POSSIBLE,
    )

    def make_buffer(self, spec: Spec, generator: Any) -> Any:
        from torchrl.data import LazyMemmapStorage, TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer

        self.learner, self.capacity = os.getpid(), spec.capacity
        options = {"storage": LazyMemmapStorage(spec.capacity), "generator": generator, "shared": True}
        if spec.prioritized:
            buffer = TensorDictPrioritizedReplayBuffer(alpha=spec.alpha, beta=spec.beta, sync=False, **options)
        else:
            buffer = TensorDictReplayBuffer(**options)
        zeros = {name: np.zeros((1, *field.shape), field.dtype) for name, field in spec.fields.items()}
        buffer.extend(self.TensorDict({name: self.as_tensor(column) for name, column in zeros.items()}, batch_size=[1]))
        buffer.empty()
        return buffer

    add_with_priorities = Adapter.add_with_priorities  # ignores the priorities

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        super().add_batch(columns)
        if priorities is not None:
            self._set_newest(priorities)

    def _set_newest(self, priorities: np.ndarray) -> None:
        """Set the priorities of the newest rows, in the learner, while no explorer adds."""
        if os.getpid() == self.learner:
            self.buffer.sample(1)  # otherwise the next sample would set them to the largest priority
            end = self.buffer.write_count
            self.update_priorities(np.arange(end - len(priorities), end) % self.capacity, priorities)
