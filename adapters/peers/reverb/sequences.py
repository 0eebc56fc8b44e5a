"""Reverb's trajectories: a table with one item for each sequence of steps that does not cross an episode's end.

A StructuredWriter creates an item after each step whose episode has enough steps (docstring of `reverb.Client.
structured_writer`); `end_episode` begins the next one. Items refer to chunks of steps, which are stored once. Adding
was faster than with a TrajectoryWriter. New items have priority 1.

Batches are drawn as in `adapter.py`, and prepared in advance. The server is in this process, so that its table is
reached without gRPC, which was faster.

The table's size is a number of items, so it stores more steps than its capacity. Several streams have a writer each,
whose items are confirmed after each step, so that the oldest are removed in the order of the steps.
"""

from __future__ import annotations

import os
from typing import Any

from adapters.base import Columns, Field
from adapters.peers.reverb.adapter import FLUSH_EVERY, LEFT_PENDING, Reverb
from adapters.peers.reverb.client import Client, limit_threads
from adapters.peers.reverb.server import TABLE, InProcessServer, TableSettings
from adapters.sequences import SequenceAdapter, SequenceContract, SequenceSpec


class ReverbTrajectories(Client, SequenceAdapter):
    name = "reverb[trajectories]"
    distribution = "dm-reverb"
    last_python = Reverb.last_python
    usage = (
        "the server in the learner's process; an item per sequence of an episode by StructuredWriter, batched "
        "TrajectoryDataset out (README; docstring of StructuredWriter); the capacity counts sequences"
    )
    contract = Reverb.contract
    sequences = SequenceContract(
        counts_sequences=True, source="docstrings of Table (max_size) and StructuredWriter.end_episode"
    )

    def __init__(self, spec: SequenceSpec) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no start-up messages on stderr
        limit_threads()
        self.names = list(spec.fields)
        table = TableSettings(
            spec.capacity,
            {name: Field((spec.length, *field.shape), field.dtype) for name, field in spec.fields.items()},
            sampler=("Prioritized", spec.alpha) if spec.prioritized else ("Uniform",),
        )
        self.server = InProcessServer([table])
        self._use(self.server.wait_for_address(), spec.prioritized, spec.beta)
        self.writers = [self._writer(spec.length) for _ in range(spec.streams)]

    def _writer(self, length: int) -> Any:
        lib = self.reverb.structured_writer
        step = lib.create_reference_step(dict.fromkeys(self.names))
        pattern = lib.pattern_from_transform(step, lambda s: {name: s[name][-length:] for name in self.names})
        return self.client.structured_writer([lib.create_config(pattern, TABLE)])

    def add(self, columns: Columns) -> None:
        if len(self.writers) == 1:
            self._append(self.writers[0], {name: columns[name][:, 0] for name in self.names})
            return
        for step in range(len(columns["done"])):
            for stream, writer in enumerate(self.writers):
                self._append(writer, {name: columns[name][step : step + 1, stream] for name in self.names})

    def _append(self, writer: Any, columns: Columns) -> None:
        done = columns["done"]
        for i, row in enumerate(zip(*columns.values(), strict=True)):
            writer.append(dict(zip(self.names, row, strict=True)))
            if done[i]:
                writer.end_episode()
            elif i % FLUSH_EVERY == 0:
                writer.flush(LEFT_PENDING)
        writer.flush()

    def close(self) -> None:
        self.writers, self.batches, self.client = [], None, None
        self.server.close()
