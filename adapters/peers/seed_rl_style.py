"""A prioritized buffer in TensorFlow variables, in the style of SEED RL's `PrioritizedReplay` (its `common/utils.py`).

SEED RL has no installable release. This buffer was written for this project without any of SEED RL's code, so its speed
is not the original's. In this design, columns and priorities are variables on the training device, and every operation
is a `tf.function`. There is no tree: each sample raises all priorities to the power of alpha, sums them and draws from
them, so its time grows with the capacity. Weights are relative to the largest in the batch. If alpha is 0, rows are
drawn uniformly without this work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Field, Spec, Step
from adapters.behaviours import BadPriority, ImportanceWeights, NewRowPriority
from adapters.contract import Contract, Processes, Returns, RowFields, Stated, no, yes


class PrioritizedReplay:
    """A ring of rows: the oldest is overwritten first."""

    def __init__(self, fields: Mapping[str, Field], capacity: int, alpha: float, beta: float, seed: int) -> None:
        import tensorflow as tf

        self.tf, self.capacity, self.alpha, self.beta = tf, capacity, alpha, beta
        tf.random.set_seed(seed)
        self.columns = {
            name: tf.Variable(tf.zeros([capacity, *field.shape], field.dtype)) for name, field in fields.items()
        }
        self.priorities = tf.Variable(tf.zeros([capacity]))
        self.inserted = tf.Variable(0, dtype=tf.int64)
        # The first axis has no fixed size, so that a function is traced once rather than once per size.
        rows = {name: tf.TensorSpec([None, *field.shape], field.dtype) for name, field in fields.items()}
        numbers, places = tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.int64)
        self.insert = tf.function(self._insert, input_signature=[rows, numbers])
        self.sample = tf.function(self._sample, input_signature=[tf.TensorSpec([], tf.int32)])
        self.update_priorities = tf.function(self._update_priorities, input_signature=[places, numbers])

    def _insert(self, columns: dict, priorities: Any) -> None:
        tf = self.tf
        count = tf.shape(priorities, out_type=tf.int64)[0]
        places = tf.range(self.inserted, self.inserted + count) % self.capacity
        for name, column in columns.items():
            self.columns[name].scatter_update(tf.IndexedSlices(column, places))
        self.priorities.scatter_update(tf.IndexedSlices(priorities, places))
        self.inserted.assign_add(count)

    def _sample(self, batch_size: Any) -> tuple[dict, Any, Any]:
        tf = self.tf
        stored = tf.minimum(self.inserted, self.capacity)
        tf.debugging.assert_positive(stored, "the buffer is empty")
        if self.alpha == 0:
            places = tf.random.uniform([batch_size], maxval=stored, dtype=tf.int64)
            weights = tf.ones([batch_size])
        else:
            masses = self.priorities**self.alpha
            shares = masses / tf.reduce_sum(masses)
            places = tf.random.categorical([tf.math.log(shares)], batch_size)[0]
            weights = (tf.cast(stored, tf.float32) * tf.gather(shares, places)) ** -self.beta
            weights /= tf.reduce_max(weights)
        return {name: tf.gather(column, places) for name, column in self.columns.items()}, weights, places

    def _update_priorities(self, places: Any, priorities: Any) -> None:
        self.priorities.scatter_update(self.tf.IndexedSlices(priorities, places))


class SeedRLStyle(Adapter):
    name = "seed-rl-style"
    distribution = None
    venv = "tf"
    usage = (
        "insert(rows, priorities), sample, update_priorities, each one tf.function, as SEED RL's learner does; "
        "written in this project in its style, so its speed is not the original's"
    )
    contract = Contract(
        batch_add=yes(),
        fields=Stated(RowFields.ANY, "any nest of tensors"),
        priorities=yes(),
        returns=Stated(Returns.COLUMNS, "tensors"),
        n_step=no("the original's rows are unrolls"),
        processes=Stated(Processes.ONE, "the original has one server process for all actors"),
        machines=no("the original has actors on any machine, over gRPC"),
        disk=no(),
        framework="TensorFlow 2",
        licence="MIT (the original: Apache-2.0)",
        new_row_priority=NewRowPriority.FIXED,
        weights=ImportanceWeights.OVER_BATCH,
        nan_priority=BadPriority.POISONS,
        negative_priority=BadPriority.POISONS,
        infinite_priority=BadPriority.POISONS,
        source="this adapter",
    )

    def __init__(self, spec: Spec) -> None:
        self.fields, self.prioritized = spec.fields, spec.prioritized
        alpha = spec.alpha if spec.prioritized else 0
        self.buffer = PrioritizedReplay(spec.fields, spec.capacity, alpha, spec.beta, spec.seed)
        self.one = np.ones(1, np.float32)

    def add(self, steps: Sequence[Step]) -> None:
        self.add_dicts([step._asdict() for step in steps])

    def add_dicts(self, steps: Sequence[dict]) -> None:
        self._add_rows(steps, [self.one] * len(steps))

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        self._add_rows([step._asdict() for step in steps], np.float32(priorities)[:, np.newaxis])

    def _add_rows(self, steps: Sequence[dict], priorities: Sequence[np.ndarray]) -> None:
        insert, fields = self.buffer.insert, self.fields
        for step, priority in zip(steps, priorities, strict=True):
            # Pass NumPy arrays of one row, because converting a list to a tensor takes longer.
            insert({name: np.asarray(value, fields[name].dtype)[np.newaxis] for name, value in step.items()}, priority)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        rows = len(next(iter(columns.values())))
        given = np.ones(rows, np.float32) if priorities is None else priorities.astype(np.float32)
        self.buffer.insert(columns, given)

    def sample(self, batch_size: int) -> Columns:
        drawn, weights, places = self.buffer.sample(batch_size)
        batch = {name: column.numpy() for name, column in drawn.items()}
        if self.prioritized:
            batch["weights"], batch["indexes"] = weights.numpy(), places.numpy()
        return batch

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self.buffer.update_priorities(indexes, priorities.astype(np.float32))

    def __len__(self) -> int:
        return min(int(self.buffer.inserted), self.buffer.capacity)
