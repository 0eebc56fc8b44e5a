"""A Python stage through which rows pass from `add` to the native ring, and batches from the ring to the caller."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from cpprb_impl.processes.fork_safety import ForkSafe
from cpprb_impl.ring.base import BufferBase


class Transform(ForkSafe):
    """Needed for fields of Python objects and for `autoreset`. It owns this process's state for each stream of steps.

    Without a transform, the native ring owns that state (bindings/streams.hpp).
    """

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__setstate__({name: copy.copy(value) for name, value in self.__getstate__().items()})
        return twin

    def add(self, rows: Mapping[str, Any], buffer: BufferBase) -> int | None:
        """Implement `add` for `buffer`."""
        raise NotImplementedError

    def fill(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the batch that the caller receives for the native ring's `batch`."""
        return batch

    def end_episodes(self, buffer: BufferBase) -> None:
        """Add the transitions formed by the pending steps to `buffer`, and restart all streams."""

    def clear(self, clear_ring: Callable[[], None]) -> None:
        """Clear the native ring and, atomically, everything that belongs to its rows; and forget the streams."""
        clear_ring()

    def state(self) -> dict[str, np.ndarray]:
        """Return the state that a file stores, as arrays by name."""
        return {}

    def at(self, state: Mapping[str, np.ndarray]) -> Self:
        """Return a transform that continues from what `state` returned; raises ValueError if `state` is invalid."""
        return self
