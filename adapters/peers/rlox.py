"""rlox: two replay buffers of a reinforcement learning library written in Rust.

Used as its DQN does (`rlox.algorithms.dqn`): `push` of one step with the action in an array, `sample` with a seed that
the caller increments, `update_priorities` with uint64 indices. Rows are flat and float32 throughout. Other values are
cast and flattened before an add. After a sample, actions are cast back to integers, as its DQN does; observations stay
float32, as its networks take them, and get their shape back.
`sample` returns the same rows for the same seed, so each call needs a new seed.
"""

from __future__ import annotations

import datetime
import importlib
import importlib.util
import itertools
import math
import sys
import types
from collections.abc import Callable, Sequence

import numpy as np

from adapters.base import Adapter, Columns, Field, Spec, Step
from adapters.behaviours import BadPriority, BatchOverStored, Dtype, NewRowPriority, Replacement, RoundTrip
from adapters.contract import Contract, Release, Returns, RowFields, Stated, no, yes

FLOAT = np.dtype(np.float32)  # the only dtype that rlox stores
# rlox's names for the five fields. A Step has no `truncated`.
_KEYS = {"obs": "obs", "act": "actions", "rew": "rewards", "next_obs": "next_obs", "done": "terminated"}


def load_core() -> types.ModuleType:
    """Import only rlox's compiled module: the package imports PyTorch, which the buffers do not use."""
    stub = None
    if "rlox" not in sys.modules:
        found = importlib.util.find_spec("rlox")
        if found is None:
            raise ModuleNotFoundError("No module named 'rlox'")
        stub = sys.modules["rlox"] = types.ModuleType("rlox")
        stub.__path__ = list(found.submodule_search_locations or ())
    try:
        return importlib.import_module("rlox._rlox_core")
    finally:
        if stub is not None:
            del sys.modules["rlox"]


class Rlox(Adapter):
    name = "rlox"
    distribution = "rlox"
    last_python = (3, 13)
    usage = (
        "ReplayBuffer.push and push_batch, sample(batch, seed) with a new seed each time, as its DQN does; "
        "only its compiled module is imported, since the package needs PyTorch"
    )
    contract = Contract(
        batch_add=yes("but a loop of single adds if prioritized"),
        fields=Stated(
            RowFields.FIXED, "five fixed fields, stored and returned as float32 (only actions are cast back)"
        ),
        priorities=yes("priorities on add (one row per call) and later"),
        returns=Stated(Returns.COLUMNS),
        n_step=no("its DQN computes them before push", "seen: tests/adapters/test_features.py"),
        disk=no("only another class, MmapReplayBuffer, is kept in a file", "seen: tests/adapters/test_features.py"),
        framework="NumPy (the whole package: PyTorch)",
        licence="MIT or Apache-2.0",
        release=Release("1.2.0", datetime.date(2026, 6, 21)),
        round_trip=RoundTrip.AS_32_BITS,
        dtype=Dtype.FLOATS,
        new_row_priority=NewRowPriority.FIXED,
        prioritized_replacement=Replacement.STRATIFIED,
        batch_over_stored=BatchOverStored.REFUSED,
        nan_priority=BadPriority.PANICS,
        infinite_priority=BadPriority.PANICS,
        source="docstrings of _rlox_core.pyi (ring, priority=1.0, a seed for each sample); the rest is not "
        "documented, observed",
    )

    def __init__(self, spec: Spec) -> None:
        core = load_core()
        self.fields, self.prioritized = spec.fields, spec.prioritized
        self.seeds = itertools.count(spec.seed)
        size = [math.prod(spec.fields[name].shape) for name in ("obs", "act")]
        if spec.prioritized:
            self.buffer = core.PrioritizedReplayBuffer(spec.capacity, *size, alpha=spec.alpha, beta=spec.beta)
        else:
            self.buffer = core.ReplayBuffer(spec.capacity, *size)
        # Values already in rlox's form are passed unchanged.
        self.flat_obs, self.flat_act = (_is_flat(spec.fields[name]) for name in ("obs", "act"))
        self.scalar_act = not spec.fields["act"].shape
        self.action = np.empty(size[1], np.float32)  # reused: push copies it
        self.never_truncated: dict[int, np.ndarray] = {}
        self.back = {name: back for name in _KEYS if (back := _back(name, spec.fields[name]))}

    def add(self, steps: Sequence[Step]) -> None:
        push, action = self.buffer.push, self.action
        flat_obs, flat_act, scalar_act = self.flat_obs, self.flat_act, self.scalar_act
        for obs, act, rew, next_obs, done in steps:
            if not flat_obs:
                obs, next_obs = _flat(obs), _flat(next_obs)
            if scalar_act:
                action[0] = act
                act = action
            elif not flat_act:
                act = _flat(act)
            push(obs, act, rew, done, False, next_obs)

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        push, action = self.buffer.push, self.action
        flat_obs, flat_act, scalar_act = self.flat_obs, self.flat_act, self.scalar_act
        for (obs, act, rew, next_obs, done), priority in zip(steps, priorities, strict=True):
            if not flat_obs:
                obs, next_obs = _flat(obs), _flat(next_obs)
            if scalar_act:
                action[0] = act
                act = action
            elif not flat_act:
                act = _flat(act)
            push(obs, act, rew, done, False, next_obs, priority)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        if self.prioritized:
            rewards, dones = columns["rew"].tolist(), columns["done"].tolist()
            steps = list(map(Step, columns["obs"], columns["act"], rewards, columns["next_obs"], dones))
            self.add_with_priorities(steps, [1.0] * len(steps) if priorities is None else priorities.tolist())
        else:
            self._push_batch(*(columns[name] for name in Step._fields))

    def add_batches(self, batches: Sequence[Step]) -> None:
        if self.prioritized:
            super().add_batches(batches)
            return
        for batch in batches:
            self._push_batch(*batch)

    def _push_batch(self, obs, act, rew, next_obs, done) -> None:
        never = self.never_truncated.get(len(done))
        if never is None:
            never = self.never_truncated[len(done)] = np.zeros(len(done), np.uint8)
        self.buffer.push_batch(_flat(obs), _flat(next_obs), _flat(act), rew, done.view(np.uint8), never)

    def sample(self, batch_size: int) -> Columns:
        drawn = self.buffer.sample(batch_size, next(self.seeds))
        batch = {name: drawn[key] for name, key in _KEYS.items()}
        for name, back in self.back.items():
            batch[name] = back(batch[name])
        if self.prioritized:
            batch["weights"], batch["indexes"] = drawn["weights"], drawn["indices"]
        return batch

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self.buffer.update_priorities(indexes, priorities)

    def __len__(self) -> int:
        return len(self.buffer)


def _is_flat(field: Field) -> bool:
    return len(field.shape) == 1 and field.dtype == "float32"


def _flat(array: np.ndarray | int) -> np.ndarray:
    return np.asarray(array, FLOAT).ravel()


def _back(name: str, field: Field) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return a function that converts a column of rlox, (rows, size) or (rows,), to the field's shape, and to its dtype
    unless it is a frame.

    Returns None if there is nothing to convert.
    """
    dtype, shape = np.dtype(field.dtype), (-1, *field.shape)
    if dtype.kind == "b":
        return lambda column: column.view(dtype)
    if dtype != FLOAT and shape == (-1,):
        return lambda column: column.astype(dtype)
    if dtype != FLOAT and not (dtype == np.uint8 and name in ("obs", "next_obs")):
        return lambda column: column.reshape(shape).astype(dtype)
    return (lambda column: column.reshape(shape)) if shape == (-1, 1) or len(shape) > 2 else None
