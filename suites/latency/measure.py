"""Latency: how long single calls take in a learner's loop, including the slowest.

    python -m suites.latency --peer NAME [--capacity ROWS] [--seconds S] [--fill-seconds S] [--cells FILE]

The loop adds one step, samples 32 rows and updates their priorities, and reads a clock before and after each call. The
buffer is full and wraps. For a peer without priorities, the buffer is uniform and there is no update. One launch
measures one peer. Only the answer of the first call is checked, before the timed window.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import sys
import time
from array import array
from collections.abc import Iterator

import numpy as np

from adapters import registry
from adapters.base import Adapter, Columns, Spec
from adapters.checks import AddedRows, check_priorities
from suites import workloads
from suites.latency.spec import BATCH, CALLS, PERCENTILES, SUITE, WORKLOAD
from suites.runner import entry
from suites.runner.filling import fill
from suites.runner.results import Result, failure
from suites.workloads import Workload
from suites.workloads.priorities import priority_sets

CHECKED_ROWS, CHECKED_BATCHES = 32, 100
WARM_SHARE = 0.1  # length of the warm-up, as a share of the window
ENOUGH_CALLS, LONGEST = 2_000, 4  # calls of each kind; the window is extended up to LONGEST times to reach them
BEYOND = 2  # calls that must lie beyond a percentile


def measure(peer: str, capacity: int, seconds: float, fill_seconds: float) -> Iterator[Result]:
    """Yield the figure of each benchmark, or the reason why there is none."""
    figures: dict[str, float | str] = {}
    outcome, reason = "ok", None
    try:
        figures = _measure(peer, capacity, seconds, fill_seconds)
    except Exception as error:
        outcome, reason = failure(error)
    for name in SUITE.benchmarks:
        figure = figures.get(name)
        said = ("skipped", None, figure) if isinstance(figure, str) else (outcome, figure, reason)
        yield Result(name, peer, WORKLOAD, {"batch": BATCH, "capacity": capacity}, *said)


def _measure(peer: str, capacity: int, seconds: float, fill_seconds: float) -> dict[str, float | str]:
    """Return for each benchmark the seconds, or the reason why there is no figure."""
    cls, recording = registry.adapter_class(peer), workloads.load(WORKLOAD)
    refusal = cls.refusal(Spec(capacity, recording.fields, prioritized=True))
    spec = Spec(capacity, recording.fields, prioritized=refusal is None)
    adapter = cls.make(spec)
    try:
        if spec.prioritized:
            check_priorities(adapter, spec, rows=CHECKED_ROWS, batches=CHECKED_BATCHES)
        fill(adapter, spec, recording, fill_seconds)
        loop = Loop(adapter, recording, spec.prioritized)
        loop.run(0)
        AddedRows(recording.columns, recording.fields).check(loop.batch, BATCH)
        loop.run(WARM_SHARE * seconds)
        times = dict(zip(CALLS, loop.run(seconds, ENOUGH_CALLS), strict=True))
    finally:
        adapter.close()
    return {
        f"{call}_{name}": refusal if call == "update" and refusal else percentile(times[call], PERCENTILES[name])
        for call in CALLS
        for name in PERCENTILES
    }


class Loop:
    """A learner's loop, with a clock around each call."""

    def __init__(self, adapter: Adapter, recording: Workload, prioritized: bool) -> None:
        self.add, self.sample = adapter.add, adapter.sample
        self.update = adapter.update_priorities if prioritized else lambda _indexes, _priorities: None
        self.steps = itertools.cycle([[step] for step in recording.steps()])
        self.priorities = priority_sets(BATCH)
        self.batch: Columns = {}

    def run(self, seconds: float, enough: int = 1) -> np.ndarray:
        """Return the seconds of each call, (kinds of call, iterations). At least one iteration is made."""
        add, sample, update, clock = self.add, self.sample, self.update, time.perf_counter_ns
        readings, batch, now = array("q"), self.batch, clock()
        end, latest = now + round(1e9 * seconds), now + round(1e9 * LONGEST * seconds)
        gc.disable()  # garbage collections at random moments would be noise from the harness
        try:
            for step, fresh in zip(self.steps, self.priorities, strict=True):
                begin = clock()
                add(step)
                added = clock()
                batch = sample(BATCH)
                sampled = clock()
                update(batch.get("indexes"), fresh)
                updated = clock()
                readings.extend((begin, added, sampled, updated))
                if updated >= end and (len(readings) >= 4 * enough or updated >= latest):
                    break
        finally:
            gc.enable()
        self.batch = batch
        return np.diff(np.frombuffer(readings, np.int64).reshape(-1, 4)).T / 1e9


def percentile(times: np.ndarray, percent: float) -> float | str:
    """Return the percentile of the times, or a reason if too few calls lie beyond it."""
    fewest = round(BEYOND / (1 - percent / 100))
    if len(times) < fewest:
        return f"too few calls for p{percent:g}: {len(times):,} in the window, but {fewest:,} are needed"
    return float(np.percentile(times, percent, method="higher"))


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--capacity", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=1.0, help="of the timed window; default: %(default)s")
    parser.add_argument(
        "--fill-seconds", type=float, default=60.0, help="limit for filling the buffer; default: %(default)s"
    )


def main() -> int:
    def figures(args: argparse.Namespace) -> Iterator[Result]:
        return measure(args.peer, args.capacity, args.seconds, args.fill_seconds)

    return entry.main(SUITE, __doc__, options, figures)


if __name__ == "__main__":
    sys.exit(main())
