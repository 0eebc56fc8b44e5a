"""TF-Agents' TFUniformReplayBuffer: the replay buffer of its tutorials, in TensorFlow variables.

Tuned, as its "Replay Buffers" and "DQN" tutorials have it: adding in a `tf.function`, reading from
`buffer.as_dataset(sample_batch_size=..., num_parallel_calls=3).prefetch(3)`. `get_next` in a `tf.function` is a row of
its own: its docstring calls it deprecated, and it is the faster one where batches are small. (Outside of any
`tf.function` an add takes some ten times as long: too slow to be filled and measured.) The buffer takes exactly
`batch_size` rows per add, one for each of as many environments. Here there is one, and many rows are a loop inside one
`tf.function`; "tf-agents[vector]" has up to 100, and rows wait until each of them has one. No `num_steps`: a row is a
whole transition. A dataset works ahead: what was added just now is not yet in its next batches. Nothing is prioritized.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adapters import parallel
from adapters.base import Adapter, Columns, Features, Spec, Step
from adapters.parallel import Gathered
from adapters.promises import Promises

PARALLEL, PREFETCHED = 3, 3  # batches, in the DQN tutorial
SOURCE = (
    "docstrings of TFUniformReplayBuffer (new rows overwrite old ones; items sampled uniformly) and tf.random.set_seed "
    "(the same sequence again); the rest is not documented, seen"
)


class TFAgents(Adapter):
    name = "tf-agents"
    distribution = "tf-agents"
    environment = "tf"
    last_python = (3, 11)
    usage = (
        "TFUniformReplayBuffer: add_batch in a tf.function, as_dataset(sample_batch_size).prefetch(3) "
        "(TF-Agents tutorials, Replay Buffers and DQN)"
    )
    any_fields = True
    batches_ahead = PARALLEL + PREFETCHED
    features = Features(
        batch_add="only a row of each parallel environment a call (here: one environment, a loop in a tf.function)",
        flexible_fields="yes, any nest of tensors",
        prioritized="no",
        weights="no: probabilities, all the same",
        duplicates="yes",
        gives="columns (tensors)",
        copies_on_add="yes",
        n_step="yes, num_steps gives sequences",
        processes="no",
        framework="TensorFlow 2.15",
        licence="Apache-2.0",
        disk="yes, a tf.Module, kept by TensorFlow's checkpoints [its source: ReplayBuffer]",
        machines="no; its ReverbReplayBuffer is Reverb [TF-Agents docs, Replay Buffers]",
        last_release="0.19.0, 2023-12-14 [PyPI]",
    )
    promises = Promises(seed="none", source=SOURCE)  # its parallel calls race: now and then the seed gives other rows

    def __init__(self, spec: Spec) -> None:
        import tensorflow as tf
        from tf_agents.replay_buffers.tf_uniform_replay_buffer import TFUniformReplayBuffer

        self.tf, self.fields = tf, spec.fields
        tf.random.set_seed(spec.seed)
        self.dtypes = {name: tf.as_dtype(field.dtype) for name, field in spec.fields.items()}
        row = {name: tf.TensorSpec(field.shape, self.dtypes[name], name) for name, field in spec.fields.items()}
        self.environments = self.environments_for(spec.capacity)
        self.buffer = TFUniformReplayBuffer(row, self.environments, max_length=spec.capacity // self.environments)
        self.batches: dict[int, Iterator] = {}
        self._trace(row)

    def environments_for(self, capacity: int) -> int:
        return 1

    def _trace(self, row: dict) -> None:
        """Make the functions that add. With their shapes left open they are traced once, and not for each size."""
        tf = self.tf

        def add_one(row: dict) -> None:
            self.buffer.add_batch({name: value[tf.newaxis] for name, value in row.items()})

        def add_many(columns: dict) -> None:
            for i in tf.range(tf.shape(next(iter(columns.values())))[0]):
                add_one({name: column[i] for name, column in columns.items()})

        many = {name: tf.TensorSpec([None, *spec.shape], spec.dtype, name) for name, spec in row.items()}
        self.add_one = tf.function(add_one, input_signature=[row])
        self.add_many = tf.function(add_many, input_signature=[many])

    def add(self, steps: Sequence[Step]) -> None:
        self.add_dicts([step._asdict() for step in steps])

    def add_dicts(self, steps: Sequence[dict]) -> None:
        add, constant, dtypes = self.add_one, self.tf.constant, self.dtypes
        for step in steps:
            add({name: constant(value, dtypes[name]) for name, value in step.items()})

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        constant, dtypes = self.tf.constant, self.dtypes
        self.add_many({name: constant(column, dtypes[name]) for name, column in columns.items()})

    def sample(self, batch_size: int) -> Columns:
        batches = self.batches.get(batch_size)
        if batches is None:
            # One pipeline at a time: another would go on filling itself with batches of a size not asked for.
            self.batches = {batch_size: (batches := self.make_batches(batch_size))}
        drawn, _ = next(batches)
        return {name: column.numpy() for name, column in drawn.items()}

    def make_batches(self, batch_size: int) -> Iterator[Any]:
        return iter(
            self.buffer.as_dataset(sample_batch_size=batch_size, num_parallel_calls=PARALLEL).prefetch(PREFETCHED)
        )

    def __len__(self) -> int:
        return int(self.buffer.num_frames())

    def close(self) -> None:
        self.batches.clear()  # ends their threads


class TFAgentsGetNext(TFAgents):
    name = "tf-agents[get_next]"
    usage = "TFUniformReplayBuffer: add_batch and get_next(sample_batch_size), each in a tf.function (its docstring)"
    promises = Promises(source=SOURCE)
    batches_ahead = 0

    def make_batches(self, batch_size: int) -> Iterator[Any]:
        return iter(self.tf.function(lambda: self.buffer.get_next(sample_batch_size=batch_size)), None)


class TFAgentsVector(TFAgents):
    name = "tf-agents[vector]"
    usage = (
        "TFUniformReplayBuffer(batch_size=100): add_batch of a row of each of 100 parallel environments in a "
        "tf.function, as_dataset (TF-Agents tutorial, Replay Buffers)"
    )
    features = replace(TFAgents.features, batch_add="yes, a row of each parallel environment a call")

    def environments_for(self, capacity: int) -> int:
        return parallel.environments(capacity)

    def _trace(self, row: dict) -> None:
        tf = self.tf
        all_rows = {name: tf.TensorSpec([self.environments, *one.shape], one.dtype, name) for name, one in row.items()}

        def add(columns: dict) -> None:
            self.buffer.add_batch(columns)

        self.put = tf.function(add, input_signature=[all_rows])
        self.gathered = Gathered(self.environments, self._put)

    def _put(self, columns: Columns) -> None:
        constant, dtypes = self.tf.constant, self.dtypes
        self.put({name: constant(column, dtypes[name]) for name, column in columns.items()})

    def add_dicts(self, steps: Sequence[dict]) -> None:
        self.gathered.add_dicts(steps)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        self.gathered.add(columns)

    @property
    def waiting(self) -> int:
        return self.gathered.waiting
