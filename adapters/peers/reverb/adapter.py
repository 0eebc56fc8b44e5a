"""Reverb: a table on a real server, in another process on this machine, reached over gRPC.

For each task, this adapter uses the fastest of the documented ways (see `variants.py` for the others), measured with
CartPole rows on 2 cores:
- rows without priorities: StructuredWriter, 30 us per row; TrajectoryWriter takes 55 us, Client.insert 355 us.
- rows with priorities: TrajectoryWriter, since StructuredWriter takes no priority per item. Both are flushed every
  `FLUSH_EVERY` items without waiting for the last `LEFT_PENDING` of them (`flush(block_until_num_items=...)`), and
  each call ends when the server has confirmed all items. Waiting for all of them at each flush is equally fast within
  the noise.
- sampling: TrajectoryDataset, batched, 0.45 ms for 32 rows. TimestepDataset is equally fast; Client.sample takes 5 ms,
  and Reverb's documentation advises against it for training. There are as many workers as the CPU has threads, as the
  docstring of TrajectoryDataset advises, and each has two batches in flight, as in Reverb's README. Reverb's default
  number of workers was slower in most settings. With one batch in flight, sampling batches of 256 was 1.5 times as
  fast, but a learner's step took 10 to 20% longer.
- new priorities: Client.mutate_priorities, 0.1 ms for 32; TFClient.update_priorities takes 0.18 ms.

A dataset prefetches, so an update or a new row takes effect some batches later. tf.data would add a queue that grows to
130 batches. The queue is switched off: sampling without it is as fast as with an empty queue. Reverb returns
probabilities, from which the adapter computes the weights, as a user must (largest in the batch = 1, as in Acme's
learners). `suites.reverb_settings` compares the settings.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from adapters.base import Adapter, Columns, Spec, Step
from adapters.behaviours import BadPriority, Empty, ImportanceWeights, NewRowPriority, Seed, StaleUpdate
from adapters.contract import Contract, Processes, Release, Returns, RowFields, Stated, no, yes
from adapters.peers.reverb.client import WORKERS, Client, limit_threads
from adapters.peers.reverb.server import TABLE, InProcessServer, ServerProcess, table_for

FLUSH_EVERY, LEFT_PENDING = 32, 16  # items; Reverb warns if more than 50 are pending
Rows = Iterable[dict]


class Reverb(Client, Adapter):
    name = "reverb"
    distribution = "dm-reverb"
    last_python = (3, 11)
    usage = "server in its own process; StructuredWriter or TrajectoryWriter in, batched TrajectoryDataset out"
    start_method = "forkserver"  # gRPC does not survive a fork, except in a process that has only imported the library
    preload = ("reverb",)
    contract = Contract(
        batch_add=no("a writer streams single steps"),
        fields=Stated(RowFields.ANY, "nested structures"),
        priorities=yes(),
        returns=Stated(Returns.COLUMNS, "datasets"),
        n_step=no("items of any length, whose rewards the user sums"),
        processes=Stated(Processes.ANY, "also on other machines (gRPC)"),
        machines=yes("gRPC", "Reverb docs, How does Reverb work?"),
        disk=yes("checkpoints of the server", "Reverb docs, Checkpointing"),
        framework="TensorFlow",
        licence="Apache-2.0",
        release=Release("0.14.0", datetime.date(2023, 12, 10)),
        returns_weights=False,
        batches_ahead=2 * WORKERS + 2,  # at least two per worker, plus those in transit; 5 were observed with 2 workers
        new_row_priority=NewRowPriority.FIXED,  # the user sets the priority of each item, here 1
        weights=ImportanceWeights.OVER_BATCH,
        stale_update=StaleUpdate.IGNORED,
        empty=Empty.WAITS,
        infinite_priority=BadPriority.POISONS,
        seed=Seed.NONE,
        source="README (probabilities; Prioritized); docstrings of Table (max_size, remover), mutate_priorities "
        "(unknown keys are ignored) and Client.sample (waits); the rest is undocumented, only observed",
        remarks={"copies_on_add": "sent to the server"},
    )

    # Settings that `suites.reverb_settings` varies, with those of `Client`.
    flush_every: int = FLUSH_EVERY  # items
    left_pending: int = LEFT_PENDING  # items that such a flush does not wait for

    #: where the server runs
    host: ClassVar[type[ServerProcess] | type[InProcessServer]] = ServerProcess

    def __init__(self, spec: Spec) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no start-up messages on stderr
        self.host.prepare()  # so that the server's process imports the library while this one does
        limit_threads()
        self.server: ServerProcess | InProcessServer = self.host([table_for(spec)])
        try:
            self._connect(spec, self.server.wait_for_address())
        except BaseException:
            self.server.close()
            raise

    def _connect(self, spec: Spec, address: str) -> None:
        self.spec, self.fields = spec, spec.fields
        self._use(address, spec.prioritized, spec.beta)
        # A Python int would become an int32, TensorFlow's default type, which the table rejects.
        self.scalars = {name: np.dtype(f.dtype).type for name, f in spec.fields.items() if not f.shape}
        self.writers: dict = {}

    def __reduce__(self) -> tuple:
        """When unpickled in another process, become a client of the same server."""
        return _client, (type(self), self.spec, self.address)

    # Adding: each step becomes the structure of the table's signature.

    def add(self, steps: Sequence[Step]) -> None:
        self._insert(self._rows(steps))

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        self._insert(self._rows(steps), priorities)

    def _rows(self, steps: Sequence[Step]) -> Rows:
        number = _unchanged if self.fields["act"].shape else self.scalars["act"]
        seen = self.scalars.get("obs", _unchanged)
        as_rew = self.scalars["rew"]
        return (
            {"obs": seen(obs), "act": number(act), "rew": as_rew(rew), "next_obs": seen(next_obs), "done": done}
            for obs, act, rew, next_obs, done in steps
        )

    def add_dicts(self, steps: Sequence[dict]) -> None:
        scalars = self.scalars.items()
        self._insert({**step, **{name: as_type(step[name]) for name, as_type in scalars}} for step in steps)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        names = tuple(self.fields)
        rows = (dict(zip(names, row, strict=True)) for row in zip(*(columns[name] for name in names), strict=True))
        self._insert(rows, None if priorities is None else priorities.tolist())

    def _insert(self, rows: Rows, priorities: Iterable[float] | None = None) -> None:
        if priorities is None:
            self._append(rows)
        else:
            self._create_items(rows, priorities)

    def _append(self, rows: Rows) -> None:
        """Append rows to a writer that turns each into an item of priority 1."""
        if "structured" not in self.writers:
            lib = self.reverb.structured_writer
            step = lib.create_reference_step(dict.fromkeys(self.fields))
            pattern = lib.pattern_from_transform(step, lambda s: {name: s[name][-1] for name in self.fields})
            self.writers["structured"] = self.client.structured_writer([lib.create_config(pattern, TABLE)])
        writer = self.writers["structured"]
        append, flush, every, left = writer.append, writer.flush, self.flush_every, self.left_pending
        for i, row in enumerate(rows, 1):
            append(row)
            if i % every == 0:
                flush(left)
        flush()  # returns when the server has confirmed every row

    def _create_items(self, rows: Rows, priorities: Iterable[float]) -> None:
        if "trajectory" not in self.writers:
            self.writers["trajectory"] = self.client.trajectory_writer(num_keep_alive_refs=1)
        writer, names = self.writers["trajectory"], tuple(self.fields)
        every, left = self.flush_every, self.left_pending
        for i, (row, priority) in enumerate(zip(rows, priorities, strict=False), 1):
            writer.append(row)
            history = writer.history
            writer.create_item(TABLE, priority, {name: history[name][-1] for name in names})
            if i % every == 0:
                writer.flush(left)
        writer.flush()

    def __len__(self) -> int:
        return self.client.server_info()[TABLE].current_size

    def close(self) -> None:
        # Writers first: otherwise they would try to reach a server that has stopped.
        for writer in self.writers.values():
            if hasattr(writer, "close"):  # a StructuredWriter closes when it is no longer referenced
                writer.close()
        self.writers, self.batches, self.client = {}, None, None
        self.server.close()


def _client(kind: type[Reverb], spec: Spec, address: str) -> Reverb:
    client = kind.__new__(kind)
    client._connect(spec, address)
    return client


def _unchanged(value: np.ndarray) -> np.ndarray:
    return value
