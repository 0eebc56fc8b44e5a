"""Throughput of one process: add in the forms a loop has, sample, and the prioritized learner's cycle of sample
and update; both again where frames are stored once.

    python -m pytest suites/throughput.py --peer NAME --workload NAME [--benchmark-json=FILE]

Buffers are full and wrap while they are timed, every call gets other rows than the one before it,
and new priorities are never those that the rows had. A wrong answer has no time: each benchmark
checks what comes back before it starts the clock.
Every loop stands beside the peer's own calls, so that hardly anything of the harness is in a figure. In
pytest-benchmark's own table a round is many calls: the figure for one is in the JSON's extra_info.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from adapters import checks, registry
from adapters.base import Adapter, Columns, Spec, Step, Unavailable
from suites.cells import THROUGHPUT
from suites.filling import TooSlow, fill
from suites.workloads import Workload

STEPS_A_CALL = 64  # of an adapter, which loops over them
BATCHES_A_CALL, BYTES_A_CALL = 20, 1 << 20  # likewise, and at most so many bytes of them
LARGEST_LISTED_ROW = 1_000  # bytes
ROUND_SECONDS = 0.002  # the timer's own cost is then below a ten-thousandth
CHECKED_ROWS, CHECKED_BATCHES = 32, 100  # enough to tell a wrong distribution, in well under a second
PRIORITY_SETS = 1_021  # prime, so that the cycle of sets never falls into step with anything

Timed = Callable[[Callable[[int], None], int], None]


def _filled(peer: str, recording: Workload, capacity: int, seconds: float, **asked: bool) -> Iterator[Adapter]:
    """The peer's buffer, filled once over with the recording; closed when the tests are done with it.

    Priorities are checked while it is still empty; the rows added for that are overwritten by the filling.
    """
    spec = Spec(capacity, recording.fields, **asked)
    try:
        adapter = registry.adapter_class(peer).make(spec)
    except (Unavailable, NotImplementedError) as reason:
        pytest.skip(str(reason))
    try:
        if spec.prioritized:
            checks.check_priorities(adapter, spec, rows=CHECKED_ROWS, batches=CHECKED_BATCHES)
        try:
            fill(adapter, spec, recording, seconds)
        except TooSlow as reason:
            pytest.skip(str(reason))
        yield adapter
    finally:
        adapter.close()


@pytest.fixture(scope="module")
def uniform(peer: str, recording: Workload, capacity: int, fill_seconds: float) -> Iterator[Adapter]:
    yield from _filled(peer, recording, capacity, fill_seconds)


@pytest.fixture(scope="module")
def prioritized(peer: str, recording: Workload, capacity: int, fill_seconds: float) -> Iterator[Adapter]:
    yield from _filled(peer, recording, capacity, fill_seconds, prioritized=True)


@pytest.fixture(scope="module")
def frames(recording: Workload) -> Workload:
    """The recording, cut where a call ends, with the end of an episode there: it begins again with another one."""
    if recording.stack == 1:
        pytest.skip(f"{recording.name} has no stacked frames")
    rows = recording.transitions // STEPS_A_CALL * STEPS_A_CALL
    columns = {key: column[:rows] for key, column in recording.columns.items()}
    columns["done"] = columns["done"].copy()
    columns["done"][-1] = True
    return replace(recording, columns=columns)


@pytest.fixture(scope="module")
def compressed(peer: str, frames: Workload, capacity: int, fill_seconds: float) -> Iterator[Adapter]:
    yield from _filled(peer, frames, capacity, fill_seconds, next_of=True, stack_compress=True)


@pytest.fixture(scope="module")
def known(recording: Workload) -> checks.AddedRows:
    return checks.AddedRows(recording.columns, recording.fields)


@pytest.fixture(scope="module")
def steps(recording: Workload) -> list:
    return recording.steps()


def _over_and_over(items: Sequence, at_once: int) -> Iterator[Sequence]:
    """All items again and again, so many at a time; a last piece that is too short is left out."""
    starts = range(0, len(items) - at_once + 1, at_once)
    return itertools.cycle([items[at : at + at_once] for at in starts])


def _batches_a_call(recording: Workload, rows: int) -> int:
    return max(1, min(BATCHES_A_CALL, BYTES_A_CALL // (rows * recording.row_bytes)))


def _priority_sets(rows: int) -> list[np.ndarray]:
    return list(np.random.default_rng(1).uniform(0.01, 1.0, (PRIORITY_SETS, rows)))


@pytest.fixture
def timed(benchmark, request: pytest.FixtureRequest) -> Timed:
    """Time `run(n)`, which makes n calls, for `--seconds`, and note the median seconds for each of a call's `units`."""

    def measure(run: Callable[[int], None], units: int) -> None:
        if benchmark.disabled:
            return
        seconds = request.config.getoption("--seconds")
        run(1)
        calls, spent = 1, 0.0
        while spent < seconds / 10:
            calls = 2 * calls if spent else 1
            start = time.perf_counter()
            run(calls)
            spent = time.perf_counter() - start
        per_call = spent / calls
        calls = max(1, round(ROUND_SECONDS / per_call))
        rounds = max(3, round(seconds / (per_call * calls)))
        benchmark.pedantic(run, args=(calls,), rounds=rounds)
        unit = THROUGHPUT[request.node.originalname.removeprefix("test_")]
        benchmark.extra_info.update(value=benchmark.stats.stats.median / (calls * units), unit=unit)

    return measure


