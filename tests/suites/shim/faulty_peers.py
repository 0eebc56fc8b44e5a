"""Buffers that misbehave in one way each: negative controls of the suites."""

from __future__ import annotations

import collections
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import uuid
import weakref
from dataclasses import replace
from multiprocessing import shared_memory
from pathlib import Path

import numpy as np

from adapters import base
from adapters.base import Adapter, Columns, Spec, Step
from adapters.contract import Contract, Returns, RowFields, Stated, no, yes


class Plain(Adapter):
    """A sound buffer: a ring of columns in shared memory, with a lock around each call."""

    name = "plain"
    distribution = None
    usage = "made for the tests"
    contract = Contract(
        batch_add=no(),
        fields=Stated(RowFields.FIXED),
        priorities=yes(),
        returns=Stated(Returns.COLUMNS),
        n_step=no(),
        disk=no(),
        framework="NumPy",
        licence="none",
    )

    def __init__(self, spec: Spec) -> None:
        context = multiprocessing.get_context("fork")
        self.spec, self.fields, self.random = spec, spec.fields, np.random.default_rng(spec.seed)
        self.lock, self.added = context.Lock(), context.RawValue("q", 0)
        self.raw = np.frombuffer(context.RawArray("d", spec.capacity), float)
        self.columns = {}
        for key, field in spec.fields.items():
            dtype, shape = np.dtype(field.dtype), (spec.capacity, *field.shape)
            block = context.RawArray("b", int(np.prod(shape)) * dtype.itemsize)
            self.columns[key] = np.frombuffer(block, dtype).reshape(shape)

    def add(self, steps) -> None:
        for step in steps:
            named = zip(Step._fields, step, strict=True)
            self.add_batch({key: np.asarray(value)[None] for key, value in named})

    def add_batch(self, columns: Columns, priorities=1.0) -> None:
        with self.lock:
            rows = (self.added.value + np.arange(len(columns["done"]))) % self.spec.capacity
            for key, column in columns.items():
                self.columns[key][rows] = column
            self.raw[rows] = priorities
            self.added.value += len(rows)

    def sample(self, batch_size: int) -> Columns:
        with self.lock:
            if not self.spec.prioritized:
                rows = self.random.integers(0, len(self), batch_size)
                return {key: column[rows] for key, column in self.columns.items()}
            raw = self.raw[: len(self)]
            shares = raw**self.spec.alpha
            rows = self.random.choice(len(raw), batch_size, p=shares / shares.sum())
            weights = (raw[rows] / raw.min()) ** (-self.spec.alpha * self.spec.beta)
            return {key: column[rows] for key, column in self.columns.items()} | {"indexes": rows, "weights": weights}

    def update_priorities(self, indexes, priorities) -> None:
        with self.lock:
            self.raw[indexes] = priorities

    def __len__(self) -> int:
        return min(self.spec.capacity, self.added.value)


class MixesRows(Plain):
    """Returns rows that were never stored."""

    name = "mixes-rows"

    def sample(self, batch_size: int) -> Columns:
        batch = super().sample(batch_size)
        batch["next_obs"] = batch["next_obs"][::-1].copy()
        return batch


class IgnoresPriorities(Plain):
    """Draws all rows with equal probability, whatever their priorities are."""

    name = "ignores-priorities"

    def update_priorities(self, indexes, priorities) -> None:
        pass

    def add_batch(self, columns: Columns, priorities=1.0) -> None:
        super().add_batch(columns)


class SlowAdd(Plain):
    """Takes a millisecond for each row that is added singly."""

    name = "slow-add"

    def add(self, steps) -> None:
        for step in steps:
            time.sleep(0.001)
            super().add([step])


class SlowSample(Plain):
    """Takes three milliseconds for a batch, but no processor time."""

    name = "slow-sample"

    def sample(self, batch_size: int) -> Columns:
        time.sleep(0.003)
        return super().sample(batch_size)


class CountsHeld(Plain):
    """Writes to a file the largest number of earlier batches that were still referenced when another was drawn."""

    name = "counts-held"

    def sample(self, batch_size: int) -> Columns:
        held = [each for each in getattr(self, "given", []) if each() is not None]
        self.most = max(len(held), getattr(self, "most", 0))
        Path(os.environ["FAULTY_FLAG"]).write_text(str(self.most))
        batch = super().sample(batch_size)
        self.given = [*held, weakref.ref(batch["obs"])]
        return batch


class NoPriorities(Plain):
    """Has no priorities."""

    name = "no-priorities"
    contract = replace(Plain.contract, priorities=no())


