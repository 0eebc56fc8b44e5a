"""Compare the speed of Reverb with different settings, which its documentation leaves to the user.

    python -m suites.reverb_settings [--capacity ROWS] [--rounds N] [--out FILE]

Servers hold CartPole rows, with priorities if the writer supports them. Each round measures every setting once, in
alternating order, so that a slow moment affects all settings alike. A figure is the median over rounds. Settings of the
writer are timed over calls that end when the server has confirmed every row. Batches are drawn from a dataset that has
already returned some batches.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np

from adapters.base import Spec
from adapters.peers.reverb.adapter import Reverb
from adapters.registry import adapter_class
from results import machine
from suites import workloads
from suites.runner.filling import fill

WORKERS = (1, 2, -1)
IN_FLIGHT = (1, 2, 4)
FLUSHES = ((32, 0), (1, 5), (1, 32), (16, 16), (32, 16))  # (items per flush, items that a flush leaves pending)
BATCHES = (32, 256)
ROWS_A_CALL, WARM_BATCHES, TIMED_BATCHES = 200, 20, 60


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def adds(adapter: Reverb, rows: dict, priorities: list | None, flush: tuple[int, int]) -> float:
    """Return the seconds per row."""
    adapter.flush_every, adapter.left_pending = flush
    return timed(lambda: adapter.add_batch(rows, priorities)) / ROWS_A_CALL


def samples(adapter: Reverb, batch: int, workers: int, in_flight: int) -> float:
    """Return the seconds per batch of a dataset made for these settings."""
    adapter.workers, adapter.in_flight, adapter.batch_size = workers, in_flight, 0

    def draw(batches: int) -> None:
        for _ in range(batches):
            adapter.sample(batch)

    draw(WARM_BATCHES)
    return timed(lambda: draw(TIMED_BATCHES)) / TIMED_BATCHES


def measure(capacity: int, rounds: int) -> list[dict]:
    recording = workloads.load("CartPole-v1")
    rows = {name: column[:ROWS_A_CALL] for name, column in recording.columns.items()}
    made = {}
    try:
        for peer, prioritized in (
            ("reverb", False),
            ("reverb[TrajectoryWriter]", True),
            ("reverb[shared chunks]", True),
        ):
            spec = Spec(capacity, recording.fields, prioritized=prioritized)
            made[peer] = adapter_class(peer).make(spec)
            fill(made[peer], spec, recording)
        settings: dict[tuple, Callable[[], float]] = {}
        for peer, adapter in made.items():
            given = None if peer == "reverb" else np.ones(ROWS_A_CALL)
            for flush in FLUSHES:
                key = ("add", peer, ("flush every", flush[0]), ("left pending", flush[1]))
                settings[key] = lambda a=adapter, g=given, f=flush: adds(a, rows, g, f)
        for batch, workers, ahead in product(BATCHES, WORKERS, IN_FLIGHT):
            key = ("sample", "reverb", ("batch", batch), ("workers", workers), ("batches in flight", ahead))
            settings[key] = lambda b=batch, w=workers, n=ahead: samples(made["reverb"], b, w, n)
        seconds: dict[tuple, list[float]] = {key: [] for key in settings}
        for turn in range(rounds):
            for key in list(settings)[:: -1 if turn % 2 else 1]:
                seconds[key].append(settings[key]())
    finally:
        for adapter in made.values():
            adapter.close()
    return [
        {"benchmark": name, "peer": peer, "settings": dict(chosen), "seconds": statistics.median(took), "rounds": took}
        for (name, peer, *chosen), took in seconds.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.reverb_settings", description=__doc__.partition("\n")[0])
    parser.add_argument("--capacity", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--out", type=Path, help="also write the figures to this file, as JSON")
    args = parser.parse_args()
    figures = measure(args.capacity, args.rounds)
    for figure in figures:
        settings = ", ".join(f"{name} {value}" for name, value in figure["settings"].items())
        print(f"{figure['benchmark']:8}{figure['peer']:26}{settings:48}{figure['seconds'] * 1e6:8.1f} us")
    if args.out:
        about = {
            "command": f"python -m suites.reverb_settings --capacity={args.capacity} --rounds={args.rounds}",
            "revision": machine.revision(),
            "machine": machine.describe(),
            "reverb": Reverb.version(),
            "figures": figures,
        }
        args.out.write_text(json.dumps(about, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
