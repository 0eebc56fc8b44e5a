"""Faults of several sizes. The first line of a class says what its size `x` means, and is shown in the table of
docs/check-controls.md."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.check.episodic_functions import Episodic
from tests.check.plain import PlainBuffer
from tests.check.together import SamplesWithoutLock, TogetherBuffer

FOLDER = Path(__file__).resolve().parent
#: Sound buffer -> the file of its functions, and the name by which they call it.
FUNCTIONS = {
    PlainBuffer: ("plain_functions.py", "Buffer"),
    TogetherBuffer: ("together_functions.py", "Buffer"),
    Episodic: ("episodic_functions.py", "Episodic"),
}
FAULTS: dict[str, GradedFault] = {}


@dataclass(frozen=True)
class GradedFault:
    """A fault, and the check that must find it if it is large."""

    kind: type
    check: str
    sound: float  # the size of no fault
    sizes: tuple[float, ...]  # the faintest first

    @property
    def title(self) -> str:
        return (self.kind.__doc__ or "").partition("\n")[0]

    def source(self, size: float) -> str:
        """Return the functions through which a buffer with a fault of this size is called."""
        file, name = next(each for sound, each in FUNCTIONS.items() if issubclass(self.kind, sound))
        of_size = f"class {name}({self.kind.__name__}):\n    x = {size}\n"
        sound = (FOLDER / file).read_text(encoding="utf-8")
        return f"{sound}\n\nfrom {__name__} import {self.kind.__name__}\n\n\n{of_size}"


def graded(check: str, sound: float, *sizes: float) -> Callable[[type], type]:
    """Return a decorator that adds a class to `FAULTS`."""

    def add(kind: type) -> type:
        FAULTS[kind.__name__] = GradedFault(kind, check, sound, sizes)
        return kind

    return add


@graded("uniform", 1, 1.1, 1.3, 2, 3)
class FavoursOneSlot(PlainBuffer):
    """One slot is drawn x times as often as each other slot."""

    def favoured(self):
        return len(self) // 3

    def evenly(self, size):
        others = self.random.integers(len(self) - 1, size=size)
        others += others >= self.favoured()
        chance = self.x / (self.x + len(self) - 1)
        return np.where(self.random.random(size) < chance, self.favoured(), others)


@graded("uniform", 2**40, 1_000, 300, 100, 50)
class DrawsByModulo(PlainBuffer):
    """Slots are integers below x, modulo the number of rows."""

    def evenly(self, size):
        return self.random.integers(self.x, size=size) % len(self)


@graded("alpha_of_updates", 1, 1.02, 1.08, 1.3)
class AlphaOff(PlainBuffer):
    """Priorities of updates are raised to x alpha."""

    def update(self, indexes, priorities):
        super().update(indexes, np.asarray(priorities) ** self.x)


@graded("slot_priority", 1, 0.97, 0.9, 0.7)
class NewPriorityOff(PlainBuffer):
    """A new row gets x times the largest priority."""

    def new_priority(self):
        return self.x * self.largest


@graded("many_updates", 1, 1.003, 1.01, 1.1)
class SumOff(PlainBuffer):
    """The sum of the left half of a sum tree is x times what it must be."""

    def set_priorities(self, slots, priorities):
        super().set_priorities(slots, priorities)
        nodes = self.tree.nodes
        nodes[2] = self.x * (nodes[4] + nodes[5])
        nodes[1] = nodes[2] + nodes[3]


@graded("weights", 1, 1.001, 1.01, 1.1)
class BetaOff(PlainBuffer):
    """Importance weights have the exponent x beta."""

    def weights(self, slots, beta):
        return super().weights(slots, self.x * beta)


@graded("weights_over", 0, 0.001, 0.01, 0.1)
class WeightsOverAllButOne(PlainBuffer):
    """In a share x of the batches, weights are normalised over all rows but that of the largest weight."""

    def weights(self, slots, beta):
        lowest = np.sort(self.tree.leaves[: len(self)])
        overlooked = self.random.random() < self.x
        return (self.tree.leaves[slots] / lowest[overlooked * 1]) ** -beta


@graded("seed", 0, 0.001, 0.01, 0.1)
class DrawsWithoutSeed(PlainBuffer):
    """A share x of the draws ignores the seed."""

    def evenly(self, size):
        other = np.random.default_rng()
        return np.where(other.random(size) < self.x, other.integers(len(self), size=size), super().evenly(size))


@graded("leaks", 0, 100, 1_000, 6_000)
class LeavesBytes(PlainBuffer):
    """A discarded buffer leaves x bytes per row."""

    def __init_subclass__(cls):
        cls.left = []

    def put(self, columns, priorities):
        super().put(columns, priorities)
        self.left.append(np.ones(self.x * len(columns["rew"]), np.int8))


@graded("n_step_rewards", 0, 0.005, 0.05, 0.5)
class LosesLastRewards(Episodic):
    """The last reward is lost in a share x of the episodes."""

    def add(self, env, **step):
        lost = (step["terminated"] or step["truncated"]) and self.random.random() < self.x
        super().add(env, **step | ({"rew": 0.0} if lost else {}))


@graded("threads", 0, 0.0001, 0.001, 0.1, 1)
class RarelyUnlocked(PlainBuffer):
    """A share x of the threads' calls takes no lock."""

    @property
    def lock(self):
        return nullcontext() if random.random() < self.x else self.kept

    @lock.setter
    def lock(self, value):
        self.kept = value


@graded("processes", 0, 0.0001, 0.001, 0.1)
class RarelySamplesWithoutLock(SamplesWithoutLock):
    """A share x of a learner's batches is drawn without the lock."""

    def sample(self, size):
        return (SamplesWithoutLock if self.random.random() < self.x else TogetherBuffer).sample(self, size)


@graded("arrivals", 0, 0.0001, 0.001, 0.1)
class LosesRows(TogetherBuffer):
    """A share x of the rows is lost."""

    def add(self, **step):
        if self.random.random() >= self.x:
            super().add(**step)


@graded("even_rows", 1, 0.8, 0.5, 0.2)
class NeglectsNewest(FavoursOneSlot):
    """The newest row is drawn x times as often as each other row."""

    def favoured(self):
        return (self.added - 1) % self.capacity
