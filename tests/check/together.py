"""A replay buffer that forked processes share, about which the check has nothing to say, and faulty ones."""

from __future__ import annotations

import fcntl
import mmap
import multiprocessing
import os
import tempfile
import time
from contextlib import contextmanager

import numpy as np

FIELDS = {
    "obs": ((4,), "float32"),
    "act": ((), "int64"),
    "rew": ((), "float32"),
    "next_obs": ((4,), "float32"),
    "done": ((), "bool"),
}


class TogetherBuffer:
    """Its lock is released by the kernel if the holder dies, and a row that is being written cannot be drawn."""

    def __init__(self, capacity, seed):
        self.capacity, self.random = capacity, np.random.default_rng(seed)
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 (each process locks its descriptor)
        self.columns = {name: self.array((capacity, *shape), dtype) for name, (shape, dtype) in FIELDS.items()}
        self.written, self.added = self.array((capacity,), "bool"), self.array((1,), "int64")

    def array(self, shape, dtype):
        memory = mmap.mmap(-1, max(1, int(np.prod(shape)) * np.dtype(dtype).itemsize))
        return np.frombuffer(memory, dtype, count=int(np.prod(shape))).reshape(shape)

    @contextmanager
    def locked(self):
        fcntl.lockf(self.file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.file, fcntl.LOCK_UN)

    def __len__(self):
        return min(int(self.added[0]), self.capacity)

    def add(self, **step):
        with self.locked():
            slot = self.added[0] % self.capacity
            self.written[slot] = False
            self.store(slot, step)
            self.written[slot] = True
            self.added += 1

    def store(self, slot, step):
        for name, value in step.items():
            self.columns[name][slot] = value

    def sample(self, size):
        with self.locked():
            slots = self.random.choice(np.flatnonzero(self.written), size)
            return {name: column[slots] for name, column in self.columns.items()}


class SamplesWithoutLock(TogetherBuffer):
    def sample(self, size):
        slots = self.random.integers(len(self), size=size)
        return {name: column[slots] for name, column in self.columns.items()}

    def store(self, slot, step):
        for name, value in step.items():
            self.columns[name][slot] = value
            os.sched_yield()  # as the system may do at any time


class LocksForever(TogetherBuffer):
    def __init__(self, capacity, seed):
        super().__init__(capacity, seed)
        self.lock = multiprocessing.Lock()

    def locked(self):
        return self.lock

    def store(self, slot, step):
        super().store(slot, step)
        time.sleep(0.0003)  # so that a kill usually finds it locked


class OfOneProcess(TogetherBuffer):
    def array(self, shape, dtype):
        return np.zeros(shape, dtype)


class LosesRowsOfOthers(TogetherBuffer):
    def __init__(self, capacity, seed):
        super().__init__(capacity, seed)
        self.maker = os.getpid()

    def add(self, **step):
        if os.getpid() == self.maker or step["rew"] % 50:
            super().add(**step)


class CountsPastLock(TogetherBuffer):
    def __len__(self):
        return super().__len__() + 1


class CountsBeforeItStores(TogetherBuffer):
    def add(self, **step):
        with self.locked():
            slot = self.added[0] % self.capacity
            self.written[slot] = True
            self.added += 1
            for name, value in step.items():
                self.columns[name][slot] = value
                time.sleep(0.0003)


class DrawsTheUnwritten(TogetherBuffer):
    def sample(self, size):
        with self.locked():
            slots = self.random.integers(self.capacity, size=size)
            batch = {name: column[slots] for name, column in self.columns.items()}
            return {name: np.where((slots == 5).reshape(-1, *[1] * (c.ndim - 1)), 0, c) for name, c in batch.items()}
