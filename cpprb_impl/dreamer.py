"""A replay with the methods that DreamerV3 calls on its own."""

from __future__ import annotations

import time
from collections.abc import Mapping, MutableMapping
from typing import Any

import numpy as np

from cpprb_impl.buffers.single import PrioritizedReplayBuffer, ReplayBuffer
from cpprb_impl.layout.fields import integer, parse_seed, positive_integer
from cpprb_impl.layout.options import check_exponent

MODES = ("train", "report", "eval")
STEPID, PRIORITY = "stepid", "priority"
ID_BYTES = 20  # of a step, as in DreamerV3
NOT_STORED = "log/"  # prefix of values that are only logged
PAUSE = 0.01  # seconds between looks for a sequence


class Replay:
    """Sequences of steps for DreamerV3 (Hafner et al. 2023), in the form of its `embodied.Replay`.

    The first step decides which values are stored, with their shapes and dtypes; those whose names begin with "log/"
    are not. Sequences continue into the next episode of their worker, as in DreamerV3, but not across the position at
    which steps are overwritten.

    Parameters
    ----------
    length : int
        The number of steps in a sequence.
    capacity : int
        The number of steps stored of all workers together. It is rounded down to a multiple of `workers`.
    workers : int
        The number of workers that add steps.
    alpha : float, optional
        Draw sequences by priority, with this exponent. By default, they are drawn uniformly.
    seed : int, optional
        As for `cpprb_impl.ReplayBuffer`.

    Raises
    ------
    TypeError, ValueError
        If a number is invalid, or fewer than `length` steps of each worker are stored.
    """

    def __init__(
        self, length: int, capacity: int, workers: int = 1, *, alpha: float | None = None, seed: int | None = None
    ) -> None:
        self.length, self.capacity = positive_integer("length", length), positive_integer("capacity", capacity)
        self.workers, self._seed = positive_integer("workers", workers), parse_seed(seed)
        self.alpha = None if alpha is None else check_exponent("alpha", alpha)
        if self.capacity // self.workers < self.length:
            raise ValueError(f"capacity must be at least workers * length={workers * length}, got {capacity}")
        self._ring: ReplayBuffer | None = None
        self._counts = dict.fromkeys(("inserts", "samples", "updates"), 0)

    @property
    def buffer(self) -> ReplayBuffer:
        """The native buffer, for example to save it. Raises RuntimeError before the first step."""
        if self._ring is None:
            raise RuntimeError("the replay must contain a step: the first one decides the layout")
        return self._ring

    def __len__(self) -> int:
        """Return the number of sequences that can be drawn."""
        return 0 if self._ring is None else self._ring.get_valid_sequences()

    def stats(self) -> dict[str, float]:
        """Return what happened since the last call, and the number of sequences and bytes that are stored."""
        counts, self._counts = self._counts, dict.fromkeys(self._counts, 0)
        ratio = self.length * counts["samples"] / counts["inserts"] if counts["inserts"] else np.nan
        memory = 0 if self._ring is None else self._ring.nbytes
        return {"items": len(self), "ram_gb": memory / 1024**3, "replay_ratio": ratio, **counts}

    def add(self, step: Mapping[str, Any], worker: int = 0) -> None:
        """Store the next step of a worker. Raises ValueError, TypeError or KeyError if it does not fit the first."""
        number = integer("worker", worker)
        if not 0 <= number < self.workers:
            raise ValueError(f"worker must be from 0 to {self.workers - 1}, got {worker}")
        row = {f"/{name}": np.asarray(value)[np.newaxis] for name, value in step.items() if _is_stored(name)}
        ring = self._ring or self._make_ring(row)
        ring.add(env_ids=[number], **row)
        self._ring = ring
        self._counts["inserts"] += 1

    def _make_ring(self, row: Mapping[str, np.ndarray]) -> ReplayBuffer:
        # The slash keeps names apart from those of the ring's own arrays, such as "is_first".
        fields = {name: {"shape": value.shape[1:], "dtype": value.dtype} for name, value in row.items()}
        size = self.capacity // self.workers * self.workers
        options: dict[str, Any] = {"n_envs": self.workers, "seed": self._seed}
        options["sequences"] = {"size": self.length, "ends": "cross"}
        if self.alpha is None:
            return ReplayBuffer(size, fields, **options)
        return PrioritizedReplayBuffer(size, fields, alpha=self.alpha, **options)

    def sample(self, batch: int, mode: str = "train") -> dict[str, np.ndarray]:
        """Return sequences as new arrays (batch, length, *shape), and "stepid" (batch, length, 20) for `update`.

        Waits, as in DreamerV3, until a sequence can be drawn. "is_first" is true at the first step of each sequence,
        and "is_last" also where an episode was abandoned. Raises ValueError for an unknown `mode`.
        """
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
        while not len(self):
            time.sleep(PAUSE)
        drawn = self.buffer.sample_sequences(batch)
        data = {name[1:]: values for name, values in drawn.items() if name.startswith("/")}
        data[STEPID] = np.zeros((*drawn["is_first"].shape, ID_BYTES), np.uint8)
        if "indexes" in drawn:
            indexes = drawn["indexes"].astype("<i8").view(np.uint8)
            data[STEPID][..., :8] = indexes.reshape(-1, 1, 8)
        if "is_first" in data:
            if "is_last" in data:
                data["is_last"][:, :-1] |= data["is_first"][:, 1:]
            data["is_first"][:, 0] = True
        if mode == "train":
            self._counts["samples"] += len(data[STEPID])
        return data

    def update(self, data: MutableMapping[str, np.ndarray]) -> None:
        """Set the priorities of sampled sequences, from the "priority" (batch, length) of each step.

        As in DreamerV3, "stepid" and "priority" are removed from `data`. Raises TypeError if the replay has no
        priorities, ValueError if one is not finite, and NotImplementedError for other values, which cannot be written.
        """
        if unknown := data.keys() - {STEPID, PRIORITY}:
            raise NotImplementedError(
                f"data must have nothing but stepid and priority, got {', '.join(sorted(unknown))}: stored steps "
                "cannot be changed; set replay_context to 0"
            )
        if PRIORITY in data:
            ring = self.buffer
            if not isinstance(ring, PrioritizedReplayBuffer):
                raise TypeError(
                    "update must not get a priority without the option alpha: sequences are drawn uniformly"
                )
            indexes = np.ascontiguousarray(data[STEPID][:, 0, :8]).view("<i8")[:, 0]
            ring.update_priorities(indexes, data[PRIORITY])
        self._counts["updates"] += data[STEPID].shape[0] * data[STEPID].shape[1]
        data.pop(STEPID)
        data.pop(PRIORITY, None)


def _is_stored(name: str) -> bool:
    return not name.startswith(NOT_STORED)
