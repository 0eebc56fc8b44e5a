"""Rows of only some environments of a vector environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cpprb_impl.layout.arrays import array_of


def chosen_rows(
    env_ids: Any, rows: Mapping[str, Any], n_envs: int, elements: Mapping[str, int]
) -> tuple[np.ndarray, Mapping[str, Any]]:
    """Return the environment of each row, int64 (rows,), and the rows of these environments.

    `env_ids` are numbers, or a mask of n_envs bools; with a mask, `rows` may have a row of every environment.
    `elements` is the number of elements of each field. Raises TypeError or ValueError if env_ids are neither of these,
    or are probably a mask of a dtype other than bool.
    """
    given = np.atleast_1d(array_of("env_ids", env_ids))
    if given.dtype != bool:
        if given.size and given.dtype.kind not in "iu":
            got = "None" if env_ids is None else given.dtype
            raise TypeError(f"env_ids must be ints, or a mask of {n_envs} bools, got {got}")
        if given.ndim != 1:
            raise ValueError(f"env_ids must have the shape (rows,), got {given.shape}")
        if given.size == n_envs and len(values := set(given.tolist())) < n_envs and values <= {0, 1}:
            raise ValueError(
                f"env_ids look like an integer mask, got {given}: pass a mask as bools or, if these are environment "
                "numbers, split the rows over several calls"
            )
        return given.astype(np.int64), rows
    if given.shape != (n_envs,):
        raise ValueError(f"env_ids must have the shape ({n_envs},) as a mask, got {given.shape}")
    if not given.all():
        rows = {name: _of_chosen(value, given, elements.get(name)) for name, value in rows.items()}
    return np.flatnonzero(given), rows


def _of_chosen(value: Any, mask: np.ndarray, elements: int | None) -> Any:
    """Return the rows selected by a mask if `value` has a row of every environment, and otherwise `value`."""
    if elements is None:  # no field
        return value
    try:
        array = np.asanyarray(value)  # asanyarray keeps masked numbers masked
    except (TypeError, ValueError, RuntimeError):
        return value  # add then reports the error
    whole = array.shape[:1] == mask.shape and array.size == len(mask) * elements
    return array[mask] if whole else value