def _time_adding(
    timed: Timed, known: checks.AddedRows, adapter: Adapter, add: Callable, calls: Iterator[tuple], rows: int
) -> None:
    """`calls` are the arguments of one call of `add` after the other, each of so many rows."""
    add(*next(calls))
    batch = adapter.sample(CHECKED_ROWS)
    known.check(batch, CHECKED_ROWS)
    if "indexes" in batch:
        adapter.update_priorities(batch["indexes"], np.ones(CHECKED_ROWS))

    def run(count: int) -> None:
        for arguments in itertools.islice(calls, count):
            add(*arguments)

    timed(run, rows)


def _time_sampling(timed: Timed, known: checks.AddedRows, adapter: Adapter, batch: int) -> None:
    sample = adapter.sample
    known.check(sample(batch), batch)

    def run(count: int) -> None:
        for _ in range(count):
            held = sample(batch)  # noqa: F841 (a learner still holds one batch while it asks for the next)

    timed(run, 1)


def test_add(timed, batch: int, recording: Workload, steps: list, known: checks.AddedRows, uniform: Adapter) -> None:
    plain = recording.is_plain
    if batch == 1:
        calls = zip(_over_and_over(steps, STEPS_A_CALL))
        _time_adding(timed, known, uniform, uniform.add if plain else uniform.add_dicts, calls, STEPS_A_CALL)
    else:
        at_once = _batches_a_call(recording, batch)
        calls = zip(_over_and_over(recording.batches(batch), at_once))
        add = uniform.add_batches if plain else uniform.add_columns
        _time_adding(timed, known, uniform, add, calls, at_once * batch)


@pytest.fixture
def only_steps(recording: Workload) -> None:
    """For the forms in which only a `Step` is added."""
    if not recording.is_plain:
        pytest.skip(f"the rows of {recording.name} have other fields than a step's: `add` stores them as dicts")


@pytest.mark.usefixtures("only_steps")
def test_add_dicts(timed, batch: int, steps: list, known: checks.AddedRows, uniform: Adapter) -> None:
    calls = zip(_over_and_over([step._asdict() for step in steps], STEPS_A_CALL))
    _time_adding(timed, known, uniform, uniform.add_dicts, calls, STEPS_A_CALL)


@pytest.mark.usefixtures("only_steps")
def test_add_lists(timed, batch: int, recording: Workload, known: checks.AddedRows, uniform: Adapter) -> None:
    if recording.row_bytes > LARGEST_LISTED_ROW:
        pytest.skip("nested lists of whole frames: nobody has them, and they take eight times the memory")
    at_once = _batches_a_call(recording, batch)
    lists = [Step(*(column.tolist() for column in columns)) for columns in recording.batches(batch)]
    _time_adding(timed, known, uniform, uniform.add_lists, zip(_over_and_over(lists, at_once)), at_once * batch)


@pytest.mark.usefixtures("only_steps")
def test_add_prioritized(timed, batch: int, steps: list, known: checks.AddedRows, prioritized: Adapter) -> None:
    priorities = itertools.cycle([fresh.tolist() for fresh in _priority_sets(STEPS_A_CALL)])
    calls = zip(_over_and_over(steps, STEPS_A_CALL), priorities, strict=True)
    _time_adding(timed, known, prioritized, prioritized.add_with_priorities, calls, STEPS_A_CALL)


def test_sample(timed, batch: int, known: checks.AddedRows, uniform: Adapter) -> None:
    _time_sampling(timed, known, uniform, batch)


def test_prioritized(timed, batch: int, known: checks.AddedRows, prioritized: Adapter) -> None:
    sample, update = prioritized.sample, prioritized.update_priorities
    priorities = itertools.cycle(_priority_sets(batch))

    def run(count: int) -> Columns:
        for fresh in itertools.islice(priorities, count):
            held = sample(batch)
            update(held["indexes"], fresh)
        return held

    known.check(run(1), batch)
    timed(run, 1)


def test_compressed_add(timed, batch: int, frames: Workload, compressed: Adapter) -> None:
    known = checks.AddedRows(frames.columns, frames.fields)
    calls = zip(_over_and_over(frames.steps(), STEPS_A_CALL))
    _time_adding(timed, known, compressed, compressed.add, calls, STEPS_A_CALL)


def test_compressed_sample(timed, batch: int, frames: Workload, compressed: Adapter) -> None:
    _time_sampling(timed, checks.AddedRows(frames.columns, frames.fields), compressed, batch)