class DiesOnUpdate(Plain):
    """Dies in the middle of a launch."""

    name = "dies-on-update"

    def update_priorities(self, indexes, priorities) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Unavailable(Plain):
    """Is not available on this platform."""

    name = "unavailable"

    def __init__(self, spec: Spec) -> None:
        raise base.Unavailable("no wheel for this platform")


class Hangs(Plain):
    """Hangs, with a stubborn helper process and a named segment."""

    name = "hangs"

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.segment = shared_memory.SharedMemory(os.environ["FAULTY_SEGMENT"], create=True, size=4096)
        stubborn = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"
        self.helper = subprocess.Popen([sys.executable, "-c", stubborn])

    def sample(self, batch_size: int) -> Columns:
        Path(os.environ["FAULTY_FLAG"]).touch()
        while True:
            time.sleep(1)


class LeavesProcesses(Plain):
    """Ends normally, but leaves a process and a segment of one megabyte behind."""

    name = "leaves-processes"

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.file = Path("/dev/shm", f"{os.environ['FAULTY_SEGMENT']}-{uuid.uuid4().hex}")
        self.file.write_bytes(bytes(1 << 20))

    def close(self) -> None:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)


class KeepsObservations(Plain):
    """Keeps a second copy of every stored observation."""

    name = "keeps-observations"

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.hoard = collections.deque(maxlen=spec.capacity)

    def add(self, steps) -> None:
        super().add(steps)
        self.hoard.extend(step.obs.copy() for step in steps)


class Leaks(Plain):
    """Leaks ten thousand bytes per call of add."""

    name = "leaks"

    def add(self, steps) -> None:
        super().add(steps)
        self.kept = getattr(self, "kept", [])
        self.kept.append(bytearray(b"x") * 10_000)


class Caches(Plain):
    """Allocates memory in each call of add until it has enough: a cache rather than a leak."""

    name = "caches"
    blocks = 110

    def add(self, steps) -> None:
        super().add(steps)
        self.kept = getattr(self, "kept", [])
        if len(self.kept) < self.blocks:
            self.kept.append(bytearray(b"x") * 10_000)


class Peaks(Plain):
    """Needs 64 MiB temporarily in each sample."""

    name = "peaks"

    def sample(self, batch_size: int) -> Columns:
        np.ones(64 << 20, np.uint8)
        return super().sample(batch_size)


class UsesAServer(Plain):
    """Keeps some of its memory in a separate process: a thousand bytes per row."""

    name = "uses-a-server"

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        here, there = multiprocessing.Pipe()
        self.server = multiprocessing.get_context("fork").Process(
            target=lambda: (there.send(len(rows := bytearray(b"x") * (1000 * spec.capacity))), time.sleep(600), rows)
        )
        self.server.start()
        here.recv()

    def close(self) -> None:
        self.server.kill()
        self.server.join()


class Torn(Plain):
    """Counts a row before writing it, without a lock."""

    name = "torn"

    def add_batch(self, columns: Columns, priorities=1.0) -> None:
        self.raw[:] = 1.0
        self.added.value += len(columns["done"])
        rows = (self.added.value - 1 - np.arange(len(columns["done"]))) % self.spec.capacity
        for key, column in columns.items():
            time.sleep(0.0005)
            self.columns[key][rows] = column


class CountsBeforeWriting(Plain):
    """Counts its rows, but writes them later."""

    name = "counts-before-writing"

    def add_batch(self, columns: Columns, priorities=1.0) -> None:
        with self.lock:
            first = self.added.value
            self.added.value += len(columns["done"])
            rows = np.arange(first, self.added.value) % self.spec.capacity
            self.raw[rows] = priorities
        time.sleep(0.02)
        for key, column in columns.items():
            self.columns[key][rows] = column


class LosesRows(Plain):
    """Reports all rows as stored, but omits the last row of every seventh call."""

    name = "loses-rows"

    def add_batch(self, columns: Columns, priorities=1.0) -> None:
        self.calls = getattr(self, "calls", 0) + 1
        keep = len(columns["done"]) - (self.calls % 7 == 0)
        if keep:
            super().add_batch({key: column[:keep] for key, column in columns.items()}, priorities[:keep])


class DuplicatesRows(Plain):
    """Stores the last row of each call twice."""

    name = "duplicates-rows"

    def add_batch(self, columns: Columns, priorities=1.0) -> None:
        super().add_batch(columns, priorities)
        super().add_batch({key: column[-1:] for key, column in columns.items()}, priorities[-1:])


