"""RLlib's replay buffers, used within this process without a Ray cluster.

Used as the docstrings of `ray.rllib.utils.replay_buffers` show: a SampleBatch of lists for one step or of arrays for
many, with the storage unit "timesteps". An add call takes one weight, so rows with priorities are added one by one
(measured to be as fast as one add followed by `update_priorities`).
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from adapters.base import Adapter, Columns, Spec, Step
from adapters.behaviours import BadPriority, Dtype, NewRowPriority, References, Seed
from adapters.contract import Contract, Processes, Release, Returns, RowFields, Stated, no, yes

# RLlib's names for the five fields (SampleBatch refuses the key "dones"). Other fields keep their names.
KEYS = {"obs": "obs", "act": "actions", "rew": "rewards", "next_obs": "new_obs", "done": "terminateds"}


@contextmanager
def without_tensorflow() -> Iterator[None]:
    """Keep RLlib from importing TensorFlow, which is installed for Reverb and which RLlib's buffers do not use.

    The import would take 2.5 s and 350 MB, and disable TensorFlow's eager mode in the whole process.
    """
    hidden = "tensorflow" not in sys.modules
    if hidden:
        sys.modules["tensorflow"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules["tensorflow"]


class RLlib(Adapter):
    name = "rllib"
    distribution = "ray"
    last_python = (3, 14)
    usage = 'ReplayBuffer(storage_unit="timesteps").add(SampleBatch(...)), no cluster (RLlib docs, Replay Buffers)'
    contract = Contract(
        batch_add=yes("split into batches of one row"),
        fields=Stated(RowFields.ANY, "any key"),
        priorities=yes("priorities on add (one weight per call) and later"),
        returns=Stated(Returns.COLUMNS, "SampleBatch"),
        n_step=no("the user computes them before the add"),
        processes=Stated(Processes.ANY, "through a Ray actor"),
        machines=yes("through a Ray actor, anywhere in the cluster", "Ray docs, Actors"),
        disk=yes("get_state and set_state, saved by its checkpoints", "seen: tests/adapters/test_features.py"),
        framework="Ray",
        licence="Apache-2.0",
        release=Release("2.60.0", datetime.date(2026, 11, 4)),
        dtype=Dtype.WIDER,
        new_row_priority=NewRowPriority.LARGEST_UPDATE,
        references=References.KEPT_OF_BATCHES,
        infinite_priority=BadPriority.POISONS,
        seed=Seed.GLOBAL,
        source="docstrings of ReplayBuffer (FIFO; rows may be repeated) and PrioritizedReplayBuffer, which documents "
        "an alpha of 0 and refuses it; the rest is undocumented, only observed",
    )

    def __init__(self, spec: Spec) -> None:
        with without_tensorflow():
            from ray.rllib.policy.sample_batch import SampleBatch
            from ray.rllib.utils.replay_buffers import PrioritizedReplayBuffer, ReplayBuffer

        self.SampleBatch = SampleBatch
        self._name_fields(spec)
        if spec.prioritized:
            self.buffer = PrioritizedReplayBuffer(spec.capacity, storage_unit="timesteps", alpha=spec.alpha)
        else:
            self.buffer = ReplayBuffer(spec.capacity, storage_unit="timesteps")

    def _name_fields(self, spec: Spec) -> None:
        self.prioritized, self.beta, self.fields = spec.prioritized, spec.beta, spec.fields
        self.keys = {name: KEYS.get(name, name) for name in spec.fields}
        # SampleBatch turns a list of Python ints into int64, so unsigned numbers must be arrays.
        self.unsigned = [
            (self.keys[name], field.dtype)
            for name, field in spec.fields.items()
            if field.shape == () and np.dtype(field.dtype).kind == "u"
        ]

    def add(self, steps: Sequence[Step]) -> None:
        add, batch = self.buffer.add, self.SampleBatch
        for obs, act, rew, next_obs, done in steps:
            # Lists are converted to new arrays: without that copy, the caller's next step could change the stored one.
            row = {"obs": [obs], "actions": [act], "rewards": [rew], "new_obs": [next_obs], "terminateds": [done]}
            for key, dtype in self.unsigned:
                row[key] = np.array(row[key], dtype)
            add(batch(row))

    def add_dicts(self, steps: Sequence[dict]) -> None:
        add, batch, keys = self.buffer.add, self.SampleBatch, self.keys
        for step in steps:
            row = {keys[name]: [value] for name, value in step.items()}
            for key, dtype in self.unsigned:
                row[key] = np.array(row[key], dtype)
            add(batch(row))

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        add, batch = self.buffer.add, self.SampleBatch
        for (obs, act, rew, next_obs, done), priority in zip(steps, priorities, strict=True):
            row = {"obs": [obs], "actions": [act], "rewards": [rew], "new_obs": [next_obs], "terminateds": [done]}
            for key, dtype in self.unsigned:
                row[key] = np.array(row[key], dtype)
            add(batch(row), weight=priority)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        add, batch = self.buffer.add, self.SampleBatch
        named = {self.keys[name]: column for name, column in columns.items()}
        if priorities is None:
            add(batch(named))
            return
        for i, priority in enumerate(priorities.tolist()):
            add(batch({key: column[i : i + 1] for key, column in named.items()}), weight=priority)

    def sample(self, batch_size: int) -> Columns:
        drawn = self.buffer.sample(batch_size, beta=self.beta) if self.prioritized else self.buffer.sample(batch_size)
        batch = {name: drawn[key] for name, key in self.keys.items()}
        if self.prioritized:
            batch["weights"] = drawn["weights"]
            batch["indexes"] = drawn["batch_indexes"]
        return batch

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        # It accepts arrays and lists; lists are twice as fast here.
        self.buffer.update_priorities(indexes.tolist(), priorities.tolist())

    def __len__(self) -> int:
        return len(self.buffer)
