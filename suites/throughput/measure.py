"""Throughput of one process: single calls, a learner's whole step, and sampling as a learner does it.

add, add_dicts, add_lists      adding, in the forms a loop has its transitions in
sample                         uniform sampling
prioritized                    a prioritized sample and the update of its priorities
learner_step                   some transitions added one by one, a prioritized sample, the update of its priorities
learner_step_uniform           the same on a uniform buffer, which has no priorities to update
sample_beside                  how long the learner is blocked in `sample` when it works between samples
sample_held                    uniform sampling while the newest batches are kept
compressed_add, compressed_sample   where frames are stored once

    python -m pytest suites/throughput/measure.py --peer NAME --workload NAME [--benchmark-json=FILE]

Buffers are full and wrap while they are timed, every call gets other rows than the one before it,
and new priorities are never those that the rows had. A wrong answer has no time: each benchmark
checks what comes back before it starts the clock.
Every loop stands beside the peer's own calls, so that hardly anything of the harness is in a figure. In
pytest-benchmark's own table a round is many calls: the figure for one is in the JSON's extra_info.
"""

from __future__ import annotations

import collections
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from adapters import checks, registry
from adapters.base import Adapter, Columns, Spec, Step
from suites.runner.filling import TooSlow, fill
from suites.runner.results import failure
from suites.throughput.jobs import THROUGHPUT
from suites.workloads import Workload

STEPS_A_CALL = 64  # of an adapter, which loops over them
BATCHES_A_CALL, BYTES_A_CALL = 20, 1 << 20  # likewise, and at most so many bytes of them
LARGEST_LISTED_ROW = 1_000  # bytes
ROUND_SECONDS = 0.002  # the timer's own cost is then below a ten-thousandth
BESIDE_CALLS, BESIDE_ROUNDS = 10, 5  # calls per round, and the fewest rounds, of sample_beside
LEARNER_BYTES, LEARNER_PIECES = 8 << 20, 16  # the memory that the stand-in for a learner works on
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
    except Exception as error:
        if failure(error)[0] == "skipped":
            pytest.skip(str(error))
        raise
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
def note(benchmark, request: pytest.FixtureRequest) -> Callable[[float], None]:
    """Record the figure of this cell."""

    def record(value: float) -> None:
        unit = THROUGHPUT[request.node.originalname.removeprefix("test_")]
        benchmark.extra_info.update(value=value, unit=unit)

    return record


@pytest.fixture
def seconds(pytestconfig: pytest.Config) -> float:
    """Time to spend on the cell."""
    return pytestconfig.getoption("--seconds")


@pytest.fixture
def timed(benchmark, note: Callable[[float], None], seconds: float) -> Timed:
    """Time `run(n)`, which makes n calls, for `seconds`, and note the median seconds for each of a call's `units`."""

    def measure(run: Callable[[int], None], units: int) -> None:
        if benchmark.disabled:
            return
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
        note(benchmark.stats.stats.median / (calls * units))

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
        pytest.skip("nested lists of whole frames: no program has them, and they take eight times the memory")
    at_once = _batches_a_call(recording, batch)
    lists = [Step(*(column.tolist() for column in columns)) for columns in recording.batches(batch)]
    _time_adding(timed, known, uniform, uniform.add_lists, zip(_over_and_over(lists, at_once)), at_once * batch)


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


@pytest.mark.usefixtures("only_steps")
def test_learner_step(
    timed, batch: int, sizes: dict[str, int], steps: list, known: checks.AddedRows, prioritized: Adapter
) -> None:
    step, added = prioritized.learner_step, _over_and_over(steps, sizes["adds"])
    priorities = itertools.cycle(_priority_sets(batch))

    def run(count: int) -> Columns:
        for some, fresh in itertools.islice(zip(added, priorities, strict=True), count):
            held = step(some, batch, fresh)
        return held

    known.check(run(1), batch)
    timed(run, 1)


@pytest.mark.usefixtures("only_steps")
def test_learner_step_uniform(
    timed, batch: int, sizes: dict[str, int], steps: list, known: checks.AddedRows, uniform: Adapter
) -> None:
    step, added = uniform.learner_step_uniform, _over_and_over(steps, sizes["adds"])

    def run(count: int) -> Columns:
        for some in itertools.islice(added, count):
            held = step(some, batch)
        return held

    known.check(run(1), batch)
    timed(run, 1)


def _stand_in(seconds: float) -> Callable[[], None]:
    """Work for so long, going over all of 8 MB at least once: what a buffer had in the caches is gone by then.

    As a learner's matrix products do, NumPy releases the interpreter's lock meanwhile; threads of the peer can run.
    """
    pieces = np.ones(LEARNER_BYTES // 8).reshape(LEARNER_PIECES, -1)

    def work() -> None:
        end = time.perf_counter() + seconds
        for number in itertools.count():
            if number >= LEARNER_PIECES and time.perf_counter() >= end:
                return
            piece = pieces[number % LEARNER_PIECES]
            np.negative(piece, out=piece)

    return work


def test_sample_beside(
    benchmark, note, seconds: float, batch: int, sizes: dict[str, int], known: checks.AddedRows, uniform: Adapter
) -> None:
    sample, work = uniform.sample, _stand_in(sizes["work_ms"] / 1_000)
    blocked: list[float] = []  # per call, the mean of each round: a batch that was fetched ahead comes at once

    def run() -> None:
        spent = 0.0
        for _ in range(BESIDE_CALLS):
            work()
            begin = time.perf_counter()
            held = sample(batch)  # noqa: F841 (a learner works on one batch, and holds it while it asks for the next)
            spent += time.perf_counter() - begin
        blocked.append(spent / BESIDE_CALLS)

    known.check(sample(batch), batch)
    if benchmark.disabled:
        return
    begin = time.perf_counter()
    run()
    rounds = round(seconds / (time.perf_counter() - begin))
    blocked.clear()
    benchmark.pedantic(run, rounds=max(BESIDE_ROUNDS, rounds))
    note(statistics.median(blocked))


def test_sample_held(timed, batch: int, sizes: dict[str, int], known: checks.AddedRows, uniform: Adapter) -> None:
    sample = uniform.sample
    kept = collections.deque((sample(batch) for _ in range(sizes["held"])), maxlen=sizes["held"])
    for each in kept:
        known.check(each, batch)
    del each  # else it is held as well

    def run(count: int) -> None:
        for _ in range(count):
            kept.append(sample(batch))

    timed(run, 1)


def test_compressed_add(timed, batch: int, frames: Workload, compressed: Adapter) -> None:
    known = checks.AddedRows(frames.columns, frames.fields)
    calls = zip(_over_and_over(frames.steps(), STEPS_A_CALL))
    _time_adding(timed, known, compressed, compressed.add, calls, STEPS_A_CALL)


def test_compressed_sample(timed, batch: int, frames: Workload, compressed: Adapter) -> None:
    _time_sampling(timed, checks.AddedRows(frames.columns, frames.fields), compressed, batch)
