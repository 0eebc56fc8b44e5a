"""A probe of rows that an index of 16 bits cannot reach: are they stored whole, and drawn as often as others?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from adapters.base import Array
from adapters.behaviours import FAULT, Behaviour
from adapters.checks import SIGNIFICANCE
from suites.check.functions import NotApplicable
from suites.check.probes.capacities import Observed, needs_rows
from suites.check.probes.probing import USUAL_DRAWS, Seen, fit, said
from suites.check.probes.tracked import (
    MIXED,
    Tracked,
    WrongRows,
    add_batch,
    attempt,
    drawn,
    exactly,
    filled,
    kinds,
    worst,
)
from suites.check.reproduction import made
from suites.check.subject import Subject

CAPACITY, ROWS = 2**16 + 1_000, 2**16 + 2_064
FEWEST = 2**15 + 1_000  # rows: those beyond the 32,768th cannot be reached by a signed index
ADDED = 100  # rows of an added batch; divides ROWS but not CAPACITY, so that a batch wraps
SIZE = 256
SHARE = 0.08  # of the time for all checks, for adding as well as for drawing
TRIED = 0.2  # of the time for adding: a buffer that is too slow to add FEWEST is noticed then
SCRIPT_BATCHES = 200
BLOCK = "(n - 1) % {capacity} // 2**15"  # of the slot of row n: only the last is beyond the 65,536th
SHORT = "{rows:,} rows are added only in a usual or long check"
SLOW = "adding is too slow: {added:,} rows in {seconds:.1f} seconds"
REFUSED = "no buffer of {capacity:,} rows can be made: {error}"


class ManyRows(Behaviour):
    """Which rows can be drawn from a buffer of more than 65,536 rows."""

    NEWEST = "only the newest rows"
    RAISES = "raises", FAULT
    UNEVENLY = "some more often than others", FAULT
    OVERWRITTEN = "overwritten rows", FAULT
    UNWRITTEN = "unwritten rows", FAULT
    MIXED = "fields of different rows", FAULT


def many(subject: Subject) -> dict[str, Seen]:
    """Add more rows than 16 bits can count, and draw some of them."""
    needs_rows(subject)
    if subject.setting.draws < USUAL_DRAWS:
        raise NotApplicable(SHORT.format(rows=ROWS))
    every, refused = kinds(subject), []
    found: list[Observed] = []
    about, looked_at = [], 0
    for kind, asked in every.items():
        try:
            buffer = _made(subject, asked)
            observed, rows = _observed(buffer, kind, subject.setting.seconds * SHARE / len(every))
        except NotApplicable as reason:
            refused.append(reason)
            continue
        found.append(observed)
        about.append(f"{kind}: {buffer.added:,} rows added, {rows:,} drawn")
        looked_at += rows
    if not found:
        raise refused[0]
    return {"many_rows": worst(found, "; ".join(about), looked_at, ManyRows)}


def _made(subject: Subject, asked: Mapping[str, object]) -> Tracked:
    try:
        return Tracked(subject, CAPACITY, **asked)
    except NotApplicable:
        raise
    except Exception as error:
        raise NotApplicable(REFUSED.format(capacity=CAPACITY, error=said(error))) from error


def _observed(buffer: Tracked, kind: str, seconds: float) -> tuple[Observed, int]:
    """Return what was observed, and the number of rows that were drawn."""
    error = attempt(lambda: _fill(buffer, seconds))
    nominal = f"{kind}, capacity {CAPACITY:,}, {buffer.added:,} rows added"
    begin = _begin(buffer, ROWS if error else buffer.added)
    if error:
        return (ManyRows.RAISES, f"{nominal}: the next add raised {said(error)}", begin), 0
    if buffer.added > CAPACITY and buffer.subject.functions.has("size"):
        buffer.capacity = max(CAPACITY, len(buffer.buffer))  # if it keeps more rows, `stored_count` says so
    batches: list[Array] = []
    try:
        error = attempt(lambda: batches.extend(_drawn(buffer, seconds)))
    except WrongRows as wrong:
        body = [*begin, *_within(buffer.held, wrong)]
        return (ManyRows[wrong.kind.upper()], f"{nominal}: {wrong}", body), SIZE
    if error:
        body = [*begin, f"for _ in range({SCRIPT_BATCHES}): sample(b, {SIZE})"]
        return (ManyRows.RAISES, f"{nominal}: sample raised {said(error)}", body), 0
    numbers = np.concatenate(batches)
    return _blocks(buffer, numbers, nominal, begin), len(numbers)


def _fill(buffer: Tracked, seconds: float) -> None:
    """Add rows for so many seconds. Raises `NotApplicable` if they are too few."""
    add = buffer.add_batch if buffer.subject.functions.has("add_batch") else buffer.add
    add(ADDED)  # which may compile the buffer's functions
    began, spent = time.perf_counter(), 0.0
    while buffer.added < ROWS and spent < seconds:
        add(ADDED)
        spent = time.perf_counter() - began
        if buffer.added < FEWEST * spent / seconds and spent > TRIED * seconds:
            raise NotApplicable(SLOW.format(added=buffer.added - ADDED, seconds=spent))


def _drawn(buffer: Tracked, seconds: float) -> Iterator[Array]:
    """Yield the numbers of the rows in batches, at least of one. Raises `WrongRows`."""
    end = time.perf_counter() + seconds
    for _ in range(-(-buffer.subject.setting.draws // SIZE)):
        yield buffer.sample(SIZE)[0]
        if time.perf_counter() > end:
            break


def _blocks(buffer: Tracked, numbers: Array, nominal: str, begin: Sequence[str]) -> Observed:
    """Compare how often rows of the first, second and third 32,768 slots were drawn."""
    block, held = BLOCK.format(capacity=buffer.capacity), buffer.held
    rows, counts = (np.bincount(eval(block, {"n": n}), minlength=3) for n in (held, numbers))
    present = rows > 0
    p = fit(counts[present], rows[present] / len(held))
    if p > SIGNIFICANCE:
        return ManyRows.NEWEST, "", ()
    shares = ", ".join(f"{share:.2%}" for share in counts / len(numbers))
    about = f"{nominal}: slots by 32,768 were not drawn evenly in {len(numbers):,} draws (p = {p:.1g}; {shares})"
    batches = max(SCRIPT_BATCHES, 2 * len(numbers) // SIZE)
    body = [
        *begin,
        f"n, h = {drawn(SIZE, batches)}.astype(int), np.arange({held[0]}, {held[-1] + 1})",
        f"c, e = (np.bincount({block}, minlength=3) / len(n) for n in (n, h))",
        "assert (np.abs(c - e) < 6 * np.sqrt(e / len(n)) + 1e-9).all(), (c, e)",
    ]
    return ManyRows.UNEVENLY, about, body


def _begin(buffer: Tracked, rows: int) -> list[str]:
    """Return lines that make a buffer `b`, and add rows as the probe does."""
    subject = buffer.subject
    if not subject.functions.has("add_batch"):
        return filled(subject, CAPACITY, rows, **buffer.asked)
    parts = f"np.arange(1, {rows + 1}).reshape(-1, {ADDED})"
    return [f"b = {made(subject, CAPACITY, **buffer.asked)}", f"for i in {parts}: {add_batch(subject)}"]


def _within(held: Array, error: WrongRows) -> list[str]:
    """Return lines that fail if a row is drawn that must not be stored."""
    if error.kind == MIXED:
        return exactly(held, SIZE, SCRIPT_BATCHES, error)
    return [
        f"n = {drawn(SIZE, SCRIPT_BATCHES)}",
        f"assert {held[0]} <= n.min() and n.max() <= {held[-1]}, (n.min(), n.max())",
    ]


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {many: ("many_rows",)}
CHECKS: Mapping[str, type[Behaviour]] = {"many_rows": ManyRows}
