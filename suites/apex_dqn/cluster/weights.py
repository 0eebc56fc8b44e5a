"""The network's weights in Ray's object store: each host fetches a version once, however many explorers it has."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from adapters.base import Array
from suites.apex_dqn.cluster.progress import ClusterProgress

FETCH_SECONDS = 5.0  # after which an explorer continues with the weights that it has


class ClusterWeights:
    """The board holds the newest version's number and its reference."""

    def __init__(self, progress: ClusterProgress) -> None:
        self._progress = progress
        self._fetched: tuple[int, Array] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._progress,)

    def publish(self, version: int, flat: Array) -> None:
        # The reference is in a list, because Ray would otherwise pass the array in its place.
        self._progress.copy.set("weights", (version, [ray.put(flat)]))

    def newest(self) -> tuple[int, Array] | None:
        version, references = self._progress.copy.words.get("weights", (None, []))
        if version is not None and (self._fetched is None or self._fetched[0] != version):
            # If it is not ready, the learner's host cannot be reached, or the version is outdated.
            with suppress(GetTimeoutError, RayError):
                self._fetched = version, ray.get(references[0], timeout=FETCH_SECONDS).copy()  # writable
        return self._fetched
