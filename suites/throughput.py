"""Throughput of one process: add, sample, and the prioritized learner's cycle of sample and update.

    python -m pytest suites/throughput.py --peer NAME --workload NAME [--benchmark-json=FILE]

Buffers are full and wrap while they are timed, every call gets other rows than the one before it,
and new priorities are never those that the rows had. A wrong answer has no time: each benchmark
checks what comes back before it starts the clock.
In pytest-benchmark's own table a call of test_add[1-...] is STEPS_A_CALL transitions; the figure for
one transition is in the JSON's extra_info.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from adapters import checks, registry
from adapters.base import Adapter, Columns, Spec, Unavailable, WrongAnswer
from suites.cells import THROUGHPUT
from suites.workloads import Workload

FILL_ROWS = 1_000  # a call while filling
STEPS_A_CALL = 64  # for add of one: the adapter loops over these, so that the harness's call is not in the figure
ROUND_SECONDS = 0.002  # of a round of the inner loop; the timer's own cost is then below a ten-thousandth
CHECKED_ROWS, CHECKED_BATCHES = 32, 100  # enough to tell a wrong distribution, in well under a second
PRIORITY_SETS = 1_021  # prime, so that the cycle of sets never falls into step with anything


def _filled(peer: str, recording: Workload, capacity: int, prioritized: bool) -> Iterator[Adapter]:
    """The peer's buffer, filled once over with the recording; closed when the tests are done with it.

    Priorities are checked while it is still empty; the rows added for that are overwritten by the filling.
    """
    try:
        adapter_class = registry.adapter_class(peer)
        adapter_class.version()
        spec = Spec(capacity, recording.fields, prioritized)
        adapter = adapter_class(spec)
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        if prioritized:
            checks.check_priorities(adapter, spec, rows=CHECKED_ROWS, batches=CHECKED_BATCHES)
        random = np.random.default_rng(0)
        pieces, added = _batches(recording, min(FILL_ROWS, capacity)), 0
        while added < capacity:
            columns = next(pieces)
            rows = len(columns["done"])
            adapter.add_batch(columns, random.uniform(0.01, 1.0, rows) if prioritized else None)
            added += rows
        if len(adapter) != capacity:
            raise WrongAnswer(f"size: {len(adapter)} rows stored of {added} added, expected {capacity}")
        yield adapter
    finally:
        adapter.close()


@pytest.fixture(scope="module")
def uniform(peer: str, recording: Workload, capacity: int) -> Iterator[Adapter]:
    yield from _filled(peer, recording, capacity, prioritized=False)


@pytest.fixture(scope="module")
def prioritized(peer: str, recording: Workload, capacity: int) -> Iterator[Adapter]:
    yield from _filled(peer, recording, capacity, prioritized=True)


@pytest.fixture(scope="module")
def known(recording: Workload) -> checks.AddedRows:
    return checks.AddedRows(recording.columns, recording.fields)


@pytest.fixture(scope="module")
def steps(recording: Workload) -> list:
    return recording.steps()


def _batches(recording: Workload, rows: int) -> Iterator[Columns]:
    """The whole recording over and over, `rows` at a time; a last piece that is too short is left out."""
    rows = min(rows, recording.transitions)
    starts = range(0, recording.transitions - rows + 1, rows)
    pieces = [{key: column[at : at + rows] for key, column in recording.columns.items()} for at in starts]
    return itertools.cycle(pieces)


def _fresh_priorities(rows: int) -> Iterator[np.ndarray]:
    random = np.random.default_rng(1)
    return itertools.cycle(list(random.uniform(0.01, 1.0, (PRIORITY_SETS, rows))))


@pytest.fixture
def timed(benchmark, request: pytest.FixtureRequest) -> Callable[[Callable[[], None], int], None]:
    """Time a call for `--seconds`, and note the median seconds for each of its `units`."""

    def measure(call: Callable[[], None], units: int) -> None:
        if benchmark.disabled:
            return
        seconds = request.config.getoption("--seconds")
        call()
        calls, spent = 1, 0.0
        while spent < seconds / 10:
            calls = 2 * calls if spent else 1
            start = time.perf_counter()
            for _ in range(calls):
                call()
            spent = time.perf_counter() - start
        iterations = max(1, round(ROUND_SECONDS * calls / spent))
        rounds = max(5, round(seconds * calls / (spent * iterations)))
        benchmark.pedantic(call, rounds=rounds, iterations=iterations)
        unit = THROUGHPUT[request.node.originalname.removeprefix("test_")][1]
        benchmark.extra_info.update(value=benchmark.stats.stats.median / units, unit=unit)

    return measure


def test_add(timed, batch: int, recording: Workload, steps: list, known: checks.AddedRows, uniform: Adapter) -> None:
    if batch == 1:
        pieces = itertools.cycle(
            [steps[at : at + STEPS_A_CALL] for at in range(0, len(steps) - STEPS_A_CALL + 1, STEPS_A_CALL)]
        )
        rows, add = STEPS_A_CALL, uniform.add
    else:
        pieces = _batches(recording, batch)
        rows, add = batch, uniform.add_batch
    add(next(pieces))
    known.check(uniform.sample(CHECKED_ROWS), CHECKED_ROWS)
    timed(lambda: add(next(pieces)), rows)


def test_sample(timed, batch: int, known: checks.AddedRows, uniform: Adapter) -> None:
    held = uniform.sample(batch)
    known.check(held, batch)

    def sample() -> None:
        nonlocal held  # a learner still holds one batch while it asks for the next
        held = uniform.sample(batch)

    timed(sample, 1)


def test_prioritized(timed, batch: int, known: checks.AddedRows, prioritized: Adapter) -> None:
    priorities = _fresh_priorities(batch)
    held: Columns = {}

    def cycle() -> None:
        nonlocal held
        held = prioritized.sample(batch)
        prioritized.update_priorities(held["indexes"], next(priorities))

    cycle()
    known.check(held, batch)
    timed(cycle, 1)
