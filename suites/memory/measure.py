"""Memory: how many bytes one more transition takes, when they are allocated, and whether memory leaks.

    python -m suites.memory --peer NAME --workload NAME --benchmark NAME [--capacity ROWS] [--cells FILE]

One launch measures one kind of buffer of one peer. It fills a small and then a large buffer, each one and a half times
over, and divides the difference in memory by the difference in rows. The memory of libraries, thread pools and anything
else that does not grow with the capacity cancels out. Memory is the proportional set size of this process and of the
peer's processes (such as a server); of a shared segment, only touched pages count. Plain buffers are also measured when
they are empty, a quarter full and half full, which shows whether a peer reserves all its memory up front.

Then the peak of the large buffer is measured: how much the memory of all processes rises while batches are drawn. A
small buffer shows whether memory leaks: if memory still grows in every part of a long series of rounds of adding and
sampling, there is a leak. A leak of a few bytes per round cannot be excluded: the figure is the largest leak that could
have gone unnoticed.

The rows are distinct and real, added one by one as in a training loop: each observation is a separate array, a step's
next_obs is the same object as the next step's obs, and the caller keeps no reference to them. A peer that keeps
references (`Contract.references`) therefore stores each observation once.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from adapters import registry
from adapters.base import Adapter, Spec, Step
from adapters.checks import AddedRows, check_full, draw
from suites import workloads
from suites.memory.spec import FILLED, KINDS, LEAKS, PEAK, PEAK_BATCH, SUITE, figures, rows_for
from suites.runner import entry
from suites.runner.memory_use import family, in_use
from suites.runner.results import Outcome, PeerTrouble, Result, failure
from suites.workloads import Workload

STEPS_A_CALL = 64
BATCH = 32
SMALLER = 16  # the ratio of the two capacities
PARTS = 4  # of the rounds in which leaks are detected; one-time allocations happen in earlier rounds
FEWEST_ROUNDS = 4
UNSEEN = 64 << 10  # bytes by which a part may grow within the measurement error


def _status(process: int, name: str) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def fill(adapter: Adapter, spec: Spec, steps: Iterator[Step | dict], rows: int) -> None:
    add = adapter.add if spec.is_plain else adapter.add_dicts
    while some := list(itertools.islice(steps, min(rows, STEPS_A_CALL))):
        add(some)
        rows -= len(some)


def levels(adapter: Adapter, spec: Spec, recording: Workload) -> dict[str, int]:
    """Return the bytes in use at each fill level of the buffer. When it is full, a learner has drawn from it once."""
    steps, added, found = recording.stepwise(), 0, {}
    for name, share in FILLED.items():
        rows = int(share * spec.capacity)
        fill(adapter, spec, steps, rows - added)
        added, found[name] = rows, in_use()
    fill(adapter, spec, steps, rows_for(spec.capacity) - added)
    draw(adapter, spec, BATCH)
    found["full"] = in_use()
    check_full(adapter, spec.capacity)
    return found


def _measure(
    peer: str, benchmark: str, recording: Workload, capacity: int, leak_seconds: float
) -> Iterator[tuple[str, Outcome, float | None, str | None]]:
    """Yield each figure's benchmark, outcome, value and reason, in the order of `spec.figures`."""
    small = max(BATCH, capacity // SMALLER)
    if capacity < 2 * small:
        raise ValueError(f"capacity must be at least {2 * small} rows, got {capacity}")
    known = AddedRows(recording.columns, recording.fields)
    kind = registry.adapter_class(peer)
    spec = Spec(small, recording.fields, **KINDS[benchmark])
    # Memory for code that is compiled, or for anything else that is allocated on first use, must not count, so
    # measuring starts with the second buffer. Only peers that compile also warm up with a large buffer, since the other
    # peers would keep its memory and reuse it for the next buffer.
    warming = [small, capacity] if kind.contract.compiles else [small] if benchmark == "plain" else []
    for rows in [*warming, small]:
        with closing(kind.make(replace(spec, capacity=rows))) as adapter:
            before, fewer = levels(adapter, replace(spec, capacity=rows), recording), len(adapter)
        del adapter
    spec = replace(spec, capacity=capacity)
    with closing(kind.make(spec)) as adapter:
        after, more = levels(adapter, spec, recording), len(adapter)
        known.check(draw(adapter, spec, BATCH), BATCH)
        if after["full"] <= before["full"] or more <= fewer:
            raise PeerTrouble(f"{capacity} rows are too few: they use no more memory than {small} rows")
        slopes = {name: (after[name] - before[name]) / (more - fewer) for name in after}
        yield benchmark, "ok", slopes["full"], None
        asked = figures(benchmark, recording.row_bytes)
        for name in FILLED:
            if name in asked:
                yield name, "ok", max(slopes[name], 0.0), None
        if PEAK in asked:
            yield PEAK, "ok", peak_while_drawing(adapter) / PEAK_BATCH, None
        if benchmark in LEAKS:
            # A small buffer wraps many times, so that the heap settles; a large one would rarely wrap. The large buffer
            # is kept alive, so that the small one cannot reuse its memory and hide a leak.
            spec = replace(spec, capacity=small)
            with closing(registry.adapter_class(peer).make(spec)) as fresh:
                fill(fresh, spec, recording.stepwise(), rows_for(capacity))
                yield LEAKS[benchmark], *leak(fresh, spec, recording, leak_seconds)


def peak_while_drawing(adapter: Adapter) -> int:
    """Return by how many bytes the processes grow while they draw batches, according to the kernel's high-water mark.
    Each batch is held while the next one is drawn."""
    in_use()  # returns free memory to the system
    processes = family()
    before = {process: _status(process, "VmRSS") for process in processes}
    for process in processes:
        Path(f"/proc/{process}/clear_refs").write_text("5")  # resets the mark to the current size
    for _ in range(3):
        held = adapter.sample(PEAK_BATCH)  # noqa: F841
    return sum(max(0, _status(process, "VmHWM") - before[process]) for process in processes)


def leak(adapter: Adapter, spec: Spec, recording: Workload, seconds: float) -> tuple[Outcome, float | None, str | None]:
    """Return the outcome, the bytes per round that could have leaked unnoticed, and a description of any leak found.

    Memory that grows in every part of the rounds is a leak: caches and pools also grow, but then stop growing.
    """
    steps = itertools.chain.from_iterable(recording.stepwise() for _ in itertools.count())
    rounds, deadline = 0, time.monotonic() + seconds / (PARTS + 1)
    while time.monotonic() < deadline or rounds < FEWEST_ROUNDS:
        _round(adapter, spec, steps)
        rounds += 1
    use = [in_use()]
    for _ in range(PARTS):
        for _ in range(rounds):
            _round(adapter, spec, steps)
        use.append(in_use())
    growth = [after - before for before, after in itertools.pairwise(use)]
    if min(growth) <= max(UNSEEN, max(growth) / 3):
        return "ok", UNSEEN / rounds, None
    said = f"{sum(growth) / (PARTS * rounds):,.0f} B per round of {STEPS_A_CALL} rows added and {BATCH} drawn"
    return "wrong", None, f"leaks {said}: {sum(growth) / 2**20:.1f} MiB in {PARTS * rounds:,} rounds"


def _round(adapter: Adapter, spec: Spec, steps: Iterator[Step | dict]) -> None:
    fill(adapter, spec, steps, STEPS_A_CALL)
    draw(adapter, spec, BATCH)


def measure(peer: str, workload: str, benchmark: str, capacity: int, leak_seconds: float) -> Iterator[Result]:
    """Yield each figure of one kind of buffer, or the reason why there is none."""

    def result(name: str, outcome: Outcome, value: float | None, reason: str | None) -> Result:
        return Result(name, peer, workload, {"capacity": capacity}, outcome, value, reason)

    recording = workloads.load(workload, rows_for(capacity))
    left = figures(benchmark, recording.row_bytes)
    try:
        for figure in _measure(peer, benchmark, recording, capacity, leak_seconds):
            left.remove(figure[0])
            yield result(*figure)
    except Exception as error:
        outcome, reason = failure(error)
        yield from (result(name, outcome, None, reason) for name in left)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workload", required=True, choices=workloads.NAMES, metavar="NAME")
    parser.add_argument("--benchmark", choices=tuple(KINDS), default="plain", help="default: %(default)s")
    parser.add_argument("--capacity", type=int, default=1_024, help="default: %(default)s")
    parser.add_argument(
        "--leak-seconds", type=float, default=1.0, help="time for detecting leaks; default: %(default)s"
    )


def main() -> int:
    def results(args: argparse.Namespace) -> Iterator[Result]:
        return measure(args.peer, args.workload, args.benchmark, args.capacity, args.leak_seconds)

    return entry.main(SUITE, __doc__, options, results)


if __name__ == "__main__":
    sys.exit(main())
