"""rlox: a Rust library for reinforcement learning; of it, its two replay buffers.

Used as its DQN does (`rlox.algorithms.dqn`): `push` of one step with the action in an array, `sample` with a
seed that the caller counts up, `update_priorities` with uint64 indices. Rows are float32 throughout and flat, so
what is neither is cast and flattened on the way in and brought back on the way out, as its DQN casts actions back
to integers. A seed gives the same rows each time: with the same one, every batch would be the same.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import math
import sys
import types
from collections.abc import Callable, Sequence

import numpy as np

from adapters.base import Adapter, Columns, Features, Field, Spec, Step
from adapters.promises import Promises

FLOAT = np.dtype(np.float32)  # all that rlox stores
# rlox's names for the five fields; `truncated` has no place in a Step.
_KEYS = {"obs": "obs", "act": "actions", "rew": "rewards", "next_obs": "next_obs", "done": "terminated"}


def load_core() -> types.ModuleType:
    """rlox's compiled module without the package around it, which imports PyTorch, of which buffers need nothing."""
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
        "its compiled module alone, since importing rlox needs PyTorch"
    )
    promises = Promises(
        round_trip="as 32 bits",
        new_row_priority="a fixed one",
        prioritized_replacement="stratified",
        batch_over_stored="refused",
        nan_priority="panics",
        infinite_priority="panics",
        source="docstrings of _rlox_core.pyi (ring, priority=1.0, a seed for each sample); the rest is not "
        "documented, seen",
    )
    features = Features(
        batch_add="yes; a loop of single adds where prioritized",
        flexible_fields="no: five fixed fields, stored as flat float32 (cast and shaped back here)",
        prioritized="yes, on add (one by one) and later; a new row's default is 1, not the largest",
        weights="relative to the largest in the buffer",
        duplicates="yes",
        gives="columns",
        copies_on_add="yes",
        n_step="no (its DQN does it before push) [seen: tests/adapters/test_features.py]",
        processes="no",
        framework="NumPy (the whole package: PyTorch)",
        licence="MIT or Apache-2.0",
        disk="no; MmapReplayBuffer, another class, is kept in a file [seen: tests/adapters/test_features.py]",
        machines="no",
        last_release="1.2.0, 2026-06-21 [PyPI]",
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
        # What a step holds already as rlox wants it is handed over, and back, as it is.
        self.flat_obs, self.flat_act = (_is_flat(spec.fields[name]) for name in ("obs", "act"))
        self.scalar_act = not spec.fields["act"].shape
        self.action = np.empty(size[1], np.float32)  # reused: push copies it
        self.never_truncated: dict[int, np.ndarray] = {}
        self.back = {name: back for name in _KEYS if (back := _back(spec.fields[name]))}

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


def _back(field: Field) -> Callable[[np.ndarray], np.ndarray] | None:
    """From what rlox gives, rows of numbers (one number a row without an axis), to the field's shape and dtype."""
    dtype, shape = np.dtype(field.dtype), (-1, *field.shape)
    if dtype.kind == "b":
        return lambda column: column.view(dtype)
    if dtype != FLOAT and shape == (-1,):
        return lambda column: column.astype(dtype)
    if dtype != FLOAT:
        return lambda column: column.reshape(shape).astype(dtype)
    return (lambda column: column.reshape(shape)) if shape == (-1, 1) or len(shape) > 2 else None
