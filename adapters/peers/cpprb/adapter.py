"""cpprb from PyPI: a C++ and Cython buffer with named columns.

Used as its own documentation does: `env_dict` tells shape and dtype of each key, `add` takes one row
or many as keywords, `sample` gives a dict of arrays (pages "Usage" and "Prioritized Experience
Replay"). Its weights and indexes are views of memory that the next sample reuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from adapters.base import Adapter, Columns, Features, Field, Spec, Step
from adapters.promises import Promises

SEEN = "[seen: tests/adapters/test_features.py]"
#: What every class with cpprb's API has in common.
FEATURES = {
    "batch_add": "yes",
    "flexible_fields": "yes, a shape and dtype for each key [seen: tests/adapters/test_any_fields.py]",
    "prioritized": "yes, priorities on add and later",
    "weights": "relative to the largest in the buffer",
    "duplicates": "yes",
    "gives": "columns",
    "copies_on_add": "yes",
    "framework": "NumPy",
    "licence": "MIT",
    "machines": "no",
}
PROMISES = Promises(
    shape="scalars as (1,)",
    prioritized_replacement="stratified",
    returned_batch="next sample changes weights and indexes",
    seed="uniform only",
    empty="gives garbage",
    nan_priority="poisons",
    negative_priority="poisons",
    infinite_priority="poisons",
    source="docstrings of ReplayBuffer (the same row many times) and PrioritizedReplayBuffer (the largest until then, "
    " weights over the largest, late updates with check_for_update only); the rest is not documented, seen",
)
LAST_RELEASE = "11.0.0, 2024-06-03 [PyPI]"
DISK = f"yes, save_transitions, load_transitions; option mmap_prefix {SEEN}"
COMPRESSION = "yes, options next_of and stack_compress; the end of an episode must be told"


def env_dict(fields: Mapping[str, Field]) -> dict[str, dict[str, Any]]:
    """cpprb's description of a row. A scalar has no shape there: it is stored, and given back, as (1,)."""
    return {
        name: {"dtype": np.dtype(field.dtype), **({"shape": field.shape} if field.shape else {})}
        for name, field in fields.items()
    }


def options(spec: Spec) -> dict[str, Any]:
    """What the constructor takes: with next_of the next observation is no field of its own."""
    fields = {name: field for name, field in spec.fields.items() if not (spec.next_of and name == "next_obs")}
    compression = {"next_of": spec.next_of, "stack_compress": spec.stack_compress}
    return {"env_dict": env_dict(fields)} | {option: "obs" for option, wanted in compression.items() if wanted}


class CpprbAPI(Adapter):
    """The calls that every class with cpprb's API understands; `self.buffer` is made by the subclass."""

    eps = 1e-4
    any_fields = True

    buffer: Any

    def __init__(self, spec: Spec) -> None:
        self.fields, self.beta, self.prioritized = spec.fields, spec.beta, spec.prioritized
        self.by_episodes = spec.next_of or spec.stack_compress

    def add(self, steps: Sequence[Step]) -> None:
        """One row or many in each step, arrays, scalars or lists: the call is the same."""
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
        """One row or many in each dict, as for `add`."""
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
        """An episode can end only between two calls."""
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

    # The library's own methods, so that no frame of ours is in their figures.

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
    promises = PROMISES
    distribution = "cpprb"
    last_python = (3, 12)
    usage = "env_dict with each key's shape and dtype; add of one row or many, all keys as keywords (cpprb docs, Usage)"
    features = Features(
        n_step=f"yes, option Nstep {SEEN}",
        processes="no (see its MP classes)",
        compression=COMPRESSION,
        disk=DISK,
        last_release=LAST_RELEASE,
        **FEATURES,
    )

    def __init__(self, spec: Spec) -> None:
        from cpprb import PrioritizedReplayBuffer, ReplayBuffer

        super().__init__(spec)
        if spec.prioritized:
            self.buffer = PrioritizedReplayBuffer(spec.capacity, alpha=spec.alpha, eps=self.eps, **options(spec))
        else:
            self.buffer = ReplayBuffer(spec.capacity, **options(spec))
