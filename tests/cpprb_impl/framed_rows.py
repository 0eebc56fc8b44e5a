"""Rows that certify themselves by their frames, which adjacent rows share; and explorers that add such rows.

Every frame is computed from its number. The id of a row is the number of its oldest frame and determines the others, so
a row that contains frames of another row is detected.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable

import numpy as np

STACK, FRAME = 4, (6, 8)
OPTIONS = {"next_of": "obs", "stack_compress": "obs"}
ENV_DICT = {"obs": {"shape": (*FRAME, STACK), "dtype": np.uint8}, "id": {"dtype": np.uint64}}
_PLACE = np.arange(1, np.prod(FRAME) + 1, dtype=np.uint64) * np.uint64(0xD1B54A32D192ED03)


def frames(numbers: np.ndarray) -> np.ndarray:
    mixed = (numbers.astype(np.uint64)[..., None] * np.uint64(0x9E3779B97F4A7C15)) ^ _PLACE
    return (mixed >> np.uint64(56)).astype(np.uint8).reshape(*numbers.shape, *FRAME)


def stacks(oldest: np.ndarray) -> np.ndarray:
    return np.moveaxis(frames(oldest[:, None] + np.arange(STACK, dtype=np.uint64)), 1, -1)


def rows(ids: np.ndarray) -> dict[str, np.ndarray]:
    return {"obs": stacks(ids), "next_obs": stacks(ids + np.uint64(1)), "id": ids}


def numbered(first: int, count: int) -> np.ndarray:
    return np.arange(first, first + count, dtype=np.uint64)


def torn(batch: dict[str, np.ndarray]) -> int:
    ids = batch["id"].ravel()
    whole = rows(ids)
    good = [(batch[name] == whole[name]).all(axis=(1, 2, 3)) for name in ("obs", "next_obs")]
    return int((~np.logical_and(*good)).sum())


def explore(buffer, number: int, calls: int | None, seed: int) -> None:
    """Add episodes of random length. Only some of their ends are reported."""
    rng, at = random.Random(seed), number << 32
    while calls is None or calls > 0:
        calls = None if calls is None else calls - 1
        count = rng.choice([1, 1, 1, 2, 7])
        made = rows(numbered(at, count))
        buffer.add(**({name: column[0] for name, column in made.items()} if count == 1 else made))
        at += count
        if rng.random() < 0.05:
            at += STACK + rng.randrange(100)
            if rng.random() < 0.5:
                buffer.on_episode_end()


def forked(job: Callable[..., None], *args) -> int:
    """Return the process id of a child that runs `job`."""
    pid = os.fork()
    if pid == 0:
        try:
            job(*args)
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def has_ended_well(pid: int) -> bool:
    return os.waitpid(pid, 0)[1] == 0


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
