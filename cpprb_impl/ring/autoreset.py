"""The transform that leaves out steps in which a vector environment only begins a new episode."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from cpprb_impl._native import PrioritizedRing
from cpprb_impl.layout.layout import Layout
from cpprb_impl.layout.sequences import ENDS
from cpprb_impl.ring.base import BufferBase
from cpprb_impl.ring.order import end_fields
from cpprb_impl.ring.row_reader import RowReader
from cpprb_impl.ring.some_environments import chosen_rows
from cpprb_impl.ring.transform import Transform


class Autoreset(Transform):
    """Finds the dummy step that a vector environment makes after each episode (Gymnasium's AutoresetMode.NEXT_STEP).

    The dummy step's observation is the ended episode's last, its action is ignored, and its next observation is the
    next episode's first.
    """

    _is_shared = False
    _reader: RowReader | None = None  # created by the first add

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.ends = end_fields(layout.added, layout.nstep)
        if not self.ends:
            raise ValueError(f"autoreset needs a field that marks the end of an episode, one of {', '.join(ENDS)}")
        self._is_shared = "lock" in layout.options
        self.over = np.zeros(layout.n_envs, bool)  # whether the last step of each environment ended its episode

    def _after_fork(self) -> None:
        super()._after_fork()
        if self._is_shared:  # the environments belong to the parent, as do a shared buffer's pending steps
            self.over = np.zeros_like(self.over)

    def state(self) -> dict[str, np.ndarray]:
        """Return which environments reset in their next step."""
        return {"over": self.over.copy()}

    def at(self, state: Mapping[str, np.ndarray]) -> Self:
        """Return a transform that continues from what `state` returned; raises ValueError if `state` is invalid."""
        twin, over = copy.copy(self), state.get("over")
        twin.over = np.zeros_like(self.over) if over is None else over
        if twin.over.dtype != bool or twin.over.shape != self.over.shape:
            raise ValueError(
                f"over must be bool of shape {self.over.shape}, got {twin.over.dtype} of shape {twin.over.shape}"
            )
        twin.over = twin.over.copy()
        return twin

    def find(self, env_ids: np.ndarray, columns: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return a mask of the rows that are steps of an episode, bool (rows,), and `over` after these rows."""
        ended = np.zeros(len(env_ids), bool)
        for name in self.ends:
            ended |= columns[name].reshape(len(env_ids), -1).any(axis=1)
        over, real = self.over.copy(), np.empty(len(env_ids), bool)
        for row, environment in enumerate(env_ids.tolist()):
            real[row] = not over[environment]
            over[environment] = real[row] and ended[row]
        return real, over

    def add(self, rows: Mapping[str, Any], buffer: BufferBase) -> int | None:
        """Implement `add`. Returns None if no row is a step of an episode."""
        self._reader = reader = self._reader or _reader_for(buffer)
        environments, columns = _steps_of(reader, dict(rows), buffer.n_envs)
        if not len(environments):
            return None
        if isinstance(buffer, PrioritizedRing) and rows.get("priorities") is None:
            del columns["priorities"]
        real, over = self.find(environments, columns)
        slot = None
        if real.any():
            slot = buffer._add_of(environments[real], **{name: column[real] for name, column in columns.items()})
        self.over[environments] = over[environments]  # not those of other threads
        return slot


def _reader_for(buffer: BufferBase) -> RowReader:
    """Return a reader for the fields that `add` takes, each with the dtype that the native ring uses."""
    columns = buffer._get_pending() or buffer.get([])
    names = [name for name, _, _ in buffer._layout.added if name in columns]
    fields = [(name, columns[name].dtype, columns[name].shape[1:]) for name in names]
    return RowReader(fields, buffer._layout.exponents)


def _steps_of(reader: RowReader, rows: dict[str, Any], n_envs: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the environment of each row, and the fields. Raises the exceptions of `add`."""
    empty = reader.empty()
    if "env_ids" not in rows or "env_ids" in empty:
        columns = reader(rows)
        count = len(next(iter(columns.values())))
        if count % n_envs:
            raise ValueError(
                f"add() must be given one row per environment (n_envs={n_envs}), or a multiple, got {count} rows; "
                "to add rows of only some environments, pass env_ids"
            )
        return np.tile(np.arange(n_envs), count // n_envs), columns
    elements = {name: math.prod(column.shape[1:]) for name, column in empty.items()}
    environments, chosen = chosen_rows(rows.pop("env_ids"), rows, n_envs, elements)
    if not len(environments):
        return environments, {}
    columns = reader(chosen)
    count = len(next(iter(columns.values())))
    if len(environments) != count:
        raise ValueError(f"env_ids must have one value per row, got {len(environments)} values for {count} rows")
    if (bad := np.flatnonzero((environments < 0) | (environments >= n_envs))).size:
        raise IndexError(f"env_ids[{bad[0]}] must be from 0 to {n_envs - 1}, got {environments[bad[0]]}")
    return environments, columns
