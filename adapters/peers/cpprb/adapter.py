"""cpprb from PyPI: a C++ and Cython buffer with named columns.

Used as its documentation shows (pages "Usage" and "Prioritized Experience Replay"): `env_dict` states the shape and
dtype of each key, `add` takes one row or many as keywords, and `sample` returns a dict of arrays. The weights and
indexes of a batch are views of memory that the next sample reuses.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Field, Spec, Step
from adapters.behaviours import BadPriority, Empty, Replacement, ReturnedBatch, Seed, Shape
from adapters.contract import Contract, Processes, Release, Returns, RowFields, Stated, yes

SEEN = "seen: tests/adapters/test_features.py"
CONTRACT = Contract(
    batch_add=yes(),
    fields=Stated(RowFields.ANY, "a shape and dtype for each key", "seen: tests/adapters/test_any_fields.py"),
    priorities=yes(),
    returns=Stated(Returns.COLUMNS),
    n_step=yes("option Nstep", SEEN),
    processes=Stated(Processes.ONE, "see its MP classes"),
    disk=yes("save_transitions, load_transitions; option mmap_prefix", SEEN),
    compression=yes("options next_of and stack_compress; the user must report the end of each episode"),
    framework="NumPy",
    licence="MIT",
    release=Release("11.0.0", datetime.date(2024, 6, 3)),
    eps=1e-4,
    shape=Shape.SCALARS_HAVE_AN_AXIS,
    prioritized_replacement=Replacement.STRATIFIED,
    returned_batch=ReturnedBatch.WEIGHTS_AND_INDEXES_REUSED,
    seed=Seed.UNIFORM_ONLY,
    empty=Empty.GARBAGE,
    nan_priority=BadPriority.POISONS,
    negative_priority=BadPriority.POISONS,
    infinite_priority=BadPriority.POISONS,
    source="docstrings of ReplayBuffer (a batch may repeat a row) and PrioritizedReplayBuffer (new rows get the "
    "largest priority; weights relative to the largest; late updates only with check_for_update); the rest is not "
    "documented, observed",
)


def env_dict(fields: Mapping[str, Field]) -> dict[str, dict[str, Any]]:
    """Return cpprb's description of a row. A scalar's description has no shape, but the scalar is stored and returned
    as (1,)."""
    return {
        name: {"dtype": np.dtype(field.dtype), **({"shape": field.shape} if field.shape else {})}
        for name, field in fields.items()
    }


def options(spec: Spec) -> dict[str, Any]:
    """Return the arguments of the constructor. With next_of, the next observation is not a separate field."""
    fields = {name: field for name, field in spec.fields.items() if not (spec.next_of and name == "next_obs")}
    compression = {"next_of": spec.next_of, "stack_compress": spec.stack_compress}
    return {"env_dict": env_dict(fields)} | {option: "obs" for option, wanted in compression.items() if wanted}


class CpprbAPI(Adapter):
    """The calls that all classes with cpprb's API share. The subclass creates `self.buffer`."""

    buffer: Any

    def __init__(self, spec: Spec) -> None:
        self.fields, self.beta, self.prioritized = spec.fields, spec.beta, spec.prioritized
        self.by_episodes = spec.next_of or spec.stack_compress

    def add(self, steps: Sequence[Step]) -> None:
        """Store steps, each of which has one row or many, as arrays, scalars or lists. The call is the same for all."""
        add, on_episode_end = self.buffer.add, self.buffer.on_episode_end if self.by_episodes else None
        if on_episode_end is None:
            for obs, act, rew, next_obs, done in steps:
                add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=done)
            return
        for obs, act, rew, next_obs, done in steps:
            add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=done)
            if done:
                on_episode_end()

    def add_dicts(self, steps: Sequence[dict]) -> None:
        """Store dicts, each of which has one row or many, as in `add`."""
        add = self.buffer.add
        for step in steps:
            add(**step)

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        add = self.buffer.add
        for (obs, act, rew, next_obs, done), priority in zip(steps, priorities, strict=True):
            add(obs=obs, act=act, rew=rew, next_obs=next_obs, done=done, priorities=priority)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        if self.by_episodes:
            self._add_episodes(columns)
        elif priorities is None:
            self.buffer.add(**columns)
        else:
            self.buffer.add(priorities=priorities, **columns)

    def _add_episodes(self, columns: Columns) -> None:
        """Add each episode in a separate call, since the end of an episode can only be reported between two calls."""
        first, rows = 0, len(columns["done"])
        for end in [*(np.flatnonzero(columns["done"]) + 1).tolist(), rows]:
            if end > first:
                self.buffer.add(**{name: column[first:end] for name, column in columns.items()})
            if end > first and columns["done"][end - 1]:
                self.buffer.on_episode_end()
            first = end

    def add_batches(self, batches: Sequence[Step]) -> None:
        (super().add_batches if self.by_episodes else self.add)(batches)

    def add_columns(self, batches: Sequence[Columns]) -> None:
        self.add_dicts(batches)

    def add_lists(self, batches: Sequence[Step]) -> None:
        (super().add_lists if self.by_episodes else self.add)(batches)

    # These properties return the library's own methods, so that the figures include no overhead of the adapter.

    @property
    def sample(self) -> Callable[[int], Columns]:
        return partial(self.buffer.sample, beta=self.beta) if self.prioritized else self.buffer.sample

    @property
    def update_priorities(self) -> Callable[[np.ndarray, np.ndarray], None]:
        return self.buffer.update_priorities

    def __len__(self) -> int:
        return self.buffer.get_stored_size()


class Cpprb(CpprbAPI):
    name = "cpprb"
    distribution = "cpprb"
    last_python = (3, 12)
    usage = "env_dict with each key's shape and dtype; add of one row or many, all keys as keywords (cpprb docs, Usage)"
    contract = CONTRACT

    def __init__(self, spec: Spec) -> None:
        from cpprb import PrioritizedReplayBuffer, ReplayBuffer

        super().__init__(spec)
        if spec.prioritized:
            self.buffer = PrioritizedReplayBuffer(
                spec.capacity, alpha=spec.alpha, eps=self.contract.eps, **options(spec)
            )
        else:
            self.buffer = ReplayBuffer(spec.capacity, **options(spec))
