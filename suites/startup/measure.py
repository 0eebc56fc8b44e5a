"""Start-up: how long a user waits for the first batch, in a fresh process.

    python -m suites.startup --peer NAME [--benchmark NAME ...] [--workload NAME] [--capacity ROWS] [--cells FILE]

import        import statements while the buffer is constructed; Python, NumPy and this project are already loaded
construct     the rest of constructing a buffer of that capacity: allocating memory, starting a server
first_add     adding the first step
fill          adding columns until the buffer is full, starting with the second row
first_sample  drawing the first batch of 32 from the full buffer
first_cycle   drawing the first prioritized batch of 32 and updating its priorities, on another buffer of that capacity
installed     bytes of the files that its installation wrote, excluding packages that it requires

The figures named first_ include the time for compiling code and allocating memory on first use. One launch measures all
figures of one peer. Answers are checked outside the timed calls.
"""

from __future__ import annotations

import argparse
import builtins
import importlib
import importlib.metadata
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from adapters import registry
from adapters.base import Spec
from adapters.checks import AddedRows
from suites import workloads
from suites.runner import entry
from suites.runner.filling import TooSlow, fill
from suites.runner.results import Result, failure
from suites.startup.spec import INSTALLED, STEPS, SUITE, WORKLOAD
from suites.workloads import Workload

BATCH = 32
ROWS = 64  # stored before the first prioritized sample


class ImportClock:
    """Measures the seconds spent in import statements and `import_module`. Nested imports are not counted twice."""

    def __init__(self) -> None:
        self.seconds, self._depth = 0.0, 0

    @contextmanager
    def running(self) -> Iterator[None]:
        places = (builtins, "__import__"), (importlib, "import_module")
        before = [getattr(*place) for place in places]
        for place, function in zip(places, before, strict=True):
            setattr(*place, self._timed(function))
        try:
            yield
        finally:
            for place, function in zip(places, before, strict=True):
                setattr(*place, function)

    def _timed(self, function: Callable) -> Callable:
        def timed(*arguments, **options):
            self._depth += 1
            begin = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.perf_counter() - begin

        return timed


Figures = dict[str, float | str]  # seconds or bytes, or the reason why there are none


def measure(peer: str, workload: str, capacity: int, wanted: Collection[str], fill_seconds: float) -> Iterator[Result]:
    """Yield the figure of each of these benchmarks, or the reason why there is none."""
    recording = workloads.load(workload)
    # The buffer of a peer that is known to be too slow is not filled again.
    fill_seconds = fill_seconds if "fill" in wanted else 0.0
    for part, benchmarks in PARTS.items():
        figures: Figures = {}
        outcome, reason = "ok", None
        if not set(benchmarks) & set(wanted):
            continue
        try:
            part(figures, peer, recording, capacity, fill_seconds)
        except Exception as error:
            outcome, reason = failure(error)
        for name in benchmarks:
            figure = figures.get(name)
            if isinstance(figure, float):
                said = "ok", figure, None
            else:
                said = ("skipped", None, figure) if figure else (outcome, None, reason)
            if name in wanted:
                yield Result(name, peer, workload, {"capacity": capacity}, *said)


def plain(figures: Figures, peer: str, recording: Workload, capacity: int, fill_seconds: float) -> None:
    """Store figures in `figures` one by one, so that figures measured before a failure are kept."""
    clock, spec = ImportClock(), Spec(capacity, recording.fields)
    known, first = AddedRows(recording.columns, recording.fields), [next(recording.stepwise())]
    cls = registry.adapter_class(peer)
    cls.check(spec)  # looks up the library's version; users do not wait for this
    begin = time.perf_counter()
    with clock.running():
        adapter = cls(spec)
    made = time.perf_counter() - begin
    try:
        figures["import"] = clock.seconds
        figures["construct"] = made - clock.seconds
        figures["first_add"] = _seconds(lambda: adapter.add(first))
        try:
            figures["fill"] = _seconds(lambda: fill(adapter, spec, recording, fill_seconds))
        except TooSlow as reason:
            figures["fill"] = str(reason)
        drawn = []
        took = _seconds(lambda: drawn.append(adapter.sample(BATCH)))
        known.check(drawn[0], BATCH)
        figures["first_sample"] = took
    finally:
        adapter.close()


def prioritized(figures: Figures, peer: str, recording: Workload, capacity: int, _: float) -> None:
    adapter = registry.adapter_class(peer).make(Spec(capacity, recording.fields, prioritized=True))
    known, priorities = AddedRows(recording.columns, recording.fields), np.linspace(0.1, 1.0, ROWS)
    drawn = []

    def cycle() -> None:
        drawn.append(adapter.sample(BATCH))
        adapter.update_priorities(drawn[0]["indexes"], priorities[:BATCH])

    try:
        adapter.add_batch({name: column[:ROWS] for name, column in recording.columns.items()}, priorities)
        took = _seconds(cycle)
        known.check(drawn[0], BATCH)
        figures["first_cycle"] = took
    finally:
        adapter.close()


def installed(figures: Figures, peer: str, _recording: Workload, _capacity: int, _fill_seconds: float) -> None:
    name = registry.peer_class(peer).distribution
    if name is None:
        figures[INSTALLED] = "its code is part of this project"
        return
    distribution = importlib.metadata.distribution(name)
    files = [Path(str(distribution.locate_file(each))) for each in distribution.files or ()]
    figures[INSTALLED] = float(sum(file.stat().st_size for file in files if file.exists() and file.suffix != ".pyc"))


#: function -> the benchmarks that it measures, in one process and in this order
PARTS: dict[Callable, tuple[str, ...]] = {
    plain: ("import", "construct", "first_add", "fill", "first_sample"),
    prioritized: ("first_cycle",),
    installed: (INSTALLED,),
}


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--benchmark", action="append", choices=list(SUITE.benchmarks), help="default: all steps")
    parser.add_argument("--workload", choices=workloads.NAMES, default=WORKLOAD, metavar="NAME")
    parser.add_argument("--capacity", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument(
        "--fill-seconds", type=float, default=60.0, help="limit for filling the buffer; default: %(default)s"
    )


def main() -> int:
    def figures(args: argparse.Namespace) -> Iterator[Result]:
        wanted = args.benchmark or STEPS
        return measure(args.peer, args.workload, args.capacity, wanted, args.fill_seconds)

    return entry.main(SUITE, __doc__, options, figures)


if __name__ == "__main__":
    sys.exit(main())
