"""Reading the option `sequences`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cpprb_impl.layout.fields import NativeField, field_names, integer
from cpprb_impl.layout.options import check_exponent

KNOWN = ("size", "burn_in", "period", "ends", "done", "state", "eta", "overlap")
AT_ENDS = ("stop", "pad", "cross")
ENDS = ("done", "terminated", "truncated")  # fields that mark the last step of an episode
OF_SAMPLE = ("is_first", "mask", "lengths", "offsets")  # arrays of a sample that are not fields
MOST_ROWS = 2**30 - 1  # the link between two rows has 30 bits


def read_sequences(
    given: Mapping[str, Any],
    fields: Sequence[NativeField],
    capacity: int,
    n_envs: int,
    *,
    prioritized: bool,
    shared: bool = False,
) -> dict[str, Any]:
    """Check the option `sequences`, and return it in JSON form with its defaults, except that of "overlap".

    Parameters
    ----------
    given : mapping
        As for `ReplayBuffer`.
    fields : sequence of (name, dtype, shape)
        The fields that are stored.
    capacity, n_envs : int
        The size of the buffer, in transitions of all `n_envs` streams.
    prioritized, shared : bool
        Whether the sequences have priorities, and whether processes share them.

    Raises
    ------
    TypeError, KeyError, ValueError
        If an option does not exist or has a value that does not fit the buffer, or a name is not a field.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"sequences must be a dict with 'size', got {given!r}")
    for name in given:
        if name not in KNOWN:
            raise TypeError(f"sequences must have no options but {', '.join(KNOWN)}, got {name!r}")
    if "size" not in given:
        raise KeyError("sequences needs 'size', the number of steps")
    size, period = (_at_least(1, name, given.get(name, 1)) for name in ("size", "period"))
    burn_in = _at_least(0, "burn_in", given.get("burn_in", 0))
    if period > size:
        raise ValueError(f"sequences: period must be at most size={size}, or some steps are never drawn, got {period}")
    if size + burn_in > capacity // n_envs:
        raise ValueError(
            f"sequences: size + burn_in must be at most {capacity // n_envs}, the steps that are stored of each "
            f"environment, got {size + burn_in}"
        )
    if capacity > MOST_ROWS:
        raise ValueError(f"size must be at most {MOST_ROWS} with sequences, got {capacity}")
    at_ends = given.get("ends", "stop")
    if at_ends not in AT_ENDS:
        raise ValueError(f"sequences: ends must be one of {', '.join(AT_ENDS)}, got {at_ends!r}")
    by_name = {name: (dtype, shape) for name, dtype, shape in fields}
    for name in OF_SAMPLE:
        if name in by_name:
            raise ValueError(f"field {name} must be renamed: samples of sequences contain their own {name}")
    usual = [name for name in ENDS if name in by_name and _is_end(*by_name[name])]
    done = usual if given.get("done") is None else _names("done", given["done"], by_name)
    for name in done:
        if not _is_end(*by_name[name]):
            raise ValueError(f"sequences: done must name fields with one number or bool per transition, got {name!r}")
    eta = given.get("eta", 0.9 if prioritized else None)
    if not prioritized and eta is not None:
        raise ValueError(f"sequences: eta must be None in a buffer without priorities, got {eta!r}")
    if prioritized and not check_exponent("sequences: eta", eta) <= 1:
        raise ValueError(f"sequences: eta must be from 0 to 1, got {eta!r}")
    overlap = given.get("overlap", "own")
    if overlap not in ("own", "all"):
        raise ValueError(f"sequences: overlap must be 'own' or 'all', got {overlap!r}")
    if overlap == "all" and (shared or not prioritized):
        raise ValueError("sequences: overlap must be 'own' except in a PrioritizedReplayBuffer, got 'all'")
    found = {
        "size": size,
        "burn_in": burn_in,
        "period": period,
        "ends": str(at_ends),
        "done": sorted(done),
        "state": sorted(_names("state", given.get("state"), by_name)),
    }
    if eta is not None:
        found["eta"] = float(eta)
    return found if overlap == "own" else {**found, "overlap": "all"}


def _at_least(least: int, name: str, value: Any) -> int:
    number = integer(f"sequences: {name}", value)
    if isinstance(value, (bool, np.bool_)) or not least <= number <= MOST_ROWS:
        raise ValueError(f"sequences: {name} must be from {least} to {MOST_ROWS}, got {value!r}")
    return number


def _is_end(dtype: np.dtype, shape: tuple[int, ...]) -> bool:
    return dtype.kind in "biufc" and bool(np.prod(shape) == 1)


def _names(option: str, value: Any, fields: Mapping[str, Any]) -> list[str]:
    names = field_names(f"sequences: {option}", value)
    for name in names:
        if name not in fields:
            raise KeyError(f"sequences: {option} must name fields of env_dict, got {name!r}")
    return names
