"""Steps of several environments as arrays (steps, environments, ...), the layout that other libraries' buffers have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from cpprb_impl.buffers import PrioritizedReplayBuffer, ReplayBuffer

Kind = tuple[tuple[int, ...], Any]  # shape of one step, dtype
NUMBER: Kind = ((), np.float32)
ACTION, REWARD, DONE, TIMEOUT = "action", "reward", "done", "timeout"


def observation(name: str) -> str:
    """Return the field of a part of the observation, or of all of it if `name` is empty."""
    return f"obs {name}".rstrip()


def next_observation(name: str) -> str:
    """Return the field of the same part of the next observation."""
    return f"next_{observation(name)}"


class FramedColumn:
    """A field whose frames are stored once, read as `column[steps, environments]`."""

    def __init__(self, ring: ReplayBuffer, name: str) -> None:
        self._ring, self._name = ring, name

    def __getitem__(self, key: tuple[Any, ...]) -> np.ndarray:
        """Return a new array. `key` is two arrays of indexes or numbers, perhaps followed by full slices."""
        indexes = np.asarray(key[0]) * self._ring.n_envs + np.asarray(key[1])
        values: np.ndarray = self._ring.get(indexes.ravel())[self._name]
        return values.reshape(*indexes.shape, *values.shape[1:])


def make_ring(
    size: int,
    n_envs: int,
    observations: Mapping[str, Kind],
    action: Kind,
    *,
    frames_once: bool = False,
    stacks: Collection[str] = (),
    compress: str | None = None,
    priorities: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> ReplayBuffer:
    """Return a buffer for `size` steps of each environment.

    Parameters
    ----------
    observations : mapping of str to (shape, dtype)
        The parts of an observation.
    action : (shape, dtype)
    frames_once : bool
        Whether an observation that equals the next one of the step before is stored once.
    stacks : collection of str
        With `frames_once`: parts whose first axis is a sliding window of frames, each of which is stored once.
    compress : "lz4", optional
        With `frames_once`: compress the frames of `stacks`.
    priorities : mapping, optional
        Options of a prioritized buffer.
    """
    if compress is not None and not (frames_once and stacks):
        raise ValueError(
            f"compress must be None unless images are stored once (optimize_memory_usage), got {compress!r}"
        )
    kinds = {observation(name): kind for name, kind in observations.items()}
    options: dict[str, Any] = {"n_envs": n_envs, "seed": seed}
    if frames_once:
        options |= {"next_of": list(kinds), "stack_compress": {observation(name): 0 for name in stacks}}
        options["compress"] = compress
    else:
        kinds |= {next_observation(name): kind for name, kind in observations.items()}
    kinds |= {ACTION: action, REWARD: NUMBER, DONE: NUMBER, TIMEOUT: NUMBER}
    env_dict = {name: {"shape": shape, "dtype": dtype} for name, (shape, dtype) in kinds.items()}
    if priorities is None:
        return ReplayBuffer(size * n_envs, env_dict, **options)
    return PrioritizedReplayBuffer(size * n_envs, env_dict, **options, **priorities)


def column(ring: ReplayBuffer, name: str) -> Any:
    """Return a field as an array (steps, environments, *shape) over the ring's memory, or as a `FramedColumn`."""
    view = ring._view(name)
    if view is None:
        return FramedColumn(ring, name)
    return view.reshape(-1, ring.n_envs, *view.shape[1:])
