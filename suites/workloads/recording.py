"""Recording an environment: the arrays that are cached, and the columns that are rebuilt from them.

The cache contains every observation once, in order, and the index of each row's observation. For stacked frames this is
an eighth of the columns' size. 64-bit floats are stored as 32-bit floats, and integers of a Discrete or MultiDiscrete
space as int32, as learners use them; all other values have the dtype of their space. An observation with named parts
has a column for each part: "obs.image", "next_obs.image".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from adapters.base import Columns


@dataclass(frozen=True)
class Slices:
    """Each row is a slice of consecutive steps of one episode; successive slices overlap."""

    steps: int
    overlap: int

    def of_episode(self, steps: int) -> range:
        """Return where the slices of an episode with this many steps start. The last slice may extend past its end."""
        return range(0, max(1, steps - self.overlap), self.steps - self.overlap)


class CannotBeStored(ValueError):  # noqa: N818 (a state, with its reason)
    """The environment's transitions have no fixed shape; the message names the part without one."""


def dtypes_of(space: Any, name: str) -> dict[str, np.dtype]:
    """Return the name of each array in a value of this Gymnasium space, and the dtype with which it is stored."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.items() if isinstance(space, spaces.Dict) else enumerate(space)
        return {key: dtype for at, part in parts for key, dtype in dtypes_of(part, f"{name}.{at}").items()}
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return {name: np.dtype(np.int32)}
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return {name: np.dtype(np.float32 if space.dtype == np.float64 else space.dtype)}
    raise CannotBeStored(
        f"{name} must have a space of fixed shape (Box, Discrete, MultiBinary, MultiDiscrete, or a Dict or Tuple of "
        f"these), got {type(space).__name__}"
    )


def _parts(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping | tuple):
        for at, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _parts(part, f"{name}.{at}")
    else:
        yield name, value


def record(
    env: Any, count: int, seed: int, policy: Callable | None = None, slices: Slices | None = None
) -> dict[str, np.ndarray]:
    """Record `count` rows of `env`, as the arrays to be cached. With `slices`, which cover whole episodes, there may be
    a few more.

    Row t has observation `at[t]` and next observation `at[t] + 1`; its episode began at observation `start[t]`. Actions
    are random, or chosen by `policy(observation, generator)`.
    """
    random = np.random.default_rng(seed)
    dtypes = dtypes_of(env.observation_space, "observations") | dtypes_of(env.action_space, "act")
    dtypes |= {"rew": np.float32, "done": np.bool_, "at": np.int64, "start": np.int64}
    raw: dict[str, list] = {name: [] for name in dtypes}

    def keep(**values: Any) -> None:
        for name, value in values.items():
            for key, part in _parts(value, name):
                raw[key].append(np.array(part, dtypes[key]))  # a copy: the environment may reuse the array

    env.action_space.seed(seed)
    obs, _ = env.reset(seed=seed)
    keep(observations=obs)
    seen, start, made = 1, 0, 0
    while made < count:
        act = env.action_space.sample() if policy is None else policy(obs, random)
        obs, rew, terminated, truncated, _ = env.step(act)
        done = terminated or truncated
        keep(act=act, rew=rew, done=done, at=seen - 1, start=start, observations=obs)
        if slices is None:
            made += 1
        elif done:
            made += len(slices.of_episode(seen - start))
        seen += 1
        if done and made < count:
            start = seen
            obs, _ = env.reset()
            keep(observations=obs)
            seen += 1
    return {name: np.stack(values) for name, values in raw.items()}


def columns_of(raw: Mapping[str, np.ndarray], stack: int = 1, slices: Slices | None = None) -> Columns:
    """Return the columns, in the order of a step's fields. Slices have a `mask` of real steps, but no `next_obs`."""
    seen = [name for name in raw if name.startswith("observations")]
    acted = [name for name in raw if name.startswith("act")]

    def observed(prefix: str, at: np.ndarray) -> Columns:
        return {name.replace("observations", prefix): _shown(raw[name], at, raw["start"], stack) for name in seen}

    rows = {**observed("obs", raw["at"]), **{name: raw[name] for name in acted}, "rew": raw["rew"]}
    if slices is not None:
        return _sliced({**rows, "done": raw["done"]}, slices)
    return {**rows, **observed("next_obs", raw["at"] + 1), "done": raw["done"]}


def _shown(observations: np.ndarray, at: np.ndarray, start: np.ndarray, stack: int) -> np.ndarray:
    """Return the stacked observations at `at`. Until the stack is full, the episode's first observation is repeated."""
    if stack == 1:
        return observations[at]
    return np.stack([observations[np.maximum(at - back, start)] for back in range(stack - 1, -1, -1)], axis=-1)


def _sliced(rows: Columns, slices: Slices) -> Columns:
    ends = np.flatnonzero(rows["done"]) + 1
    starts = np.concatenate([[0], ends[:-1]])
    first, last = [], []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        begin = [start + at for at in slices.of_episode(end - start)]
        first += begin
        last += [end] * len(begin)
    at = np.array(first)[:, None] + np.arange(slices.steps)
    real = at < np.array(last)[:, None]

    def cut(column: np.ndarray) -> np.ndarray:
        some = column[np.where(real, at, 0)]
        some[~real] = 0
        return some

    return {name: cut(column) for name, column in rows.items()} | {"mask": real}
