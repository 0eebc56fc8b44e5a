"""A process of a random sequence: it calls shared buffers, and forks, on commands that it reads from a socket."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from . import certified
from .certified import Due, Findings

BUFFERS, WRITERS = 64, 256  # at most, in each sequence
LATEST = 10  # number of later samples after which an update still finds the rows of a sample
OWN = "own"  # instead of a lock: the buffer is not shared, so that a forked child has a copy
OVERTAKEN = "overwritten"  # in the error of a reader that explorers or another thread overtake
ROWS_A_TURN = 3  # the number of rows that a busy thread adds per call


@dataclass(frozen=True)
class Kind:
    """How a buffer is made."""

    capacity: int
    width: int  # of certified rows
    prioritized: bool = False
    lock: str = "none"  # or OWN
    steps: int = 1  # N of Nstep
    files: bool = False  # mmap_prefix
    objects: bool = False  # a field of Python objects, for OWN

    def make(self, folder: Path, number: int) -> Any:
        options, fields = certified.options(self.width), certified.env_dict(self.width)
        if self.lock != OWN:
            options["lock"] = self.lock
        if self.objects:
            fields["note"] = {"dtype": object}
        if self.prioritized:
            options |= {"alpha": 1.0, "eps": 0.0}
        if self.steps > 1:
            options["Nstep"] = {"size": self.steps, "next": "next_obs"}
        if self.files:
            options["mmap_prefix"] = folder / f"buffer-{number}"
        return self.type()(self.capacity, fields, **options)

    def type(self) -> type:
        if self.lock == OWN:
            return PrioritizedReplayBuffer if self.prioritized else ReplayBuffer
        return MPPrioritizedReplayBuffer if self.prioritized else MPReplayBuffer

    def rows(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        rows = certified.rows(ids, self.width)
        if self.prioritized:
            rows["priorities"] = certified.priorities(ids)
        if self.steps > 1:
            rows["done"][:] = 0
        if self.objects:
            rows["note"] = ids.astype(object)
        return rows

    def as_added(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the certified row that each transition began with. If other parts are wrong, it is wrong."""
        if self.objects:
            right = batch["note"].ravel() == batch["id"].ravel()
            batch = {**batch, "obs": np.where(right.reshape(-1, *[1] * (batch["obs"].ndim - 1)), batch["obs"], 1)}
        if self.steps == 1:
            return batch
        ids = batch["id"].ravel()
        own, last = certified.rows(ids, self.width), certified.rows(ids + np.uint64(self.steps - 1), self.width)
        right = (batch["next_obs"] == last["next_obs"]).all(axis=1) & (batch["done"].ravel() == 0)
        next_obs = np.where(right[:, None], own["next_obs"], batch["next_obs"])
        return {**batch, "next_obs": next_obs, "done": np.where(right, own["done"], batch["done"].ravel())[:, None]}


def board(folder: Path) -> np.ndarray:
    """Return how many rows each writer has begun to add to each buffer; each word has one writer."""
    return np.memmap(folder / "begun", np.int64, "r+", shape=(BUFFERS, WRITERS))


class MemberError(Exception):
    """A member found a fault, or raised an error."""


