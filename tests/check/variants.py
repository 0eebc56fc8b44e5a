"""Plain buffers that are sound, but not in the usual way: the checks must report no fault of them."""

from __future__ import annotations

import numpy as np

from tests.check.plain import PlainBuffer


class Annealing(PlainBuffer):
    """Raises beta with each batch."""

    step = 1e-3

    def weights(self, slots, beta):
        weights = super().weights(slots, self.beta)
        self.beta = min(1.0, self.beta + self.step)
        return weights


class AnnealingSlowly(Annealing):
    step = 1e-5


class AnnealingFast(Annealing):
    """Has beta 1 after 60 batches, which is before most probes begin to compare weights."""

    step = 1e-2


class Clipping(PlainBuffer):
    """Adds 0.01 to priorities and clips them at 1, as PER tutorials do (functions: EPS = 0.01, LARGEST = 1.0)."""

    def set_priorities(self, slots, priorities):
        super().set_priorities(slots, np.minimum(priorities + 0.01, 1.0))


class NotNormalised(PlainBuffer):
    def weights(self, slots, beta):
        return (self.tree.leaves[slots] / self.tree.total * len(self)) ** -beta


class HalfWritesSpareSlot(PlainBuffer):
    """Writes a row field by field before it finds a wrong shape, in a slot that is not drawn and that the next row
    overwrites."""

    def __init__(self, capacity, *arguments):
        super().__init__(capacity, *arguments)
        spare = {name: np.zeros((capacity + 1, *each.shape[1:]), each.dtype) for name, each in self.columns.items()}
        self.columns = spare

    def valid(self, columns):
        for name, stored in self.columns.items():
            columns[name] = np.asarray(columns[name])
            if columns[name].shape[1:] == (1,) != stored.shape[1:]:
                columns[name] = np.zeros((1, 0))  # which NumPy does not broadcast
        return columns

    def slots(self, first, last):
        return (self.added + np.arange(first, last)) % (self.capacity + 1)

    def evenly(self, size):
        oldest = max(0, self.added - self.capacity)
        return (oldest + self.random.integers(len(self), size=size)) % (self.capacity + 1)
