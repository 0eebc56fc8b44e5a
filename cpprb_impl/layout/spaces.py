"""Derive a buffer's fields from a Gymnasium environment's spaces, and the arguments of `add` from its transitions.

Both functions traverse the spaces in the same way, so their names always agree. A field's name is its path: "obs" for a
plain space, "obs0", "obs1", ... for the parts of a Tuple, and "obs_KEY" for those of a Dict. Deeper levels are joined
by "_", as in "obs0_1" and "obs_KEY_0". The names "next_obs..." and "act..." are formed likewise.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def create_env_dict(env: Any, *, int_type: Any = None, float_type: Any = None) -> dict[str, dict[str, Any]]:
    """Return the `env_dict` of a buffer for `env`'s transitions.

    Parameters
    ----------
    env : gymnasium.Env, or gym.Env where Gymnasium is not installed
        Its `observation_space` and `action_space` must be Discrete, MultiDiscrete, MultiBinary or Box, or Tuple and
        Dict of these, nested to any depth.
    int_type : numpy dtype, optional
        Dtype for Discrete, MultiDiscrete and MultiBinary. Default int32.
    float_type : numpy dtype, optional
        Dtype for a Box of floats, "rew" and "done". Default float32. A Box of any other type keeps its own dtype.

    Returns
    -------
    dict of dict
        "shape" and "dtype" for "rew", "done" and each part of obs, next_obs and act: "obs0", "obs1", ...
        for a Tuple, "obs_KEY" for a Dict, and so on.

    Raises
    ------
    ImportError
        If neither Gymnasium nor Gym is installed.
    NotImplementedError
        For any other space.
    ValueError
        If two parts would have the same name.
    """
    integer = np.int32 if int_type is None else int_type
    real = np.float32 if float_type is None else float_type
    env_dict = {"rew": {"shape": 1, "dtype": real}, "done": {"shape": 1, "dtype": real}}
    for name, way, space in _parts(env):
        field = from_space(space, integer, real)
        for prefix in ("", "next_") if way[0] == "obs" else ("",):
            env_dict[prefix + name] = dict(field)
    return env_dict


def from_space(space: Any, int_type: Any, float_type: Any) -> dict[str, Any]:
    """Return the field for a Discrete, MultiDiscrete, MultiBinary or Box: a dict of "shape" and "dtype".

    `int_type`, `float_type` and the errors are those of `create_env_dict`.
    """
    spaces = _spaces()
    if isinstance(space, spaces.Box):
        return {"shape": space.shape, "dtype": float_type if np.issubdtype(space.dtype, np.floating) else space.dtype}
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        return {"shape": space.shape or 1, "dtype": int_type}  # a Discrete has the shape ()
    raise NotImplementedError(f"space must be a Discrete, MultiDiscrete, MultiBinary or Box, got {space}")


def create_before_add_func(env: Any) -> Callable[..., dict[str, Any]]:
    """Return a function that splits a transition of `env` into fields, for a buffer from `create_env_dict(env)`.

    Parameters
    ----------
    env : gymnasium.Env
        As for `create_env_dict`.

    Returns
    -------
    callable
        before_add(obs, act, next_obs, rew, done) -> dict, the keyword arguments of `add` for one transition.
        Raises ValueError, naming the part of a Tuple or Dict that is missing.

    Raises
    ------
    ImportError, NotImplementedError, ValueError
        As for `create_env_dict`.
    """
    parts = [(name, way) for name, way, _ in _parts(env)]
    of_obs = [(name, way[1:]) for name, way in parts if way[0] == "obs"]
    of_act = [(name, way[1:]) for name, way in parts if way[0] == "act"]

    def before_add(obs: Any, act: Any, next_obs: Any, rew: Any, done: Any) -> dict[str, Any]:
        row = {name: _at(name, obs, way) for name, way in of_obs}
        row.update((name, _at(name, act, way)) for name, way in of_act)
        row.update((f"next_{name}", _at(f"next_{name}", next_obs, way)) for name, way in of_obs)
        return {**row, "rew": rew, "done": done}

    return before_add


def _spaces() -> Any:
    """Return Gymnasium's spaces module, or Gym's if only that is installed. Imported late, as buffers need neither."""
    for package in ("gymnasium", "gym"):
        with contextlib.suppress(ImportError):
            return importlib.import_module(package).spaces
    raise ImportError("create_env_dict and create_before_add_func need Gymnasium: pip install gymnasium")


def _parts(env: Any) -> list[tuple[str, tuple, Any]]:
    """Return (name, path, space) for every part of obs and act that is neither a Tuple nor a Dict."""
    spaces, parts, names = _spaces(), [], set()
    for root, space in (("obs", env.observation_space), ("act", env.action_space)):
        for way, leaf in _leaves((root,), space, spaces):
            name = _name(way)
            if name in names:
                raise ValueError(f"two parts of the {root} space would both be named {name!r}")
            names.add(name)
            parts.append((name, way, leaf))
    return parts


def _leaves(way: tuple, space: Any, spaces: Any) -> Iterator[tuple[tuple, Any]]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _leaves((*way, key), part, spaces)
    elif isinstance(space, spaces.Tuple):
        for number, part in enumerate(space.spaces):
            yield from _leaves((*way, number), part, spaces)
    elif isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)):
        yield way, space
    else:
        raise NotImplementedError(
            f"{_name(way)}: space must be a Discrete, MultiDiscrete, MultiBinary, Box, Tuple or Dict, got {space}"
        )


def _name(way: tuple) -> str:
    root, *steps = way
    if steps and isinstance(steps[0], int):
        root += str(steps.pop(0))
    return "_".join([root, *map(str, steps)])


def _at(name: str, value: Any, way: tuple) -> Any:
    for step in way:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"{name}: the transition must have this part, got {value!r}") from None
    return value
