"""A plain replay buffer of NumPy arrays, uniform or prioritized, about which the check has nothing to say."""

from __future__ import annotations

import os
import pickle
import threading

import numpy as np


class PlainBuffer:
    def __init__(self, capacity, obs_shape, obs_dtype, act_shape, act_dtype, seed, prioritized, alpha, beta):
        if capacity < 1:
            raise ValueError(f"capacity must be positive, got {capacity}")
        self.capacity, self.seed, self.prioritized, self.alpha, self.beta = capacity, seed, prioritized, alpha, beta
        fields = {
            "obs": (tuple(obs_shape), obs_dtype),
            "act": (tuple(act_shape), act_dtype),
            "rew": ((), "float32"),
            "next_obs": (tuple(obs_shape), obs_dtype),
            "done": ((), "bool"),
        }
        self.columns = {name: np.zeros((capacity, *shape), dtype) for name, (shape, dtype) in fields.items()}
        self.tree = SumTree(capacity)
        self.added, self.largest, self.owner = 0, 1.0, os.getpid()
        self.random, self.lock = np.random.default_rng(seed), threading.Lock()

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "lock"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.lock = threading.Lock()

    def __len__(self):
        return min(self.added, self.capacity)

    def add(self, priority=None, **step):
        columns = {name: np.asarray(value)[None] for name, value in step.items()}
        self.add_batch(**columns, priorities=None if priority is None else np.array([priority], float))

    def add_batch(self, priorities=None, **columns):
        columns = self.valid(columns)
        with self.lock:
            self.put(columns, priorities)

    def put(self, columns, priorities):
        rows = len(columns["rew"])
        skipped = max(0, rows - self.capacity)
        slots = self.slots(skipped, rows)
        self.store(slots, {name: column[skipped:] for name, column in columns.items()})
        if self.prioritized:
            given = np.full(rows, self.new_priority()) if priorities is None else priorities
            self.set_priorities(slots, given[skipped:])
        self.added += rows

    def valid(self, columns):
        rows = len(columns["rew"])
        for name, stored in self.columns.items():
            column = columns[name] = np.asarray(columns[name])
            if column.shape != (rows, *stored.shape[1:]):
                raise ValueError(f"{name} must have shape {stored.shape[1:]}, got {column.shape[1:]}")
            if not np.can_cast(column.dtype, stored.dtype, "same_kind"):
                raise TypeError(f"{name} must be {stored.dtype}, got {column.dtype}")
        return columns

    def slots(self, first, last):
        return (self.added + np.arange(first, last)) % self.capacity

    def store(self, slots, columns):
        for name, column in columns.items():
            self.columns[name][slots] = column

    def new_priority(self):
        return self.largest

    def set_priorities(self, slots, priorities):
        self.tree.set(slots, priorities**self.alpha)
        self.largest = max(self.largest, priorities.max(initial=0.0))

    def sample(self, size, beta=None):
        if size < 0:
            raise ValueError(f"size must be non-negative, got {size}")
        with self.lock:
            if not self.added:
                raise ValueError("the buffer is empty")
            if self.owner != os.getpid():
                self.random, self.owner = np.random.default_rng([self.seed, os.getpid()]), os.getpid()
            slots = self.by_priority(size) if self.prioritized else self.evenly(size)
            batch = self.rows(slots)
            if self.prioritized:
                beta = self.beta if beta is None else beta
                batch |= {"indexes": self.numbers(slots), "weights": self.weights(slots, beta)}
            return batch

    def evenly(self, size):
        return self.random.integers(len(self), size=size)

    def by_priority(self, size):
        if not self.tree.total > 0:
            raise ValueError("all priorities are zero")
        return self.tree.find(self.random.random(size) * self.tree.total)

    def rows(self, slots):
        return {name: column[slots] for name, column in self.columns.items()}

    def numbers(self, slots):
        oldest = max(0, self.added - self.capacity)
        return oldest + (slots - oldest) % self.capacity

    def weights(self, slots, beta):
        leaves = self.tree.leaves[: len(self)]
        return (self.tree.leaves[slots] / leaves[leaves > 0].min()) ** -beta

    def update(self, indexes, priorities):
        indexes, priorities = np.asarray(indexes), np.asarray(priorities, float)
        if indexes.shape != priorities.shape:
            raise ValueError(f"priorities must have shape {indexes.shape}, got {priorities.shape}")
        if ((indexes < 0) | (indexes >= self.added)).any():
            raise IndexError("an index is out of range")
        if not (np.isfinite(priorities) & (priorities >= 0)).all():
            raise ValueError("priorities must be finite and non-negative")
        with self.lock:
            fresh = indexes >= self.added - self.capacity
            self.set_priorities(indexes[fresh] % self.capacity, priorities[fresh])

    def save(self, path):
        with open(path, "wb") as file:
            pickle.dump(self.__getstate__(), file)

    def load(self, path):
        with open(path, "rb") as file:
            self.__dict__.update(pickle.load(file))


class SumTree:
    def __init__(self, capacity):
        self.width = 1 << max(0, capacity - 1).bit_length()
        self.nodes = np.zeros(2 * self.width)

    @property
    def total(self):
        return self.nodes[1]

    @property
    def leaves(self):
        return self.nodes[self.width :]

    def set(self, slots, values):
        nodes = self.width + slots
        self.nodes[nodes] = values
        while len(nodes) and nodes[0] > 1:
            nodes = nodes // 2
            self.nodes[nodes] = self.nodes[2 * nodes] + self.nodes[2 * nodes + 1]

    def find(self, sums):
        nodes = np.ones(len(sums), int)
        for _ in range(self.width.bit_length() - 1):
            left = self.nodes[2 * nodes]
            right = (sums >= left) & (self.nodes[2 * nodes + 1] > 0)
            sums = np.where(right, sums - left, sums)
            nodes = 2 * nodes + right
        return nodes - self.width
