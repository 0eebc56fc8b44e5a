"""Plain buffers that are sound, but not in the usual way: the checks must report no fault of them."""

from __future__ import annotations

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
    step = 1e-2


class NotNormalised(PlainBuffer):
    def weights(self, slots, beta):
        return (self.tree.leaves[slots] / self.tree.total * len(self)) ** -beta
