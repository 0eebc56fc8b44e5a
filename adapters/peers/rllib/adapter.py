"""RLlib's own replay buffers, in this process and without a Ray cluster.

Used as the docstrings of `ray.rllib.utils.replay_buffers` show: a SampleBatch of lists for one step,
of arrays for many, storage unit "timesteps". One weight goes with one add call, so rows that bring
priorities are added one by one (as fast, measured, as one add followed by `update_priorities`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from adapters.base import Adapter, Columns, Features, Spec, Step
from adapters.promises import Promises

# RLlib's names for the five fields; SampleBatch refuses the key "dones". Other fields go by their own names.
KEYS = {"obs": "obs", "act": "actions", "rew": "rewards", "next_obs": "new_obs", "done": "terminateds"}


@contextmanager
def without_tensorflow() -> Iterator[None]:
    """Keep RLlib from importing TensorFlow, which its buffers don't use and which is here for Reverb's sake.

    It would take 2.5 s and 350 MB, and switch TensorFlow's eager mode off for the whole process.
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
    any_fields = True
    usage = 'ReplayBuffer(storage_unit="timesteps").add(SampleBatch(...)), no cluster (RLlib docs, Replay Buffers)'
    promises = Promises(
        dtype="wider",
        new_row_priority="the largest update",
        references="keeps references to batches",
        infinite_priority="poisons",
        seed="global seed",
        source="docstrings of ReplayBuffer (FIFO; rows may be repeated) and PrioritizedReplayBuffer; that its alpha "
        "may be 0 is documented, and refused; the rest is not documented, seen",
    )
    features = Features(
        batch_add="yes, split into batches of one row",
        flexible_fields="yes, any key",
        prioritized="yes, on add one weight a call",
        weights="relative to the largest in the buffer",
        duplicates="yes",
        gives="columns (SampleBatch)",
        copies_on_add="one step: yes; a batch: no, keeps views of the caller's arrays",
        n_step="no (done before add)",
        processes="through a Ray actor",
        framework="Ray",
        licence="Apache-2.0",
        disk="yes, get_state and set_state, kept by its checkpoints [seen: tests/adapters/test_features.py]",
        machines="through a Ray actor, anywhere in the cluster [Ray docs, Actors]",
        last_release="2.60.0, 2026-11-04 [PyPI]",
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
        # SampleBatch makes int64 of a list of Python's ints: who has unsigned numbers writes arrays.
        self.unsigned = [
            (self.keys[name], field.dtype)
            for name, field in spec.fields.items()
            if field.shape == () and np.dtype(field.dtype).kind == "u"
        ]

    def add(self, steps: Sequence[Step]) -> None:
        add, batch = self.buffer.add, self.SampleBatch
        for obs, act, rew, next_obs, done in steps:
            # Lists become new arrays: this is the copy that keeps the caller's next step out of the buffer.
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
        # Lists, which it takes as well, are twice as fast here as arrays.
        self.buffer.update_priorities(indexes.tolist(), priorities.tolist())

    def __len__(self) -> int:
        return len(self.buffer)
