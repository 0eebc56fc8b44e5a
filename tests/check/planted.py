"""Plain buffers with one fault each: negative controls of the checks (tests/check/test_probes.py)."""

from __future__ import annotations

import copy
import os
from contextlib import nullcontext
from multiprocessing.shared_memory import SharedMemory
from typing import ClassVar

import numpy as np

from tests.check.plain import PlainBuffer, SumTree


class RingTooShort(PlainBuffer):
    def slots(self, first, last):
        return super().slots(first, last) % max(1, self.capacity - 1)


class RingTooEarly(PlainBuffer):
    """Begins to overwrite one row too late: the last slot is written twice."""

    def slots(self, first, last):
        slots = (self.added + np.arange(first, last)) % (self.capacity + 1)
        return np.minimum(slots, self.capacity - 1)


class NeverNewest(PlainBuffer):
    def evenly(self, size):
        slots = super().evenly(size)
        newest = (self.added - 1) % self.capacity
        return np.where(slots == newest, (slots - 1) % len(self), slots)


class NeverLastSlot(PlainBuffer):
    def evenly(self, size):
        return self.random.integers(max(1, len(self) - 1), size=size)


class NeverFirstSlot(PlainBuffer):
    def evenly(self, size):
        return self.random.integers(min(1, len(self) - 1), len(self), size=size)


class NeverLastByPriority(PlainBuffer):
    """Sums the priorities of all rows but the last, as OpenAI Baselines does."""

    def by_priority(self, size):
        total = self.tree.leaves[: max(1, len(self) - 1)].sum()
        return self.tree.find(self.random.random(size) * total)


class DrawsUnwritten(PlainBuffer):
    def evenly(self, size):
        return self.random.integers(self.capacity, size=size)


class ActionOfNext(PlainBuffer):
    def rows(self, slots):
        return super().rows(slots) | {"act": self.columns["act"][(slots + 1) % len(self)]}


class DoneShifted(PlainBuffer):
    def rows(self, slots):
        return super().rows(slots) | {"done": self.columns["done"][slots - 1]}


class NextObsOfNextSlot(PlainBuffer):
    """Takes next_obs from the next slot, which for the newest row holds the oldest row."""

    def rows(self, slots):
        return super().rows(slots) | {"next_obs": self.columns["obs"][(slots + 1) % self.capacity]}


class RewardOfAnotherOnceFull(PlainBuffer):
    def rows(self, slots):
        moved = slots ^ 1 if self.added > 2 * self.capacity and self.capacity % 2 == 0 else slots
        return super().rows(slots) | {"rew": self.columns["rew"][moved]}


class CountsTooMany(PlainBuffer):
    @property
    def counted(self):
        return min(self.added, self.capacity + 1)


class KeepsOldest(PlainBuffer):
    def slots(self, first, last):
        return np.minimum(self.added + np.arange(first, last), self.capacity - 1)


class OverwritesAnyRow(PlainBuffer):
    def slots(self, first, last):
        slots = self.added + np.arange(first, last)
        return np.where(slots < self.capacity, slots, self.random.integers(self.capacity, size=len(slots)))


class FavoursFirstHalf(PlainBuffer):
    """Draws the first half of the slots 10% more often."""

    def evenly(self, size):
        half = len(self) // 2
        first = self.random.random(size) < 1.1 / 2.1
        low, high = np.where(first, 0, half), np.where(first, half, len(self))
        return low + (self.random.random(size) * (high - low)).astype(int)


class FavoursOlder(PlainBuffer):
    """Draws the older half of the rows 10% more often."""

    def evenly(self, size):
        half = len(self) // 2
        first = self.random.random(size) < 1.1 / 2.1
        low, high = np.where(first, 0, half), np.where(first, half, len(self))
        age = low + (self.random.random(size) * (high - low)).astype(int)
        return (max(0, self.added - self.capacity) + age) % self.capacity


class RoundsDraws(PlainBuffer):
    """Rounds to the nearest row, so that the first and the last are half as likely."""

    def evenly(self, size):
        return np.rint(self.random.random(size) * (len(self) - 1)).astype(int)