class Member:
    def __init__(self, number: int, folder: Path) -> None:
        self.number, self.folder, self.begun = number, folder, board(folder)
        self.buffers: dict[int, tuple[Any, Kind]] = {}
        self.kept: dict[int, tuple[int, np.ndarray, np.ndarray]] = {}  # samples to be updated later, by buffer
        self.samples = 0
        self.inherited: set[int] = set()  # buffers whose window contains steps of the parent
        self.busy: threading.Thread | None = None
        self.stop = threading.Event()
        self.trouble: str | None = None
        self.pipe: Connection | None = None

    # Serving requests.

    def serve(self) -> None:
        """Serve requests until one says to end, or until the coordinator has ended."""
        sys.setswitchinterval(1e-5)  # so that forks and deaths interrupt calls of the other thread
        stacks = (self.folder / f"stacks-{self.number}").open("w")
        faulthandler.enable(stacks)
        faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(self.folder / "socket"))
            self.pipe = Connection(caller.detach())
        self.pipe.send((self.number, os.getpid()))
        while True:
            try:
                name, args = self.pipe.recv()
            except EOFError:
                os._exit(1)
            if name == "end":
                return
            try:
                answer = getattr(self, name)(*args)
            except Exception:
                answer = MemberError(traceback.format_exc())
            try:
                self.pipe.send(answer)
            except OSError:
                os._exit(1)

    def fork(self, number: int) -> int:
        pid = os.fork()
        if pid == 0:
            self.pipe.close()
            child = Member(number, self.folder)
            child.buffers = self.buffers
            child.inherited = {n for n, (_, kind) in self.buffers.items() if kind.lock == OWN and kind.steps > 1}
            child.run_and_exit()
        return pid

    def run_and_exit(self) -> NoReturn:
        code = 1
        try:
            self.serve()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    # Making, attaching and closing buffers.

    def make(self, number: int, kind: Kind) -> str:
        buffer = kind.make(self.folder, number)
        self.buffers[number] = buffer, kind
        return buffer.segment if kind.lock != OWN else ""

    def attach(self, number: int, kind: Kind, segment: str) -> bool:
        """Attach, and return whether the name still exists."""
        try:
            self.buffers[number] = kind.type().attach(segment), kind
        except FileNotFoundError:
            return False
        return True

    def dumps(self, number: int) -> bytes:
        return pickle.dumps(self.buffers[number][0])

    def loads(self, number: int, kind: Kind, pickled: bytes) -> bool:
        try:
            self.buffers[number] = pickle.loads(pickled), kind
        except FileNotFoundError:
            return False
        return True

    def close(self, number: int) -> None:
        buffer, kind = self.buffers.pop(number)
        self.kept.pop(number, None)
        segment = buffer.segment if kind.lock != OWN else ""
        buffer.close()
        if segment and segment in Path("/proc/self/maps").read_text():
            raise MemberError(f"buffer {number} is closed, and its memory is still mapped")
        try:
            buffer.get_stored_size()
        except ValueError as error:
            if "closed" in str(error):
                return
        raise MemberError("a closed buffer can be used")

    # Calling buffers.

    def add(self, number: int, count: int, one_by_one: bool = False, thread: int = 0) -> Due:
        """Add rows, and return which rows are now stored."""
        buffer, kind = self.buffers[number]
        if number in self.inherited:  # since its own steps would follow those of the parent
            buffer.clear()
            self.inherited.discard(number)
        # In a window, steps of two threads would belong to one episode.
        writer = 2 * self.number + (thread if kind.steps == 1 else 0)
        first = int(self.begun[number, writer]) + 1
        rows = kind.rows(certified.ids(writer, first, count))
        if one_by_one:
            for i in range(count):
                self.begun[number, writer] = first + i
                buffer.add(**{name: column[i] for name, column in rows.items()})
        else:
            self.begun[number, writer] = first + count - 1
            buffer.add(**rows)
        return writer, first, max(0, count - (kind.steps - 1))  # a lower bound: the last steps wait in the window

    def sample(self, number: int, size: int, then: str = "update") -> int:
        """Return the number of rows. `then` is "update" (their priorities), "keep" (update them later), or neither."""
        buffer, kind = self.buffers[number]
        try:
            batch = buffer.sample(size, **({"beta": 1.0} if kind.prioritized else {}))
        except ValueError as error:
            if "cannot sample" not in str(error):
                raise
            return 0
        except RuntimeError as error:
            if OVERTAKEN not in str(error):
                raise
            return 0
        self.samples += 1
        ids = batch["id"].ravel()
        if kind.prioritized and then == "update":
            buffer.update_priorities(batch["indexes"], certified.changed_priorities(ids))
        elif kind.prioritized and then == "keep":
            self.kept[number] = self.samples, batch["indexes"].copy(), ids.copy()
        self._check(number, batch)
        return len(ids)

    def late(self, number: int) -> bool:
        """Update the kept sample if the buffer can still recognize it: later samples may have drawn the same slots."""
        buffer, _ = self.buffers[number]
        if number not in self.kept:
            return False
        at, indexes, ids = self.kept.pop(number)
        if self.samples - at > (LATEST if len(np.unique(indexes)) > LATEST else 0):
            return False
        buffer.update_priorities(indexes, certified.changed_priorities(ids))
        return True

    def size(self, number: int) -> int:
        buffer, kind = self.buffers[number]
        size = buffer.get_stored_size()
        if not 0 <= size <= kind.capacity or not 0 <= buffer.get_next_index() < kind.capacity:
            raise MemberError(f"{size} of {kind.capacity} rows, the next at {buffer.get_next_index()}")
        return size

    def look(self, number: int) -> int:
        """Check all rows while others change them. Return their number, 0 if they were overwritten meanwhile."""
        buffer, _ = self.buffers[number]
        try:
            everything = buffer.get_all_transitions()
        except RuntimeError as error:
            if OVERTAKEN not in str(error):
                raise
            return 0
        self._check(number, everything)
        return len(everything["id"])

    def look_at_rest(self, number: int, due: list[Due]) -> tuple[int, int, int]:
        """Check an unused buffer. Return what all processes must agree on: number of rows, next index, sum of ids."""
        buffer, kind = self.buffers[number]
        everything = buffer.get_all_transitions()
        rows, found, drawn = len(everything["id"]), Findings(), None
        if kind.prioritized and rows:
            drawn = buffer.sample(certified.DRAWS * rows, beta=1.0)
        certified.look_at_all(kind.as_added(everything), self.begun[number], due, found, drawn)
        if found.faults():
            raise MemberError(f"buffer {number} at rest: {found.faults()}")
        if buffer.get_stored_size() != rows:
            raise MemberError(f"buffer {number}: stored size {buffer.get_stored_size()}, but {rows} rows")
        if rows and self.sample(number, 8) == 0:
            raise MemberError(f"buffer {number} has {rows} rows, and none can be drawn")
        return rows, buffer.get_next_index(), int(everything["id"].sum(dtype=np.uint64))

    def clear(self, number: int) -> None:
        self.buffers[number][0].clear()

    def _check(self, number: int, batch: dict[str, np.ndarray]) -> None:
        kind, found = self.buffers[number][1], Findings()
        certified.read(kind.as_added(batch), self.begun[number], found)
        if kind.prioritized and "weights" in batch and len(batch["id"]):
            found.stale += certified.stale_priorities(batch)
        if found.faults():
            ids = batch["id"].ravel().tolist()[:50]
            raise MemberError(f"buffer {number}: {found.faults()} of {found.rows}, ids {ids}")

    # Running a second thread.

    def start(self, number: int, what: str) -> None:
        self.stop.clear()
        self.busy = threading.Thread(target=self._be_busy, args=(number, what), daemon=True)
        self.busy.start()

    def _be_busy(self, number: int, what: str) -> None:
        args = {"add": (ROWS_A_TURN, False, 1), "sample": (16,)}.get(what, ())
        try:
            while not self.stop.is_set():
                if getattr(self, what)(number, *args) == 0:
                    time.sleep(0.0005)
        except Exception:
            self.trouble = traceback.format_exc()

    def halt(self) -> None:
        if self.busy is not None:
            self.stop.set()
            self.busy.join()
            self.busy = None
        if self.trouble is not None:
            raise MemberError(self.trouble)


if __name__ == "__main__":
    Member(int(sys.argv[2]), Path(sys.argv[1])).serve()
