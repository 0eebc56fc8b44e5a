"""The other documented ways to use Reverb; `adapter.py` has the fastest. Each class differs from the fastest only in
what its docstring states.

They are documented in Reverb's README (Client.insert, Client.sample, the datasets) and in the docstrings of
`reverb.Client`, `reverb.TFClient`, `reverb.TrajectoryWriter` and `reverb.TimestepDataset`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import repeat

import numpy as np

from adapters.base import Columns, Spec
from adapters.behaviours import BatchOverStored
from adapters.contract import Returns, RowFields, Stated, no
from adapters.peers.reverb.adapter import FLUSH_EVERY, Reverb, Rows
from adapters.peers.reverb.server import TABLE, InProcessServer

NOTHING_AHEAD = replace(Reverb.contract, batches_ahead=0)


class Naive(Reverb):
    """Opens and closes a writer and its stream for each row, and samples single rows."""

    name = "reverb[naive]"
    usage = "Client.insert in, Client.sample out, stacked into columns, as in the README's first examples"
    contract = replace(
        NOTHING_AHEAD,
        batch_add=no("one stream per row"),
        returns=Stated(Returns.ROWS, "lists of steps"),
        batch_over_stored=BatchOverStored.WAITS,  # according to its docstring; in fact, it repeats rows
    )

    def _insert(self, rows: Rows, priorities: Iterable[float] | None = None) -> None:
        insert = self.client.insert
        for row, priority in zip(rows, priorities or repeat(1.0), strict=False):
            insert(row, {TABLE: priority})

    def sample(self, batch_size: int) -> Columns:
        drawn = [steps[0] for steps in self.client.sample(TABLE, batch_size)]
        columns = map(np.stack, zip(*(sample.data for sample in drawn), strict=True))
        batch = dict(zip(sorted(self.fields), columns, strict=True))  # a nest is flattened in the order of its keys
        if self.prioritized:
            batch["weights"] = self._weights(np.array([sample.info.probability for sample in drawn]))
            batch["indexes"] = np.array([sample.info.key for sample in drawn], np.uint64)
        return batch


class ByTrajectoryWriter(Reverb):
    """Uses TrajectoryWriter for all rows, even without priorities, where StructuredWriter is faster."""

    name = "reverb[TrajectoryWriter]"
    usage = "TrajectoryWriter in, batched TrajectoryDataset out (the README's recommendation)"

    def _append(self, rows: Rows) -> None:
        self._create_items(rows, repeat(1.0))


class SharingChunks(ByTrajectoryWriter):
    """Sends an observation once if a row's obs is the next_obs of the previous row: both items refer to it.

    Only for the five fields of a step. On CartPole and Atari rows it is as fast as `ByTrajectoryWriter`, within noise.
    """

    name = "reverb[shared chunks]"
    usage = "as reverb[TrajectoryWriter], but obs and next_obs refer to the same column (docs, TrajectoryWriter)"
    contract = replace(Reverb.contract, fields=Stated(RowFields.FIXED, "the five fields of a step, as used here"))

    def _create_items(self, rows: Rows, priorities: Iterable[float]) -> None:
        if "trajectory" not in self.writers:
            self.writers["trajectory"] = self.client.trajectory_writer(num_keep_alive_refs=2)
            self.seen = None
        writer, others = self.writers["trajectory"], ("act", "rew", "done")
        every, left = self.flush_every, self.left_pending
        for i, (row, priority) in enumerate(zip(rows, priorities, strict=False), 1):
            if self.seen is None or not np.array_equal(self.seen, row["obs"]):
                writer.append({"obs": row["obs"]})
            writer.append({"obs": row["next_obs"]} | {name: row[name] for name in others})
            self.seen = np.copy(row["next_obs"])
            history = writer.history
            obs = {"obs": history["obs"][-2], "next_obs": history["obs"][-1]}
            writer.create_item(TABLE, priority, obs | {name: history[name][-1] for name in others})
            if i % every == 0:
                writer.flush(left)
        writer.flush()


class OutByTimestepDataset(Reverb):
    name = "reverb[TimestepDataset]"
    usage = "StructuredWriter or TrajectoryWriter in, batched TimestepDataset out"

    def _dataset(self, batch_size: int):
        return self.reverb.TimestepDataset.from_table_signature(
            self.address, TABLE, max_in_flight_samples_per_worker=2 * batch_size, num_workers_per_iterator=2
        )


class ByWriter(OutByTimestepDataset):
    """Uses the predecessor of TrajectoryWriter, which will be deprecated according to its docstring.

    Its items have a time axis of one step, which TrajectoryDataset rejects if the signature describes a step.
    """

    name = "reverb[Writer]"
    usage = "the legacy Client.writer in (append, create_item), batched TimestepDataset out"

    def _insert(self, rows: Rows, priorities: Iterable[float] | None = None) -> None:
        if "legacy" not in self.writers:
            self.writers["legacy"] = self.client.writer(max_sequence_length=1, max_in_flight_items=FLUSH_EVERY)
        writer = self.writers["legacy"]
        append, create_item = writer.append, writer.create_item
        for row, priority in zip(rows, priorities or repeat(1.0), strict=False):
            append(row)
            create_item(TABLE, 1, priority)
        writer.flush()


class InProcess(Reverb):
    """Runs the server in this process: samplers reach the table directly, writers still use gRPC."""

    name = "reverb[in-process]"
    usage = "the server in the learner's process; StructuredWriter or TrajectoryWriter in, TrajectoryDataset out"
    host = InProcessServer


class ByTFClient(Reverb):
    """Makes every call within a TensorFlow graph. Each call adds or samples one row, so the loops over rows are also
    part of the graph."""

    name = "reverb[TFClient]"
    usage = "TFClient.insert, .sample and .update_priorities in tf.functions that loop over the rows"
    contract = replace(
        NOTHING_AHEAD, batch_add=no("a loop in the graph"), returns=Stated(Returns.ROWS, "stacked in the graph")
    )

    def _connect(self, spec: Spec, address: str) -> None:
        super()._connect(spec, address)
        import tensorflow as tf

        self.tf, self.names = tf, sorted(self.fields)  # a nest is flattened in the order of its keys
        fields = [self.fields[name] for name in self.names]
        dtypes = [tf.as_dtype(field.dtype) for field in fields]
        client = self.reverb.TFClient(address)
        table = tf.constant([TABLE])

        @tf.function(
            input_signature=[
                [tf.TensorSpec(field.shape, dtype) for field, dtype in zip(fields, dtypes, strict=True)],
                tf.TensorSpec([], tf.float64),
            ]
        )
        def insert(row, priority):
            client.insert(row, table, priority[None])

        @tf.function(
            input_signature=[
                [tf.TensorSpec([None, *field.shape], dtype) for field, dtype in zip(fields, dtypes, strict=True)],
                tf.TensorSpec([None], tf.float64),
            ]
        )
        def insert_all(columns, priorities):
            for i in tf.range(tf.size(priorities)):
                client.insert([column[i] for column in columns], table, priorities[i : i + 1])

        kinds = (tf.uint64, tf.float64, *dtypes)

        @tf.function
        def sample(batch_size):
            def one(_):
                drawn = client.sample(TABLE, dtypes)
                return drawn.info.key, drawn.info.probability, *drawn.data

            return tf.map_fn(one, tf.range(batch_size), fn_output_signature=kinds)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.uint64), tf.TensorSpec([None], tf.float64)])
        def update(keys, priorities):
            client.update_priorities(TABLE, keys, priorities)

        self.insert, self.insert_all, self.draw, self.update = insert, insert_all, sample, update

    def _insert(self, rows: Rows, priorities: Iterable[float] | None = None) -> None:
        insert, names = self.insert, self.names
        for row, priority in zip(rows, priorities or repeat(1.0), strict=False):
            insert([row[name] for name in names], priority)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        ones = np.ones(len(columns[self.names[0]]))
        self.insert_all([columns[name] for name in self.names], ones if priorities is None else priorities)

    def sample(self, batch_size: int) -> Columns:
        keys, probabilities, *columns = self.draw(self.tf.constant(batch_size))
        batch = {name: column.numpy() for name, column in zip(self.names, columns, strict=True)}
        if self.prioritized:
            batch["weights"], batch["indexes"] = self._weights(probabilities.numpy()), keys.numpy()
        return batch

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self.update(indexes, priorities)

    def close(self) -> None:
        self.insert = self.insert_all = self.draw = self.update = None
        super().close()
