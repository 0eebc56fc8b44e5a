"""Buffers whose rows and batches may pass a stage in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpprb_impl.buffers.saving import SavableBuffer
from cpprb_impl.ring.stage import Stage


class StagedBuffer(SavableBuffer):
    """A buffer that may have a stage; the native methods do all the work of one that has none."""

    _stage: Stage | None = None
    _parts: tuple[str, ...] = ("_stage",)

    def _add_through(self, **rows: Any) -> int | None:
        assert self._stage is not None
        return self._stage.add(rows, self)

    def on_episode_end(self) -> None:
        """Mark the end of an episode. Pending n-step transitions are completed with the steps that are available."""
        if self._stage is not None:
            self._stage.end_episodes(self)
        super().on_episode_end()

    def clear(self) -> None:
        """Remove every transition, including pending n-step transitions.

        With `autoreset`, the next step of an environment whose episode has just ended is still left out: also its first
        step if the program resets the environments as well.
        """
        if self._stage is None:
            super().clear()
        else:
            self._stage.clear(super().clear)

    def _own_state(self) -> dict[str, np.ndarray]:
        return super()._own_state() | ({} if self._stage is None else self._stage.state())

    def _read_own_state(self, state: dict[str, np.ndarray]) -> dict[str, Any]:
        found = super()._read_own_state(state)
        return found if self._stage is None else found | {"_stage": self._stage.at(state)}
