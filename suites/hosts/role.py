"""A process on one of the hosts: it serves data, learns, or explores, as the measuring process tells it.

python -m suites.hosts.role --peer NAME --workload NAME --role data|user ...
"""

from __future__ import annotations

import argparse
import base64
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from hashlib import blake2b

import numpy as np

from adapters import registry
from adapters.base import Columns, Spec
from adapters.hosts import HostsAdapter, Place
from suites import workloads
from suites.hosts.spec import DATA, USER
from suites.lan.worker import obey
from suites.workloads.priorities import priority_sets


class Data:
    """A data host."""

    def __init__(self, kind: type[HostsAdapter], spec: Spec, here: str) -> None:
        self.stack = ExitStack()
        self.address = self.stack.enter_context(kind.serving(spec, here))

    def get_address(self) -> str:
        return self.address


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
        """Add so many rows, and wait until they are stored."""
        for _, columns in zip(range(rows // batch), self._batches(batch), strict=False):
            self.adapter.add_batch(columns, self.random.uniform(0.01, 1.0, batch))
        self.adapter.flush()

    def count_wrong(self, samples: int, batch: int) -> int:
        """Return how many rows of so many samples are none of the recorded rows."""
        known = set(self._rows(self.columns))
        wrong = 0
        for _ in range(samples):
            drawn = self.adapter.sample(batch)
            wrong += sum(row not in known for row in self._rows(drawn))
            self.adapter.update_priorities(drawn["indexes"], self.random.uniform(0.01, 1.0, batch))
        return wrong

    def _rows(self, columns: Columns) -> Iterator[bytes]:
        """Yield a digest of each row, whatever shape and dtype the peer returns."""
        fields = self.spec.fields.items()
        plain = [np.asarray(columns[name], field.dtype) for name, field in fields]
        for row in zip(*plain, strict=True):
            yield blake2b(b"".join(value.tobytes() for value in row)).digest()

    def explore(self, seconds: float, batch: int) -> dict[str, float]:
        """Add batches for so long, and wait until they are stored; return the rows and the seconds."""
        batches, priorities = self._batches(batch), self.random.uniform(0.01, 1.0, batch)
        rows, start = 0, time.perf_counter()
        while time.perf_counter() < start + seconds:
            self.adapter.add_batch(next(batches), priorities)
            rows += batch
        self.adapter.flush()
        return {"rows": rows, "seconds": time.perf_counter() - start}

    def learn(self, seconds: float, batch: int) -> dict[str, float]:
        """Sample and set priorities for so long; return the number of batches, the seconds, and percentiles
        of one step."""
        fresh, took = priority_sets(batch, seed=2), []
        start = now = time.perf_counter()
        while now < start + seconds:
            drawn = self.adapter.sample(batch)
            self.adapter.update_priorities(drawn["indexes"], next(fresh))
            before, now = now, time.perf_counter()
            took.append(now - before)
        p50, p99 = np.percentile(took, [50, 99]).tolist()
        return {"batches": len(took), "seconds": now - start, "p50": p50, "p99": p99}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m suites.hosts.role")
    for name in ("peer", "workload", "here", "head"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--role", choices=(DATA, USER), required=True)
    parser.add_argument("--capacity", type=int, required=True)
    args = parser.parse_args()
    workload = workloads.load(args.workload)
    kind, spec = registry.hosts_class(args.peer), Spec(args.capacity, workload.fields, prioritized=True)
    if args.role == DATA:
        data = Data(kind, spec, args.here)
        obey(data)
        os._exit(0)  # servers' threads need not end by themselves
    user = User(kind, spec, workload.columns, args.here, args.head)
    obey(user)
    user.adapter.close()


if __name__ == "__main__":
    main()
