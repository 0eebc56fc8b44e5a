"""What rows pass in Python between `add` and the native ring, and batches between the ring and the caller."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from cpprb_impl.processes.fork_safety import ForkSafe
from cpprb_impl.ring.base import BufferBase


class Transform(ForkSafe):
    """Fields of Python objects and `autoreset` need one, which owns what this process keeps of each stream of steps.

    Without it, the native ring keeps that alone (bindings/streams.hpp).
    """

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__setstate__({name: copy.copy(value) for name, value in self.__getstate__().items()})
        return twin

    def add(self, rows: Mapping[str, Any], buffer: BufferBase) -> int | None:
        """Implement `add` for `buffer`."""
        raise NotImplementedError

    def fill(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return what the caller receives for the native ring's `batch`."""
        return batch

    def end_episodes(self, buffer: BufferBase) -> None:
        """Add what the pending steps make up to `buffer`, and begin all streams anew."""

    def clear(self, clear_ring: Callable[[], None]) -> None:
        """Clear the native ring and, at once, all that belongs to its rows; and forget the streams."""
        clear_ring()

    def state(self) -> dict[str, np.ndarray]:
        """Return what a file stores, as arrays by name."""
        return {}

    def at(self, state: Mapping[str, np.ndarray]) -> Self:
        """Return a transform that goes on from what `state` returned; raises ValueError if it is invalid."""
        return self
