"""Reverb in place of the shared buffer: the explorers write the same sequences to a server in the learner's process.

As in Acme's sequence adder, an episode's last sequence is padded with zeros, and new items have priority 1. Sampling is
that of the adapter (`adapters/peers/reverb/`), which prepares batches in advance. Does not import PyTorch.
"""

from __future__ import annotations

import ctypes
import os
import time
from multiprocessing.sharedctypes import RawValue
from typing import Any

import numpy as np

from adapters.base import Columns, Field
from adapters.peers.reverb.client import Client, limit_threads
from adapters.peers.reverb.server import TABLE, InProcessServer, TableSettings

NEW_PRIORITY = 1.0


class ReverbReplay(Client):
    """A table of sequences of `length` steps, which begin at every `period`-th step of an episode.

    `fields` are those of a step. Of the field `state`, only a sequence's first one is stored. Create it before the
    explorers are forked, and call `begin` afterwards: gRPC does not survive a fork.
    """

    def __init__(self, items: int, fields: dict[str, Field], state: str, length: int, period: int) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no start-up messages on stderr
        import reverb

        self.reverb = reverb
        self.server: InProcessServer | None = None
        self.items, self.fields, self.state, self.length, self.period = items, fields, state, length, period
        self.steps = fields.keys() - {state} | {"is_first", "mask"}
        self.port = RawValue(ctypes.c_int, 0)
        self.writers: list[Any] = []  # of the environments of an explorer
        self.counts: list[int] = []  # of the steps of their episodes

    def begin(self, alpha: float, beta: float) -> None:
        """Start the server, in the learner's process."""
        limit_threads()
        fields = {**self.fields, "is_first": Field((), "bool"), "mask": Field((), "bool")}
        shapes = {name: Field((self.length, *fields[name].shape), fields[name].dtype) for name in self.steps}
        table = TableSettings(self.items, {**shapes, self.state: fields[self.state]}, sampler=("Prioritized", alpha))
        self.server = server = InProcessServer([table])
        self._use(server.wait_for_address(), True, beta)
        self.port.value = int(self.address.rpartition(":")[2])

    def add(self, **columns: Any) -> None:
        """Add the next step of each environment of this explorer. Waits until the server has started."""
        environments = len(columns["done"])
        if not self.writers:
            while not self.port.value:
                time.sleep(0.01)
            client = self.reverb.Client(f"localhost:{self.port.value}")
            self.writers = [client.trajectory_writer(self.length) for _ in range(environments)]
            self.counts = [0] * environments
        for environment in range(environments):
            values = {name: np.asarray(columns[name][environment], field.dtype) for name, field in self.fields.items()}
            self._append(environment, {**values, "is_first": self.counts[environment] == 0, "mask": True})
            if columns["done"][environment]:
                self._end_episode(environment, {name: np.zeros_like(value) for name, value in values.items()})

    def _append(self, environment: int, step: dict[str, Any]) -> None:
        writer = self.writers[environment]
        writer.append({**step, "is_first": np.bool_(step["is_first"]), "mask": np.bool_(step["mask"])})
        self.counts[environment] += 1
        if self._ends_sequence(environment):
            history = writer.history
            trajectory = {name: history[name][-self.length :] for name in self.steps}
            trajectory[self.state] = history[self.state][-self.length]
            writer.create_item(TABLE, NEW_PRIORITY, trajectory)

    def _ends_sequence(self, environment: int) -> bool:
        later = self.counts[environment] - self.length
        return later >= 0 and later % self.period == 0

    def _end_episode(self, environment: int, padding: Columns) -> None:
        while not self._ends_sequence(environment):
            self._append(environment, {**padding, "is_first": False, "mask": False})
        self.writers[environment].end_episode()
        self.counts[environment] = 0

    def close(self) -> None:
        self.writers, self.batches, self.client = [], None, None
        if self.server:
            self.server.close()
