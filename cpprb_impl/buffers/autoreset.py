"""Buffers that leave out the step with which a vector environment only begins a new episode."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cpprb_impl._native import PrioritizedRing
from cpprb_impl.buffers.saving import SavableBuffer
from cpprb_impl.layout.fields import NativeField
from cpprb_impl.ring.order import ENDS, end_fields
from cpprb_impl.ring.row_reader import RowReader
from cpprb_impl.ring.some_environments import chosen_rows


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
        twin.over = np.zeros_like(self.over) if over is None else over
        if twin.over.dtype != bool or twin.over.shape != self.over.shape:
            raise ValueError(
                f"over must be bool of shape {self.over.shape}, got {twin.over.dtype} of shape {twin.over.shape}"
            )
        return twin

    def find(self, env_ids: np.ndarray, columns: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows are steps of an episode, bool (rows,), and what `over` is after them."""
        ended = np.zeros(len(env_ids), bool)
        for name in self.ends:
            ended |= columns[name].reshape(len(env_ids), -1).any(axis=1)
        over, real = self.over.copy(), np.empty(len(env_ids), bool)
        for row, environment in enumerate(env_ids.tolist()):
            real[row] = not over[environment]
            over[environment] = real[row] and ended[row]
        return real, over


class AutoresetBuffer(SavableBuffer):
    """A buffer that may have the option `autoreset`."""

    _autoreset: Autoreset | None = None
    _read: RowReader | None = None  # made by the first add; `ReplayBuffer` has one for Python objects, too
    _parts: tuple[str, ...] = ("_autoreset", "_read")

    def _add_through(self, **rows: Any) -> int | None:
        """Implement `add` with autoreset. Returns None if no row is a step of an episode."""
        autoreset, reader = self._autoreset, self._read or self._make_reader()
        assert autoreset is not None
        self._read = reader
        priorities = rows.get("priorities")
        environments, columns = self._steps_of(reader, rows)
        if not len(environments):
            return None
        if isinstance(self, PrioritizedRing) and priorities is None:
            del columns["priorities"]
        real, over = autoreset.find(environments, columns)
        slot = None
        if real.any():
            slot = self._add_of(environments[real], **{name: column[real] for name, column in columns.items()})
        autoreset.over = over
        return slot

    def _steps_of(self, reader: RowReader, rows: dict[str, Any]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the environment of each row, and the fields. Raises the exceptions of `add`."""
        empty, n_envs = reader.empty(), self.n_envs
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

    def _make_reader(self) -> RowReader:
        """Return what reads the fields that `add` takes, each in the dtype in which the native ring reads it."""
        waiting = self._get_waiting()
        columns = self.get([]) if waiting is None else waiting
        prioritized = None
        if isinstance(self, PrioritizedRing):
            columns.pop("priorities", None)
            prioritized = dict(zip(("alpha", "eps"), self._exponents(), strict=True))
        return RowReader([(name, each.dtype, each.shape[1:]) for name, each in columns.items()], prioritized)

    def _own_state(self) -> dict[str, np.ndarray]:
        return super()._own_state() | ({} if self._autoreset is None else {"over": self._autoreset.over})

    def _read_own_state(self, state: dict[str, np.ndarray]) -> dict[str, Any]:
        found = super()._read_own_state(state)
        return found if self._autoreset is None else found | {"_autoreset": self._autoreset.at(state.get("over"))}
