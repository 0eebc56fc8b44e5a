"""The network's weights in shared memory: one copy, which the learner publishes and every explorer reads."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from adapters.base import Array
from cpprb_impl import MPReplayBuffer


class NetworkWeights(Protocol):
    """Transfers the learner's weights to the explorers and the evaluator."""

    def publish(self, version: int, flat: Array) -> None:
        """Store `flat`, float32 (weights,), as the newest version. `version` must increase."""

    def newest(self) -> tuple[int, Array] | None:
        """Return the newest version and its weights, or None if none was published yet."""


class SharedWeights:
    """A ring buffer of two versions of the weights, so that a reader never finds a torn one, and that one version stays
    readable even if the learner is killed or stopped while it writes the other."""

    def __init__(self, weights: int) -> None:
        self._ring = MPReplayBuffer(2, {"version": {"dtype": np.int64}, "weights": {"shape": weights}})

    def publish(self, version: int, flat: Array) -> None:
        self._ring.add(version=version, weights=flat)

    def newest(self) -> tuple[int, Array] | None:
        stored = self._ring.get_all_transitions()
        versions = stored["version"].ravel()
        if not len(versions):
            return None
        newest = int(versions.argmax())
        return int(versions[newest]), stored["weights"][newest]

    def close(self) -> None:
        self._ring.close()
