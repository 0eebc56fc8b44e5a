"""Buffers whose rows and batches may pass through a transform in Python."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from cpprb_impl.buffers.saving import SavableBuffer
from cpprb_impl.layout.layout import Layout
from cpprb_impl.ring.autoreset import Autoreset
from cpprb_impl.ring.order import harm_of, watch_order
from cpprb_impl.ring.transform import Transform


class TransformedBuffer(SavableBuffer):
    """A buffer that may have a transform; without one, the native methods do all the work."""

    _transform: Transform | None = None
    _parts: tuple[str, ...] = ("_transform",)

    @classmethod
    def _of(cls, layout: Layout, seed: int | None = None, segment: str | None = None) -> Self:
        """Return a new buffer, or one attached to the shared `segment`, without calling `__init__`."""
        buffer = cls.__new__(cls)
        buffer._begin(layout, seed, segment)
        return buffer

    def _make(self, layout: Layout, seed: int | None = None, segment: str | None = None) -> None:
        if "autoreset" in layout.options:
            self._transform = Autoreset(layout)
        super()._make(layout, seed, segment)

    def _begin(self, layout: Layout, seed: int | None = None, segment: str | None = None) -> None:
        """Create the native ring, and watch the order of the first rows that this process adds."""
        self._make(layout, seed, segment)
        if "objects" not in layout.options:  # otherwise, an `ObjectTransform` watches the order
            options = layout.options
            harm = harm_of(layout.nstep, options["next_of"], options["stack_compress"], options.get("sequences"))
            starts = "autoreset" not in layout.options and layout.n_envs != 1
            watch_order(self, layout.added, layout.nstep, harm, starts=starts)

    def _add_through(self, **rows: Any) -> int | None:
        assert self._transform is not None
        return self._transform.add(rows, self)

    def on_episode_end(self) -> None:
        """Mark the end of an episode. Pending n-step transitions are completed with the steps that are available."""
        if self._transform is not None:
            self._transform.end_episodes(self)
        super().on_episode_end()

    def clear(self) -> None:
        """Remove every transition, including pending n-step transitions.

        With `autoreset`, the next step of an environment whose episode has just ended is still left out, even if the
        program has reset the environment and that step is therefore the first of a new episode.
        """
        if self._transform is None:
            super().clear()
        else:
            self._transform.clear(super().clear)

    def _own_state(self) -> dict[str, np.ndarray]:
        return super()._own_state() | ({} if self._transform is None else self._transform.state())

    def _read_own_state(self, state: dict[str, np.ndarray]) -> dict[str, Any]:
        found = super()._read_own_state(state)
        return found if self._transform is None else found | {"_transform": self._transform.at(state)}