class DrawsThreeToOne(PlainBuffer):
    def evenly(self, size):
        slots = super().evenly(size)
        return np.where(self.random.random(size) < 0.5, slots // 2, slots)


class DrawsNeighbours(PlainBuffer):
    """Draws consecutive rows."""

    def evenly(self, size):
        return (self.random.integers(len(self)) + np.arange(size)) % len(self)


class GoesOnInTurns(PlainBuffer):
    """Draws in every second batch the rows after those of the batch before."""

    drawn = None

    def evenly(self, size):
        again = self.drawn is not None and len(self.drawn) == size
        slots = (self.drawn + 1) % len(self) if again else super().evenly(size)
        self.drawn = None if again else slots
        return slots


class BatchStopsAtEnd(PlainBuffer):
    """Writes the rows of a batch that do not fit before the end into the last slot."""

    def slots(self, first, last):
        if last - first == 1:
            return super().slots(first, last)
        return np.minimum(self.added % self.capacity + np.arange(last - first), self.capacity - 1)


class BatchKeepsFirst(PlainBuffer):
    """Keeps the first rows of a batch that is larger than the capacity."""

    def put(self, columns, priorities):
        extra = len(columns["rew"]) - self.capacity
        if extra > 0:
            columns = {name: np.roll(column, extra, axis=0) for name, column in columns.items()}
        super().put(columns, priorities)


class BatchCountsOnce(PlainBuffer):
    def put(self, columns, priorities):
        before = self.added
        super().put(columns, priorities)
        if before >= self.capacity:
            self.added = before + 1


class BatchWrapsRewardsOnly(PlainBuffer):
    """Writes the rewards of a batch that wraps in one piece from its second part on."""

    def store(self, slots, columns):
        super().store(slots, columns)
        wrapped = slots < slots[:1]
        if wrapped.any():
            self.columns["rew"][slots[wrapped]] = columns["rew"][: wrapped.sum()]


class RequestsInBlocks(PlainBuffer):
    def sample(self, size, beta=None):
        return super().sample(size // 64 * 64 if size > 128 else size, beta)


class SqueezesOneRow(PlainBuffer):
    def rows(self, slots):
        batch = super().rows(slots)
        return {name: column[0] for name, column in batch.items()} if len(slots) == 1 else batch


class RewardsBy16Bits(PlainBuffer):
    """Reads rewards with an index of 16 bits, which is negative from the 32,768th slot on."""

    def rows(self, slots):
        return super().rows(slots) | {"rew": self.columns["rew"][slots.astype("int16")]}


class CountsIn16Bits(PlainBuffer):
    """Counts the added rows in 16 bits, and begins at the first slot again."""

    def put(self, columns, priorities):
        super().put(columns, priorities)
        self.added %= 1 << 16


class DrawsBy16Bits(PlainBuffer):
    def evenly(self, size):
        return super().evenly(size).astype("uint16").astype(int)


class ZeroAsOne(PlainBuffer):
    def set_priorities(self, slots, priorities):
        super().set_priorities(slots, np.where(priorities > 0, priorities, 1.0))


class WeightsOfZero(PlainBuffer):
    """Normalises by the lowest priority, which may be 0."""

    def weights(self, slots, beta):
        with np.errstate(all="ignore"):
            return (self.tree.leaves[slots] / self.tree.leaves[: len(self)].min()) ** -beta


class AllZeroPicksLast(PlainBuffer):
    def by_priority(self, size):
        if not self.tree.total > 0:
            return np.full(size, self.capacity - 1)
        return super().by_priority(size)

    def weights(self, slots, beta):
        return super().weights(slots, beta) if self.tree.total > 0 else np.ones(len(slots))


class AlphaTwice(PlainBuffer):
    def update(self, indexes, priorities):
        super().update(indexes, np.asarray(priorities) ** self.alpha)


class AlphaTwiceForNewRows(PlainBuffer):
    def new_priority(self):
        return self.largest**self.alpha


class NoAlphaInUpdates(PlainBuffer):
    def update(self, indexes, priorities):
        super().update(indexes, np.asarray(priorities) ** (1 / self.alpha))


class WeightsOverCapacity(PlainBuffer):
    def weights(self, slots, beta):
        return (self.tree.leaves[slots] / self.tree.total * self.capacity) ** -beta


class WeightsOverUnwritten(PlainBuffer):
    """Normalises by the lowest priority of all slots, which is 0 until the buffer is full, as many PER tutorials do."""

    def weights(self, slots, beta):
        with np.errstate(all="ignore"):
            return (self.tree.leaves[slots] / self.tree.leaves[: self.capacity].min()) ** -beta


class WeightsOverMean(PlainBuffer):
    def weights(self, slots, beta):
        weights = super().weights(slots, beta)
        return weights / weights.mean()


class WeightsOverPast(PlainBuffer):
    """Normalises by the lowest priority that any row ever had."""

    lowest = np.inf

    def set_priorities(self, slots, priorities):
        super().set_priorities(slots, priorities)
        self.lowest = min(self.lowest, (priorities**self.alpha).min(initial=np.inf))

    def weights(self, slots, beta):
        return (self.tree.leaves[slots] / self.lowest) ** -beta


class BetaIgnored(PlainBuffer):
    def weights(self, slots, beta):
        return super().weights(slots, self.beta)


class Increments(SumTree):
    """Adds the differences to the sums."""

    def set(self, slots, values):
        nodes = self.width + slots
        difference = values - self.nodes[nodes]
        self.nodes[nodes] = values
        while len(nodes) and nodes[0] > 1:
            nodes = nodes // 2
            np.add.at(self.nodes, nodes, difference)

    def find(self, sums):
        nodes = np.ones(len(sums), int)
        for _ in range(self.width.bit_length() - 1):
            left = self.nodes[2 * nodes]
            right = sums >= left
            sums = np.where(right, sums - left, sums)
            nodes = 2 * nodes + right
        return nodes - self.width


class SumsDrift(PlainBuffer):
    """Adds differences to sums of 32 bits."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.tree = Increments(self.capacity)
        self.tree.nodes = self.tree.nodes.astype(np.float32)

    def set_priorities(self, slots, priorities):
        slots, last = np.unique(np.asarray(slots)[::-1], return_index=True)
        super().set_priorities(slots, priorities[::-1][last])


class SumsDriftIn64Bits(SumsDrift):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.tree.nodes = self.tree.nodes.astype(np.float64)


class DuplicatesAddUp(PlainBuffer):
    """Adds differences once per time that a row is in the update."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.tree = Increments(self.capacity)

    def by_priority(self, size):
        return np.minimum(super().by_priority(size), len(self) - 1)


class KeepsOldPriority(PlainBuffer):
    def put(self, columns, priorities):
        before = self.tree.leaves.copy()
        slots = self.slots(0, len(columns["rew"]))
        super().put(columns, priorities)
        if self.prioritized and self.added > self.capacity:
            self.tree.set(slots, np.where(before[slots] > 0, before[slots], 1.0))


class BatchKeepsOldPriority(KeepsOldPriority):
    def put(self, columns, priorities):
        (PlainBuffer if len(columns["rew"]) == 1 else KeepsOldPriority).put(self, columns, priorities)


class DeafToUpdates(PlainBuffer):
    def update(self, indexes, priorities):
        pass


class OneForTheNew(PlainBuffer):
    def new_priority(self):
        return 1.0


class DeafToGiven(PlainBuffer):
    def add(self, priority=None, **step):
        super().add(**step, priority=None if priority is None else priority**0.1)


class DeepcopyShares(PlainBuffer):
    def __deepcopy__(self, memo):
        return copy.copy(self)


class DeepcopySharesTree(PlainBuffer):
    def __deepcopy__(self, memo):
        other = copy.copy(self)
        other.columns, other.random = copy.deepcopy(self.columns), copy.deepcopy(self.random)
        return other


class PickleLosesPosition(PlainBuffer):
    def __getstate__(self):
        return super().__getstate__() | {"added": len(self)}


class PickleLosesPriorities(PlainBuffer):
    def __setstate__(self, state):
        super().__setstate__(state)
        self.tree.set(np.arange(len(self)), np.ones(len(self)))


class SaveLosesGenerator(PlainBuffer):
    def load(self, path):
        random = self.random
        super().load(path)
        self.random = random


class SaveLosesDone(PlainBuffer):
    def load(self, path):
        done = self.columns["done"]
        super().load(path)
        self.columns["done"] = done


class WorkersDrawAlike(PlainBuffer):
    @property
    def owner(self):
        return os.getpid()

    @owner.setter
    def owner(self, value):
        pass


class BroadcastsShapes(PlainBuffer):
    def valid(self, columns):
        columns = {name: np.asarray(column) for name, column in columns.items()}
        for name, stored in self.columns.items():
            if stored.ndim == 2 and columns[name].shape[1:] == (1,):
                columns[name] = np.repeat(columns[name], stored.shape[1], 1)
        return super().valid(columns)


class StoresBeforeItRefuses(PlainBuffer):
    def valid(self, columns):
        return {name: np.asarray(column) for name, column in columns.items()}


class TruncatesFloats(PlainBuffer):
    def valid(self, columns):
        for name, stored in self.columns.items():
            column = np.asarray(columns[name])
            columns[name] = column.astype(stored.dtype) if column.dtype.kind in "iuf" else column
        return super().valid(columns)


class ReadsText(PlainBuffer):
    def valid(self, columns):
        return super().valid(
            {name: np.asarray(each).astype(self.columns[name].dtype) for name, each in columns.items()}
        )


class TakesCapacityZero(PlainBuffer):
    def __init__(self, capacity, *arguments):
        super().__init__(max(1, capacity), *arguments)


class WrapsIndexes(PlainBuffer):
    def update(self, indexes, priorities):
        super().update(np.asarray(indexes) % self.added, priorities)


class RepeatsPriorities(PlainBuffer):
    def update(self, indexes, priorities):
        super().update(indexes, np.resize(priorities, np.shape(indexes)))


class UpdatesUntilItRefuses(PlainBuffer):
    """Sets the priorities before the wrong index, and refuses the rest."""

    def update(self, indexes, priorities):
        for index, priority in zip(indexes, np.asarray(priorities) * 1e-3, strict=True):
            super().update(np.array([index]), np.array([priority]))


class DrawsForNegativeSize(PlainBuffer):
    def sample(self, size, beta=None):
        return super().sample(abs(size), beta)


class DrawsForSizeZero(PlainBuffer):
    def sample(self, size, beta=None):
        return super().sample(size or 1, beta)


class Unlocked(PlainBuffer):
    @property
    def lock(self):
        return nullcontext()

    @lock.setter
    def lock(self, value):
        pass


class KeepsMemory(PlainBuffer):
    kept: ClassVar = []

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.kept.append(self.columns)


class KeepsDescriptors(PlainBuffer):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.file = os.dup(0)


class KeepsSegments(PlainBuffer):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.segment = SharedMemory(create=True, size=1)

    def __del__(self):
        self.segment.close()


class RoundsRewards(PlainBuffer):
    def rows(self, slots):
        batch = super().rows(slots)
        return batch | {"obs": batch["obs"].astype(np.float16).astype(batch["obs"].dtype)}


class NarrowsObservations(PlainBuffer):
    def rows(self, slots):
        batch = super().rows(slots)
        return batch | {"act": batch["act"].astype(np.int32 if batch["act"].dtype.kind == "i" else np.float16)}


class ReshapesObservations(PlainBuffer):
    def rows(self, slots):
        batch = super().rows(slots)
        return batch | {name: batch[name].reshape(len(slots), -1, 1) for name in ("obs", "next_obs")}


class ReusesBatch(PlainBuffer):
    def rows(self, slots):
        reused = self.__dict__.setdefault("reused", {})
        for name, column in super().rows(slots).items():
            if name not in reused or len(reused[name]) != len(column):
                reused[name] = column
            reused[name][...] = column
        return dict(reused)


class KeepsReferences(PlainBuffer):
    def add(self, priority=None, **step):
        slot = self.added % self.capacity
        super().add(priority, **step)
        self.__dict__.setdefault("kept", {})[slot] = step["obs"]

    def rows(self, slots):
        for slot, obs in self.__dict__.get("kept", {}).items():
            self.columns["obs"][slot] = obs
        return super().rows(slots)


class Seedless(PlainBuffer):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.random = np.random.default_rng()


class UpdatesSlots(PlainBuffer):
    def numbers(self, slots):
        return slots

    def update(self, indexes, priorities):
        self.set_priorities(np.asarray(indexes), np.asarray(priorities, float))


class InventsRows(PlainBuffer):
    def sample(self, size, beta=None):
        if not self.added:
            empty = {name: np.zeros((size, *column.shape[1:]), column.dtype) for name, column in self.columns.items()}
            return empty | ({"indexes": np.zeros(size, int), "weights": np.ones(size)} if self.prioritized else {})
        return super().sample(size, beta)


class PadsWithZeros(PlainBuffer):
    def evenly(self, size):
        return super().evenly(size) if size <= len(self) else np.arange(size) % self.capacity

    by_priority = evenly


class TakesAnyPriority(PlainBuffer):
    def update(self, indexes, priorities):
        with np.errstate(all="ignore"):
            self.set_priorities(np.asarray(indexes) % self.capacity, np.asarray(priorities, float))

    def by_priority(self, size):
        return np.minimum(self.tree.find(self.random.random(size) * self.tree.total), len(self) - 1)
