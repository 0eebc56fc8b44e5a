"""A process on one of the hosts: it serves data, learns, or explores, as the measuring process directs.

python -m suites.hosts.role --peer NAME --workload NAME --role data|user ...
"""

from __future__ import annotations

import argparse
import base64
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from hashlib import blake2b

import numpy as np
import psutil

from adapters import registry
from adapters.base import Columns, Spec
from adapters.hosts import HostsAdapter, Place
from suites import workloads
from suites.hosts.spec import DATA, USER
from suites.lan.worker import obey
from suites.workloads.priorities import priority_sets

DOMINANT = 1e12  # so high a priority (10^7.2 after alpha) that 10^5 rows of priority 1 are hardly drawn
TRIALS, LEAST_TRIALS, MOST_BATCHES = 10, 3, 200
RETRY_SECONDS = 0.01  # after a call that raised


class Data:
    """A data host, which also adds the first rows, since an explorer on another host may add to only one data host."""

    def __init__(self, user: User) -> None:
        self.user, self.kind, self.stack = user, user.kind, ExitStack()
        self.address = self.stack.enter_context(user.kind.serving(user.spec, user.here))

    def get_address(self) -> str:
        return self.address

    def fill(self, data: Sequence[str], handle: str, rows: int, batch: int) -> None:
        """Add this many rows, as an explorer on this host."""
        self.user.join(data, handle)
        self.user.fill(rows, batch)
        self.user.adapter.close()

    def get_victims(self) -> list[int]:
        """Return the ids of the processes of this host that serve rows."""
        if self.kind.victim is None:
            return [os.getpid()]
        commands = {each.pid: " ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])}
        return [pid for pid, command in commands.items() if self.kind.victim in command]

    def kill(self, pids: Sequence[int]) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


class User:
    """A learner or an explorer."""

    def __init__(self, kind: type[HostsAdapter], spec: Spec, columns: Columns, here: str, head: str) -> None:
        self.kind, self.spec, self.columns, self.here, self.head = kind, spec, columns, here, head
        self.random = np.random.default_rng(os.getpid())
        self.adapter: HostsAdapter

    def make(self, data: Sequence[str]) -> str:
        """Make the buffer, as the learner does; return the handle with which explorers join."""
        self.adapter = self.kind(self.spec, Place(self.here, self.head, data))
        return base64.b64encode(self.adapter.handle()).decode()

    def join(self, data: Sequence[str], handle: str) -> None:
        self.adapter = self.kind.joined(self.spec, Place(self.here, self.head, data), base64.b64decode(handle))

    def _batches(self, rows: int) -> Iterator[Columns]:
        total = len(next(iter(self.columns.values())))
        while True:
            for at in range(0, total - rows + 1, rows):
                yield {name: column[at : at + rows] for name, column in self.columns.items()}

    def fill(self, rows: int, batch: int) -> None:
        """Add this many rows, and wait until they are stored."""
        for _, columns in zip(range(rows // batch), self._batches(batch), strict=False):
            self.adapter.add_batch(columns, self.random.uniform(0.01, 1.0, batch))
        self.adapter.flush()

    def check(self, seconds: float, batch: int) -> dict[str, int]:
        """Learn for this long, at least one batch; return how many rows were drawn, and how many of them had never been
        added."""
        rows = wrong = 0
        known, end = self._known, time.perf_counter() + seconds
        while not rows or time.perf_counter() < end:
            drawn = self.adapter.sample(batch)
            rows += batch
            wrong += sum(row not in known for row in self._rows(drawn))
            self.adapter.update_priorities(drawn["indexes"], self.random.uniform(0.01, 1.0, batch))
        return {"rows": rows, "wrong": wrong}

    @cached_property
    def _known(self) -> set[bytes]:
        return set(self._rows(self.columns))

    def _rows(self, columns: Columns) -> Iterator[bytes]:
        """Yield a digest of each row, whatever shape and dtype the peer returns."""
        fields = self.spec.fields.items()
        plain = [np.asarray(columns[name], field.dtype) for name, field in fields]
        for row in zip(*plain, strict=True):
            yield blake2b(b"".join(value.tobytes() for value in row)).digest()

    def explore(self, seconds: float, batch: int) -> dict[str, float]:
        """Add batches for this long, and wait until they are stored; return the rows and the seconds."""
        batches, priorities = self._batches(batch), self.random.uniform(0.01, 1.0, batch)
        rows, start = 0, time.perf_counter()
        while time.perf_counter() < start + seconds:
            self.adapter.add_batch(next(batches), priorities)
            rows += batch
        self.adapter.flush()
        return {"rows": rows, "seconds": time.perf_counter() - start}

    def learn(self, seconds: float, batch: int) -> dict[str, float]:
        """Sample and set priorities for this long; return the number of batches, the seconds, and percentiles of one
        step."""
        fresh, took = priority_sets(batch, seed=2), []
        start = now = time.perf_counter()
        while now < start + seconds:
            drawn = self.adapter.sample(batch)
            self.adapter.update_priorities(drawn["indexes"], next(fresh))
            before, now = now, time.perf_counter()
            took.append(now - before)
        p50, p99 = np.percentile(took, [50, 99]).tolist()
        return {"batches": len(took), "seconds": now - start, "p50": p50, "p99": p99}

    def wait_for_update(self, seconds: float, batch: int) -> float | None:
        """Return how many batches are drawn between an update and the first batch that it affects: the median of some
        trials. None if an update has no effect within `MOST_BATCHES`.

        A drawn row gets a priority so high that hardly any other row is drawn. The trial ends when this row fills at
        least half of a batch.
        """
        waited: list[int] = []
        used: set[np.integer] = set()
        end = time.perf_counter() + seconds
        while len(waited) < TRIALS and (time.perf_counter() < end or len(waited) < LEAST_TRIALS):
            stale = self._try_update(batch, used)
            if stale is None:
                # The batch may have been requested while explorers were still adding, and the row may have been
                # overwritten since. By now, no such batch is left.
                stale = self._try_update(batch, used)
            if stale is None:
                return None
            waited.append(stale)
        return float(np.median(waited))

    def _try_update(self, batch: int, used: set[np.integer]) -> int | None:
        """Return the number of batches of one trial, None if the update has no effect."""
        row = self._draw_new_row(batch, used)
        self.adapter.update_priorities(np.array([row]), np.array([DOMINANT]))
        stale = next((number for number in range(MOST_BATCHES) if np.mean(self._draw(batch, row) == row) >= 0.5), None)
        self.adapter.update_priorities(np.array([row]), np.array([1.0]))
        return stale

    def _draw_new_row(self, batch: int, used: set[np.integer]) -> np.integer:
        """Draw a row that no earlier trial has used: batches that were prefetched during a trial are full of its
        row."""
        while True:
            row = next((row for row in self._draw(batch) if row not in used), None)
            if row is not None:
                used.add(row)
                return row

    def _draw(self, batch: int, row: np.integer | None = None) -> np.ndarray:
        """Draw a batch and set its rows' priorities to 1, except for `row`, whose priority stays high. Return the
        indexes."""
        indexes = np.array(self.adapter.sample(batch)["indexes"])
        self.adapter.update_priorities(indexes, np.where(indexes == row, DOMINANT, 1.0))
        return indexes

    def endure(self, seconds: float, batch: int) -> dict[str, float | str | None]:
        """Learn for this long, and continue after exceptions. Return the batches/s, the longest time from one batch to
        the next in seconds, and the first exception."""
        fresh, batches, longest, raised = priority_sets(batch, seed=3), 0, 0.0, None
        start = last = now = time.perf_counter()
        while now < start + seconds:
            try:
                drawn = self.adapter.sample(batch)
                self.adapter.update_priorities(drawn["indexes"], next(fresh))
                batches += 1
            except Exception as error:
                raised = raised or f"{type(error).__name__}: {error}".splitlines()[0]
                time.sleep(RETRY_SECONDS)
                now = time.perf_counter()
                continue
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        return {"rate": batches / (now - start), "longest": max(longest, now - last), "raised": raised}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m suites.hosts.role")
    for name in ("peer", "workload", "here", "head"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--role", choices=(DATA, USER), required=True)
    parser.add_argument("--capacity", type=int, required=True)
    args = parser.parse_args()
    workload = workloads.load(args.workload)
    kind, spec = registry.hosts_class(args.peer), Spec(args.capacity, workload.fields, prioritized=True)
    user = User(kind, spec, workload.columns, args.here, args.head)
    if args.role == DATA:
        obey(Data(user))
        os._exit(0)  # servers' threads may not end by themselves
    obey(user)
    user.adapter.close()


if __name__ == "__main__":
    main()
