"""Reverb with a server on each data host.

With several servers, calls that add rows go to the servers in turn, as do requests for batches. Each server prioritizes
only its own rows.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from typing import Self

import numpy as np

from adapters.base import Columns, Spec
from adapters.hosts import HostsAdapter, Place
from adapters.peers.reverb.adapter import Reverb
from adapters.peers.reverb.client import limit_threads
from adapters.peers.reverb.server import start, table_for


class _Client(Reverb):
    """A client of one server."""

    def __init__(self, spec: Spec, address: str) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        limit_threads()
        self._connect(spec, address)


class ReverbOnHosts(HostsAdapter):
    name = "reverb[hosts]"
    distribution = "dm-reverb"
    last_python = (3, 11)
    usage = "a server on each data host; TrajectoryWriter in, batched TrajectoryDataset out, from the servers in turn"
    contract = Reverb.contract

    @classmethod
    @contextmanager
    def serving(cls, spec: Spec, here: str) -> Iterator[str]:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        with tempfile.TemporaryDirectory() as checkpoints:
            server = start([table_for(spec)], checkpoints)
            yield f"{here}:{server.port}"

    def __init__(self, spec: Spec, place: Place) -> None:
        self.fields = spec.fields
        each = replace(spec, capacity=-(-spec.capacity // len(place.data)))
        self.clients = [_Client(each, address) for address in place.data]
        self.writers, self.readers = cycle(self.clients), cycle(self.clients)
        self.drawn_from = self.clients[0]

    @classmethod
    def joined(cls, spec: Spec, place: Place, handle: bytes) -> Self:
        return cls(spec, place)

    def add(self, steps) -> None:
        next(self.writers).add(steps)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        next(self.writers).add_batch(columns, priorities)

    def sample(self, batch_size: int) -> Columns:
        self.drawn_from = next(self.readers)
        return self.drawn_from.sample(batch_size)

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self.drawn_from.update_priorities(indexes, priorities)

    def __len__(self) -> int:
        return sum(map(len, self.clients))
