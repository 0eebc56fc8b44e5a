"""What explorer processes do in the tests of shared buffers."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .rows import ENV_DICT, make_rows

WIDE = 14_000  # floats per row: 56 KB, so that an explorer spends nearly all its time copying
MADE_WIDTH = 64
MADE_ENV_DICT = {**ENV_DICT, "obs": {"shape": MADE_WIDTH}, "next_obs": {"shape": MADE_WIDTH}}
WIDE_ENV_DICT = {
    "obs": {"shape": WIDE},
    "act": {"dtype": np.int64},
    "rew": {},
    "next_obs": {"shape": 2},
    "done": {"dtype": bool},
}


def add_for_ever(buffer: Any, explorer: int, added: Any, most: int = 20, pause: float = 0.0) -> None:
    """Add rows with this explorer's numbers, 1 to `most` per call, and count them in `added`."""
    rng = np.random.default_rng(explorer)
    number = explorer * 500_000
    parent = os.getppid()
    while os.getppid() == parent:  # ends when the test run crashes
        count = int(rng.integers(1, most + 1))
        buffer.add(**make_rows(number, count))
        number = explorer * 500_000 + (number + count) % 500_000
        added.value += count
        if pause:
            time.sleep(pause)


def add_made_for_ever(buffer: Any, explorer: int, added: Any, most: int = 20) -> None:
    """Add prepared rows of `MADE_ENV_DICT`, 1 to `most` per call, so that nearly all time is spent in add."""
    rng = np.random.default_rng(explorer)
    made = [
        make_rows(explorer * 500_000 + at, int(rng.integers(1, most + 1)), MADE_WIDTH) for at in range(0, 5000, 100)
    ]
    parent = os.getppid()
    while os.getppid() == parent:
        for rows in made:
            buffer.add(**rows)
            added.value += len(rows["act"])


def add_wide_for_ever(buffer: Any, explorer: int, added: Any, rows_a_call: int = 20) -> None:
    rows = make_rows(explorer * 1000, rows_a_call, width=WIDE)
    rows["next_obs"] = rows["next_obs"][:, :2].copy()
    parent = os.getppid()
    while os.getppid() == parent:
        buffer.add(**rows)
        added.value += rows_a_call


@contextlib.contextmanager
def explorers(
    job: Callable[..., None], buffer: Any, count: int, context: Any = None, **options: Any
) -> Iterator[tuple[list[Any], list[Any]]]:
    """Start `count` processes that run `job`. Yields them and their counters, and kills them at the end."""
    context = context or multiprocessing.get_context("fork")
    added = [context.Value("q", 0, lock=False) for _ in range(count)]
    processes = [
        context.Process(target=job, args=(buffer, i + 1, counter), kwargs=options, daemon=True)
        for i, counter in enumerate(added)
    ]
    for process in processes:
        process.start()
    try:
        yield processes, added
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()


def kill(process: Any, number: int = signal.SIGKILL) -> None:
    os.kill(process.pid, number)
    if number == signal.SIGKILL:
        process.join()


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
