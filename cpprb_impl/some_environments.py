"""Rows of only some environments of a vector environment: which ones, and which rows an autoreset makes useless."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cpprb_impl.fields import NativeField
from cpprb_impl.order import ENDS, end_fields

if TYPE_CHECKING:
    from cpprb_impl.buffer_base import BufferBase


def chosen_rows(
    env_ids: Any, rows: Mapping[str, Any], n_envs: int, elements: Mapping[str, int]
) -> tuple[np.ndarray, Mapping[str, Any]]:
    """Return the environment of each row, int64 (rows,), and the rows of these environments.

    `env_ids` are numbers, or a mask of n_envs bools; with a mask, `rows` may have a row of every environment.
    `elements` is the number of elements of each field. Raises TypeError or ValueError if env_ids are neither.
    """
    given = np.atleast_1d(np.asarray(env_ids))
    if given.dtype != bool:
        if given.size and given.dtype.kind not in "iu":
            raise TypeError(f"env_ids must be ints, or a mask of {n_envs} bools, got {given.dtype}")
        if given.ndim != 1:
            raise ValueError(f"env_ids must have the shape (rows,), got {given.shape}")
        return given.astype(np.int64), rows
    if given.shape != (n_envs,):
        raise ValueError(f"env_ids must have the shape ({n_envs},) as a mask, got {given.shape}")
    chosen = {}
    for name, value in rows.items():
        whole = name in elements and np.size(value) == n_envs * elements[name] and np.shape(value)[:1] == (n_envs,)
        chosen[name] = np.asarray(value)[given] if whole and not given.all() else value
    return np.flatnonzero(given), chosen


class Autoreset:
    """Finds the dummy step that a vector environment makes after each episode (Gymnasium's AutoresetMode.NEXT_STEP).

    Its observation is the last one of the ended episode, its action is ignored, and its next observation is the first
    one of the next episode.
    """

    def __init__(self, mode: str, fields: Sequence[NativeField], steps: Mapping[str, Any] | None, n_envs: int) -> None:
        if mode != "next_step":
            raise ValueError(f"autoreset must be 'next_step' or None, got {mode!r}")
        self.ends = end_fields(fields, steps)
        if not self.ends:
            raise ValueError(f"autoreset needs a field that ends an episode, one of {', '.join(ENDS)}")
        self.over = np.zeros(n_envs, bool)  # whether the last step of each environment ended its episode

    def at(self, over: np.ndarray | None) -> Autoreset:
        """Return one that goes on where `over` was found; raises ValueError if that is invalid."""
        twin = copy.copy(self)
        twin.clear()
        if over is not None:
            if over.dtype != bool or over.shape != self.over.shape:
                raise ValueError(f"the file must say of {len(self.over)} environments whether their episode is over")
            twin.over = over
        return twin

    def clear(self) -> None:
        """Forget the steps so far."""
        self.over = np.zeros_like(self.over)

    def find(self, env_ids: np.ndarray, rows: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows are steps of an episode, bool (rows,), and what `over` is after them."""
        ended = np.zeros(len(env_ids), bool)
        for name in self.ends:
            ended |= np.asarray(rows[name]).reshape(len(env_ids), -1).any(axis=1)
        over, real = self.over.copy(), np.empty(len(env_ids), bool)
        for row, environment in enumerate(env_ids.tolist()):
            real[row] = not over[environment]
            over[environment] = real[row] and ended[row]
        return real, over


def add_steps(buffer: BufferBase, autoreset: Autoreset, given: Mapping[str, Any]) -> int | None:
    """Add to `buffer` the rows that are steps of an episode. Returns what its `add` returns; None if there are none."""
    elements = {name: math.prod(column.shape[1:]) for name, column in buffer.get([]).items()} | {"priorities": 1}
    rows: Mapping[str, Any] = {name: value for name, value in given.items() if name != "env_ids"}
    if (env_ids := given.get("env_ids")) is not None:
        environments, rows = chosen_rows(env_ids, rows, buffer.n_envs, elements)
    else:
        missing = next((name for name in autoreset.ends if name not in rows), None)
        if missing is not None:
            raise KeyError(missing)
        count = np.size(rows[autoreset.ends[0]]) // elements[autoreset.ends[0]]
        if count % buffer.n_envs:
            raise ValueError(f"add() takes a row of each of {buffer.n_envs} environments, got {count} rows")
        environments = np.tile(np.arange(buffer.n_envs), count // buffer.n_envs)
    real, over = autoreset.find(environments, rows)
    if real.any():
        if not real.all():
            known = [name for name in rows if name in elements]
            rows = {**rows, **{name: np.reshape(rows[name], (len(real), -1))[real] for name in known}}
        slot = buffer._add_of(environments[real], **rows)
    else:
        slot = None
    autoreset.over = over
    return slot
