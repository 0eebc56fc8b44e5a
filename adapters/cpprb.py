"""cpprb from PyPI: a C++ and Cython buffer with named columns.

Used as its own documentation does: `env_dict` tells shape and dtype of each key, `add` takes one row
or many as keywords, `sample` gives a dict of arrays (pages "Usage" and "Prioritized Experience
Replay"). Its weights and indexes are views of memory that the next sample reuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Features, Field, Spec, Step

#: What every class with cpprb's API has in common.
FEATURES = {
    "batch_add": "yes",
    "flexible_fields": "yes, a shape and dtype for each key",
    "prioritized": "yes, priorities on add and later",
    "weights": "relative to the largest in the buffer",
    "duplicates": "yes",
    "gives": "columns",
    "copies_on_add": "yes",
    "framework": "NumPy",
    "licence": "MIT",
}


def env_dict(fields: Mapping[str, Field]) -> dict[str, dict[str, Any]]:
    """cpprb's description of a row. A scalar has no shape there: it is stored, and given back, as (1,)."""
    return {
        name: {"dtype": np.dtype(field.dtype), **({"shape": field.shape} if field.shape else {})}
        for name, field in fields.items()
    }


class CpprbAPI(Adapter):
    """The calls that every class with cpprb's API understands; `self.buffer` is made by the subclass."""

    eps = 1e-4

    buffer: Any
    beta: float
    prioritized: bool

    def add(self, steps: Sequence[Step]) -> None:
        add = self.buffer.add
        for obs, act, rew, next_obs, done in steps:
            add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=done)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        if priorities is None:
            self.buffer.add(**columns)
        else:
            self.buffer.add(priorities=priorities, **columns)

    def sample(self, batch_size: int) -> Columns:
        if self.prioritized:
            return self.buffer.sample(batch_size, beta=self.beta)
        return self.buffer.sample(batch_size)

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self.buffer.update_priorities(indexes, priorities)

    def __len__(self) -> int:
        return self.buffer.get_stored_size()


class Cpprb(CpprbAPI):
    name = "cpprb"
    distribution = "cpprb"
    last_python = (3, 12)
    usage = "env_dict with each key's shape and dtype; add of one row or many, all keys as keywords (cpprb docs, Usage)"
    features = Features(n_step="yes", processes="no (see its MP classes)", **FEATURES)

    def __init__(self, spec: Spec) -> None:
        from cpprb import PrioritizedReplayBuffer, ReplayBuffer

        self.beta = spec.beta
        self.prioritized = spec.prioritized
        if spec.prioritized:
            self.buffer = PrioritizedReplayBuffer(spec.capacity, env_dict(spec.fields), alpha=spec.alpha, eps=self.eps)
        else:
            self.buffer = ReplayBuffer(spec.capacity, env_dict(spec.fields))
