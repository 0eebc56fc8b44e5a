"""Reverse Experience Replay: transitions are read backwards from the newest one, in strides."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpprb_impl.buffers.single import ReplayBuffer
from cpprb_impl.layout.fields import integer, positive_integer
from cpprb_impl.layout.options import EnvDict


class ReverseReplayBuffer(ReplayBuffer):
    """Ring of transitions, read backwards in strides (Rotinov 2019, "Reverse Experience Replay", arXiv:1910.08780).

    A sample holds transitions t, t - stride, t - 2 * stride, ...; the next sample starts at t - 1. Once t is
    2 * stride or more behind the newest transition, reading starts again at the newest. Beyond the oldest stored
    transition, reading continues at the ring's other end.

    Parameters
    ----------
    size, env_dict, default_dtype
        As for `ReplayBuffer`. Sampling is not random, so `seed` only affects the shuffling of `get_all_transitions`.
    stride : int
        Distance in transitions between consecutive rows of a sample. At least 1; a float is truncated.

    Raises
    ------
    TypeError, ValueError
        If the stride is invalid. The exceptions of `ReplayBuffer` are also raised.
    """

    def __init__(self, size: int, env_dict: EnvDict | None = None, *, stride: int = 300, **options: Any) -> None:
        self._stride = positive_integer("stride", stride)
        super().__init__(size, env_dict, **options)
        self._last: int | None = None  # first slot of the last sample; None if nothing was sampled

    def sample(self, batch_size: int) -> dict[str, np.ndarray]:  # type: ignore[override]  # no out, as in cpprb
        """Return the next `batch_size` transitions, reading backwards, as a dict of new arrays (batch_size, *shape).

        Raises ValueError if the buffer is empty or batch_size is negative; the position is then unchanged.
        """
        rows = integer("batch_size", batch_size)
        if rows < 0:
            raise ValueError(f"batch_size must not be negative, got {rows}")
        stored = self.get_stored_size()
        if stored == 0:
            raise ValueError("cannot sample from an empty buffer")
        newest = (self.get_next_index() - 1) % stored
        first = newest if self._last is None else (self._last - 1) % stored
        if (newest - first) % stored >= 2 * self._stride:
            first = newest
        # Reduce the stride first: a huge one would overflow.
        batch = self._encode_sample((first - np.arange(rows) * (self._stride % stored)) % stored)
        self._last = first
        return batch

    def _own_state(self) -> dict[str, np.ndarray]:
        return super()._own_state() | {"last": np.array([-1 if self._last is None else self._last])}

    def _read_own_state(self, state: dict[str, np.ndarray]) -> dict[str, Any]:
        last = state.get("last")
        if last is None or last.shape != (1,) or last.dtype != np.int64 or not -1 <= last[0] < self.get_buffer_size():
            raise ValueError("the file must hold the position of a ReverseReplayBuffer")
        return super()._read_own_state(state) | {"_last": int(last[0]) if last[0] >= 0 else None}

    def clear(self) -> None:
        """Remove every transition, and reset the position."""
        super().clear()
        self._last = None
