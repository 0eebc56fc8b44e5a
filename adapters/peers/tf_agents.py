"""TF-Agents' TFUniformReplayBuffer: the replay buffer of its tutorials, in TensorFlow variables. No priorities.

- "tf-agents" is tuned as in its tutorials "Replay Buffers" and "DQN": `add_batch` in a `tf.function`, and
  `buffer.as_dataset(sample_batch_size=..., num_parallel_calls=3).prefetch(3)`. A dataset prefetches, so its next
  batches do not contain rows that were just added.
- "tf-agents[get_next]" calls `get_next` in a `tf.function`. Its docstring calls it deprecated; it is faster for small
  batches.
- "tf-agents[vector]" has up to 100 environments; rows wait until there is one for each.

The buffer takes exactly `batch_size` rows per add, one for each environment. With one environment, a batch is added by
a loop inside one `tf.function`. (Outside any `tf.function`, an add takes about ten times as long, which is too slow to
fill and measure the buffer.) No `num_steps` is needed: a row is a whole transition.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adapters import parallel
from adapters.base import Adapter, Columns, Spec, Step
from adapters.behaviours import Seed
from adapters.contract import Contract, Release, Returns, RowFields, Stated, no, yes
from adapters.parallel import RowCollector

PARALLEL, PREFETCHED = 3, 3  # batches, in the DQN tutorial


class TFAgents(Adapter):
    name = "tf-agents"
    distribution = "tf-agents"
    venv = "tf"
    last_python = (3, 11)
    usage = (
        "TFUniformReplayBuffer: add_batch in a tf.function, as_dataset(sample_batch_size).prefetch(3) "
        "(TF-Agents tutorials, Replay Buffers and DQN)"
    )
    contract = Contract(
        batch_add=no("one row of each parallel environment per call; here one environment, a loop in a tf.function"),
        fields=Stated(RowFields.ANY, "any nest of tensors"),
        priorities=no(),
        returns=Stated(Returns.COLUMNS, "tensors"),
        n_step=yes("num_steps returns sequences"),
        machines=no("its ReverbReplayBuffer is Reverb", "TF-Agents docs, Replay Buffers"),
        disk=yes("a tf.Module, saved by TensorFlow's checkpoints", "its source: ReplayBuffer"),
        framework="TensorFlow 2.15",
        licence="Apache-2.0",
        release=Release("0.19.0", datetime.date(2023, 12, 14)),
        batches_ahead=PARALLEL + PREFETCHED,
        seed=Seed.NONE,  # parallel calls race, so a seed does not always give the same rows
        source="docstrings of TFUniformReplayBuffer (new rows overwrite old ones; items sampled uniformly) and "
        "tf.random.set_seed (the same sequence again); the rest is undocumented, only observed",
        remarks={"weights": "probabilities, all equal"},
    )

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
        """Create the functions that add rows. Without fixed sizes, they are traced once instead of once per size."""
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
            # One pipeline at a time: an unused one would keep prefetching.
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
        self.batches.clear()  # ends the threads of the pipeline


class TFAgentsGetNext(TFAgents):
    name = "tf-agents[get_next]"
    usage = "TFUniformReplayBuffer: add_batch and get_next(sample_batch_size), each in a tf.function (its docstring)"
    contract = replace(TFAgents.contract, batches_ahead=0, seed=Seed.OWN)

    def make_batches(self, batch_size: int) -> Iterator[Any]:
        return iter(self.tf.function(lambda: self.buffer.get_next(sample_batch_size=batch_size)), None)


class TFAgentsVector(TFAgents):
    name = "tf-agents[vector]"
    usage = (
        "TFUniformReplayBuffer(batch_size=100): add_batch of one row of each of 100 parallel environments in a "
        "tf.function, as_dataset (TF-Agents tutorial, Replay Buffers)"
    )
    contract = replace(TFAgents.contract, batch_add=yes("one row of each parallel environment per call"))

    def environments_for(self, capacity: int) -> int:
        return parallel.environments(capacity)

    def _trace(self, row: dict) -> None:
        tf = self.tf
        all_rows = {name: tf.TensorSpec([self.environments, *one.shape], one.dtype, name) for name, one in row.items()}

        def add(columns: dict) -> None:
            self.buffer.add_batch(columns)

        self.put = tf.function(add, input_signature=[all_rows])
        self.gathered = RowCollector(self.environments, self._put)

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