class WaitsForTheDead(Plain):
    """Makes the learner wait for a row of every explorer that ever added one."""

    name = "waits-for-the-dead"

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.place = None
        self.came, self.rows = (multiprocessing.get_context("fork").RawArray("q", size) for size in (1, 1_000))

    def add_batch(self, columns: Columns, priorities=1.0) -> None:
        if self.place is None:
            time.sleep(0.2)  # the learner must not sample from an empty buffer
        super().add_batch(columns, priorities)
        with self.lock:
            if self.place is None:
                self.place, self.came[0] = self.came[0], self.came[0] + 1
            self.rows[self.place] += 1

    def sample(self, batch_size: int) -> Columns:
        seen = self.rows[: self.came[0]]
        while any(now == then for now, then in zip(self.rows[: len(seen)], seen, strict=True)):
            time.sleep(0.001)
        return super().sample(batch_size)


class KillsExplorers(Plain):
    """Kills an explorer after some rows."""

    name = "kills-explorers"

    def add_batch(self, columns: Columns, priorities=1.0) -> None:
        super().add_batch(columns, priorities)
        if self.added.value > 2_000:
            os.kill(os.getpid(), signal.SIGKILL)


class Deadlocked(Plain):
    """Has an explorer that never releases the lock."""

    name = "deadlocked"

    def add_batch(self, columns: Columns, priorities=1.0) -> None:
        super().add_batch(columns, priorities)
        if self.added.value > 2_000:
            self.lock.acquire()


class FavoursOne(Plain):
    """Lets the first explorer add without waiting, and each other one only after a hundred rows of the first."""

    name = "favours-one"
    head_start = 100
    longest = 3.0  # seconds that an explorer waits at most, since the favourite adds no rows at the end of a launch

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        context = multiprocessing.get_context("fork")
        self.maker, self.favourite, self.rows = os.getpid(), context.RawValue("q", 0), context.RawValue("q", 0)

    def add_batch(self, columns: Columns, priorities=1.0) -> None:
        if os.getpid() != self.maker:
            with self.lock:
                self.favourite.value = self.favourite.value or os.getpid()
            if self.favourite.value == os.getpid():
                self.rows.value += len(columns["done"])
            else:
                due, end = self.rows.value + self.head_start, time.monotonic() + self.longest
                while self.rows.value < due and time.monotonic() < end:
                    time.sleep(0.0005)
        super().add_batch(columns, priorities)


class StarvesOthers(FavoursOne):
    """Makes the other explorers wait so long that they count as starved."""

    name = "starves-others"
    head_start = sys.maxsize


class SlowBuild(Plain):
    """Represents the package of the gate: its build determines by what factor samples are slower."""

    name = "slow-build"

    def sample(self, batch_size: int) -> Columns:
        import cpprb_impl

        time.sleep(1e-3 * cpprb_impl.TIMES)  # long enough that noise decides nothing, and without using a processor
        return super().sample(batch_size)


class RecordsBuild(SlowBuild):
    """Represents the package of the gate: records which build was imported."""

    name = "records-build"

    def __init__(self, spec: Spec) -> None:
        import cpprb_impl

        super().__init__(spec)
        with open(os.environ["FAULTY_FLAG"], "a") as file:
            file.write(f"{cpprb_impl.BUILD}\n")


class WrongBuild(MixesRows):
    """Represents the package of the gate: one of its builds mixes rows, and one does not work at all."""

    name = "wrong-build"

    def sample(self, batch_size: int) -> Columns:
        import cpprb_impl

        if cpprb_impl.BUILD == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().sample(batch_size) if cpprb_impl.BUILD == "mixes" else Plain.sample(self, batch_size)


class RefusesBadPriorities(Plain):
    """Has priorities, and refuses invalid values."""

    contract = replace(Plain.contract, batch_add=yes())

    def update_priorities(self, indexes, priorities) -> None:
        if not (np.isfinite(priorities) & (np.asarray(priorities) >= 0)).all():
            raise ValueError("no priority")
        super().update_priorities(indexes, priorities)


class WaitsWhenEmpty(RefusesBadPriorities):
    """Waits forever when it samples from an empty buffer."""

    name = "waits-when-empty"

    def sample(self, batch_size: int) -> Columns:
        while not len(self):
            time.sleep(0.1)
        return super().sample(batch_size)


class DiesOnNan(RefusesBadPriorities):
    """Ends its process when it receives a NaN."""

    name = "dies-on-nan"

    def update_priorities(self, indexes, priorities) -> None:
        if np.isnan(priorities).any():
            os.kill(os.getpid(), signal.SIGSEGV)
        super().update_priorities(indexes, priorities)


class Panic(BaseException):
    """An exception that `except Exception` does not catch."""


class PanicsOnNan(RefusesBadPriorities):
    """Raises Panic when it receives a NaN."""

    name = "panics-on-nan"

    def update_priorities(self, indexes, priorities) -> None:
        if np.isnan(priorities).any():
            raise Panic("nan")
        super().update_priorities(indexes, priorities)
