"""A process of `trials.py` on one of the hosts: a data host's supervisor, an explorer or a learner."""

from __future__ import annotations

import argparse
import json
import logging
import os
import pickle
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from cpprb_impl.hosts.explorer import LocalExplorer, RemoteExplorer
from cpprb_impl.hosts.keys import Keys
from cpprb_impl.hosts.learner import Learner, ShardsLost
from cpprb_impl.hosts.server import DRAWING, STORING
from cpprb_impl.hosts.shard import Address, Shard
from suites.lan.worker import obey

from .conftest import are_whole, layout_of, rows_with

LAYOUT = layout_of(1_000_000)  # more rows than a trial adds, so that none is overwritten
ADDED, FLUSH_EVERY, DRAWN = 100, 5, 64
EXPLORER_BITS = 22  # low bits of an id, for the row; the others are for the explorer. float32 is exact up to 24 bits


def address_of(known: dict[str, Any]) -> Address:
    columns = [(name, dtype, tuple(shape)) for name, dtype, shape in known["columns"]]
    return Address(**{**known, "columns": columns})


class Directory:
    """A file with the addresses of the shards, which all hosts can read."""

    def __init__(self, path: Path) -> None:
        self.path, self.read = path, -1
        self.known: Sequence[Address] = []

    def __call__(self) -> Sequence[Address]:
        if (written := self.path.stat().st_mtime_ns) != self.read:
            self.read, self.known = written, [address_of(each) for each in json.loads(self.path.read_text())]
        return self.known


class Supervisor:
    """The supervisor of a data host."""

    def __init__(self, keys: Keys, here: str, directory: Directory) -> None:
        self.keys, self.here = keys, here

    def start(self, number: int) -> dict[str, Any]:
        self.shard = Shard("trial", number, self.here, self.here, LAYOUT, self.keys)
        return vars(self.shard.get_address())

    def signal_server(self, storing: bool, number: int) -> None:
        with suppress(ProcessLookupError):  # it was killed, and is being restarted
            os.kill(self.shard.get_servers()[STORING if storing else DRAWING], signal.Signals(number))

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def ids(self) -> list[int]:
        rows = self.shard.buffer.get_all_transitions()
        if not are_whole(rows):
            raise AssertionError("a stored row is torn")
        found: list[int] = rows["id"].ravel().tolist()
        return found

    def close(self) -> None:
        self.shard.close()


class Explorer:
    """An explorer that adds rows with consecutive ids."""

    def __init__(self, keys: Keys, here: str, directory: Directory) -> None:
        self.keys, self.here, self.directory = keys, here, directory

    def start(self, number: int, local: bool) -> None:
        self.next = number << EXPLORER_BITS
        if local:
            here = next(address for address in self.directory() if address.host == self.here)
            self.explorer: Any = LocalExplorer(here)
            self.explorer.unconfirmed, self.explorer._address = 0, here
        else:
            self.explorer = RemoteExplorer(self.directory, self.keys, LAYOUT, when_lost="elsewhere", deadline=1.0)

    def explore(self, seconds: float, pause: float) -> list[dict[str, Any]]:
        """Add rows, pausing after each call. Return for each flush its ids, and which shards may have them."""
        until, flushes = time.monotonic() + seconds, []
        while time.monotonic() < until:
            first, before, shards = self.next, self.explorer.unconfirmed, {self._shard()}
            trouble = None
            try:
                for _ in range(FLUSH_EVERY):
                    ids = np.arange(self.next, self.next + ADDED)
                    self.next += ADDED
                    self.explorer.add(**rows_with(ids))
                    shards.add(self._shard())
                    time.sleep(pause)
                self.explorer.flush()
                shards.add(self._shard())
            except ConnectionError as error:
                trouble = str(error)
            flushes.append(
                {"first": first, "end": self.next, "unconfirmed": self.explorer.unconfirmed - before,
                 "shards": sorted(shards - {-1}), "trouble": trouble}
            )  # fmt: skip
            time.sleep(0.01)
        return flushes

    def _shard(self) -> int:
        address = self.explorer._address
        return address.number if address else -1


class Student:
    """A learner that checks what it samples."""

    def __init__(self, keys: Keys, here: str, directory: Directory) -> None:
        self.keys, self.directory = keys, directory

    def start(self, deadline: float) -> None:
        self.learner = Learner(self.directory, self.keys, prefetch=2, deadline=deadline)

    def learn(self, seconds: float) -> dict[str, Any]:
        until, worst, batches, torn, lost = time.monotonic() + seconds, 0.0, 0, 0, 0
        while (begin := time.monotonic()) < until:
            try:
                batch = self.learner.sample(DRAWN, 0.4)
                torn += not are_whole(batch)
                self.learner.update_priorities(batch["indexes"], np.ones(DRAWN))
                batches += 1
            except (ShardsLost, ValueError):  # no shard answers, or all that answer are empty
                lost += 1
            worst = max(worst, time.monotonic() - begin)
        return {"batches": batches, "torn": torn, "worst": worst, "without": lost}


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("Supervisor", "Explorer", "Student"))
    parser.add_argument("keys")
    parser.add_argument("here")
    parser.add_argument("directory", type=Path)
    args = parser.parse_args()
    kinds = {kind.__name__: kind for kind in (Supervisor, Explorer, Student)}
    worker = kinds[args.kind](pickle.loads(bytes.fromhex(args.keys)), args.here, Directory(args.directory))
    obey(worker)
    os._exit(0)


if __name__ == "__main__":
    main()
