"""cpprb_impl's sequences of consecutive steps: its option `sequences` (docs/using.md, Sequences of steps)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from adapters.base import Columns
from adapters.behaviours import SequencePadding
from adapters.peers.cpprb.adapter import env_dict
from adapters.peers.cpprb_impl import CONTRACT, CpprbImplNoLock
from adapters.sequences import SequenceAdapter, SequenceContract, SequenceSpec

if TYPE_CHECKING:
    from cpprb_impl import PrioritizedReplayBuffer


class CpprbImplSequences(SequenceAdapter):
    name = "cpprb_impl[sequences]"
    distribution = "cpprb-impl"
    usage = 'sequences={"size", "burn_in"}, ends of episodes "stop"; sample_sequences (docs/using.md)'
    contract = CONTRACT
    sequences = SequenceContract(padding=SequencePadding.MASKED_BURN_IN, source="docs/using.md")
    classes: ClassVar = ("ReplayBuffer", "PrioritizedReplayBuffer")

    def __init__(self, spec: SequenceSpec) -> None:
        import cpprb_impl

        kind = getattr(cpprb_impl, self.classes[spec.prioritized])
        self.beta, self.prioritized, self.has_sequences = spec.beta, spec.prioritized, bool(spec.size)
        wanted = {"env_dict": env_dict(spec.fields), "n_envs": spec.streams, "seed": spec.seed}
        if self.has_sequences:
            wanted["sequences"] = {"size": spec.size, "burn_in": spec.burn_in}
        self.buffer: PrioritizedReplayBuffer = kind(
            spec.capacity, **wanted, **({"alpha": spec.alpha} if spec.prioritized else {})
        )

    def prepared(self, columns: Columns) -> Columns:
        return {name: column.reshape(-1, *column.shape[2:]) for name, column in columns.items()}

    def add(self, columns: Columns) -> None:
        self.buffer.add(**self.prepared(columns))

    def add_prepared(self, calls: Iterable[Columns]) -> None:
        add = self.buffer.add
        for columns in calls:
            add(**columns)

    # These are the library's own methods, so that the figures include no call of the adapter.

    @property
    def sample(self) -> Callable[[int], Columns]:
        draw = self.buffer.sample_sequences if self.has_sequences else self.buffer.sample
        return partial(draw, beta=self.beta) if self.prioritized else draw

    @property
    def update_priorities(self) -> Callable[[np.ndarray, np.ndarray], None]:
        return self.buffer.update_priorities


class CpprbImplSharedSequences(CpprbImplSequences):
    """The buffers that processes share. Each process adds streams of its own."""

    name = "cpprb_impl[shared sequences]"
    contract = CpprbImplNoLock.contract
    classes = ("MPReplayBuffer", "MPPrioritizedReplayBuffer")
