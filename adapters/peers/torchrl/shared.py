"""TorchRL's buffer in memory that processes share: explorers extend it, the learner samples and sets priorities.

Used as its reference says ("Sharing replay buffers across processes" and `TensorDictPrioritizedReplayBuffer`):
`LazyMemmapStorage`, which without a folder is shared memory, `shared=True`, which puts each call under one lock, and
`sync=False`: the priorities live in the learner alone. Before each sample it gives the rows that were added since the
last one the largest priority so far. So an explorer can't set the priorities of its rows, and they are dropped here.
The learner can, once a sample has taken notice of its rows.

The storage takes its layout from the first row, which must be there before processes start: it is added and removed
again.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Features, Spec
from adapters.peers.torchrl.adapter import FEATURES, PROMISES, TorchRL


class TorchRLShared(TorchRL):
    name = "torchrl[shared]"
    usage = (
        "TensorDict(Prioritized)ReplayBuffer(storage=LazyMemmapStorage, shared=True, sync=False), passed to forked "
        "explorers (TorchRL, Sharing replay buffers across processes)"
    )
    features = Features(
        copies_on_add="yes",
        **FEATURES
        | {
            "prioritized": "yes, by the learner; none on add (set after it)",
            "processes": "many explorers, one learner; shared memory, every call under one lock",
        },
    )
    promises = replace(PROMISES, given_priority="none on add")

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

    add_with_priorities = Adapter.add_with_priorities  # a plain add

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        super().add_batch(columns)
        if priorities is not None:
            self._set_newest(priorities)

    def _set_newest(self, priorities: np.ndarray) -> None:
        """Set the priorities of the rows added last, in the learner, with no explorers beside it."""
        if os.getpid() == self.learner:
            self.buffer.sample(1)  # or the next sample would give them the largest priority again
            end = self.buffer.write_count
            self.update_priorities(np.arange(end - len(priorities), end) % self.capacity, priorities)
