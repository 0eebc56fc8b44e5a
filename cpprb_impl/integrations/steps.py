"""Steps of several environments as arrays (steps, environments, ...), the layout of other libraries' buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cpprb_impl.buffers.single import PrioritizedReplayBuffer, ReplayBuffer
from cpprb_impl.layout.fields import native_fields, next_fields
from cpprb_impl.ring.order import harm_of, watch_order

Kind = tuple[tuple[int, ...], Any]  # shape of one step, dtype
NUMBER: Kind = ((), np.float32)
ACTION, REWARD, DONE, TIMEOUT = "action", "reward", "done", "timeout"
WHOLE = ""  # the name of an observation that has no parts
Fields = Mapping[str, tuple[str, str]]  # for each part of an observation, its fields for obs and next_obs


def observation(name: str) -> str:
    """Return the field name for a part of the observation, or for the whole observation if `name` is empty."""
    return "obs" if name == WHOLE else f"obs {name}"


def next_observation(name: str) -> str:
    """Return the field name for the same part in the next observation."""
    return f"next_{observation(name)}"


def obs_and_next_obs(fields: Fields, of: Callable[[str], Any]) -> tuple[Any, Any]:
    """Return the results of a function of a field for obs and next_obs: dicts if observations have several parts."""
    if WHOLE in fields:
        field, next_field = fields[WHOLE]
        return of(field), of(next_field)
    parts = {name: (of(field), of(next_field)) for name, (field, next_field) in fields.items()}
    return {name: part for name, (part, _) in parts.items()}, {name: part for name, (_, part) in parts.items()}


class FramedColumn:
    """A field whose frames are stored once, read as `column[steps, environments]`."""

    def __init__(self, ring: ReplayBuffer, name: str) -> None:
        self._ring, self._name = ring, name

    __iter__ = None  # otherwise, Python would try 0, 1, ... until an IndexError, and find nothing

    def __array__(self, *_args: Any, **_options: Any) -> np.ndarray:
        raise TypeError(f"{self._name} is not an array: its frames are stored once; read it as [steps, environments]")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            f"{self._name} cannot be written, since its frames are stored once: create the buffer with "
            "optimize_memory_usage=False, or call add"
        )

    def __getitem__(self, key: Any) -> np.ndarray:
        """Return a new array.

        `key` is two integers or integer arrays, optionally followed by full slices. Raises IndexError for any other
        key.
        """
        key = key if isinstance(key, tuple) else (key,)
        if len(key) < 2 or not all(isinstance(part, slice) and part == slice(None) for part in key[2:]):
            raise IndexError(f"{self._name} must be read as [steps, environments], got {key!r}")
        steps, environments = (np.asarray(part) for part in key[:2])
        if steps.dtype.kind not in "iu" or environments.dtype.kind not in "iu":
            raise IndexError(f"steps and environments must be integers or arrays of them, got {key!r}")
        n_envs = self._ring.n_envs
        if not np.all((environments >= 0) & (environments < n_envs)):
            raise IndexError(f"environments must be from 0 to {n_envs - 1}, got {environments}")
        indexes = steps * n_envs + environments
        values: np.ndarray = self._ring.get(indexes.ravel())[self._name]
        return values.reshape(*indexes.shape, *values.shape[1:])


def make_ring(
    size: int,
    n_envs: int,
    observations: Mapping[str, Kind],
    action: Kind,
    *,
    frames_once: bool,
    stacks: Mapping[str, int],
    compress: str | None,
    priorities: Mapping[str, Any] | None,
    sequences: Mapping[str, Any] | None,
    seed: int,
) -> ReplayBuffer:
    """Return a buffer for `size` steps of each environment.

    Parameters
    ----------
    observations : mapping of str to (shape, dtype)
        The parts of an observation.
    action : (shape, dtype)
    frames_once : bool
        Whether an observation that equals the previous step's next observation is stored only once.
    stacks : mapping of str to int
        With `frames_once`: for parts that are sliding windows of frames, the frame axis. Each frame is stored once.
    compress : "lz4", optional
        With `frames_once`: compress the frames of `stacks`.
    priorities : mapping, optional
        Options of a prioritized buffer.
    sequences : mapping, optional
        The option of `cpprb_impl.ReplayBuffer`.
    seed : int
        From 0 to 2**64 - 1.

    Raises
    ------
    ValueError
        If `compress` is given without `frames_once`, or without a stack of frames.
    """
    if compress is not None and not frames_once:
        raise ValueError(f"compress must be None without optimize_memory_usage, got {compress!r}")
    if compress is not None and not stacks:
        raise ValueError("compress needs a stack of frames, and none was found: pass stack_axis")
    kinds = {observation(name): kind for name, kind in observations.items()}
    options: dict[str, Any] = {"n_envs": n_envs, "sequences": sequences, "seed": seed}
    if frames_once:
        options |= {
            "next_of": list(kinds),
            "stack_compress": {observation(name): axis for name, axis in stacks.items()},
        }
        options["compress"] = compress
    else:
        kinds |= {next_observation(name): kind for name, kind in observations.items()}
    kinds |= {ACTION: action, REWARD: NUMBER, DONE: NUMBER, TIMEOUT: NUMBER}
    env_dict = {name: {"shape": shape, "dtype": dtype} for name, (shape, dtype) in kinds.items()}
    kind = ReplayBuffer if priorities is None else PrioritizedReplayBuffer
    ring = kind(size * n_envs, env_dict, **options, **(priorities or {}))
    following = options.get("next_of", ())
    fields = native_fields(env_dict, None)
    fields += next_fields(fields, following)
    # Even one environment is a vector.
    watch_order(ring, fields, None, harm_of(None, following, stacks, sequences), starts=True)
    return ring


def column(ring: ReplayBuffer, name: str) -> Any:
    """Return a field as an array (steps, environments, *shape) that views the ring's memory, or as a `FramedColumn`."""
    view = ring._view(name)
    if view is None:
        return FramedColumn(ring, name)
    return view.reshape(-1, ring.n_envs, *view.shape[1:])
