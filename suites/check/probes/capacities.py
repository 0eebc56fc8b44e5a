"""Probes of small, odd and large capacities, at several fill levels: which rows are stored, and how evenly are they
drawn?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from adapters.base import Array
from adapters.behaviours import FAULT, HAZARD, Behaviour
from adapters.checks import SIGNIFICANCE
from suites.check.functions import NotApplicable
from suites.check.probes.probing import EVEN_DRAWS, Seen, even_draws, fit, said
from suites.check.probes.tracked import (
    COVERAGE,
    MIXED,
    OVERWRITTEN,
    UNWRITTEN,
    VALUES,
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

CAPACITIES = (7, 1, 2, 3, 64, 65, 1000)  # a script for 7 is the easiest to read
BATCHED = (3, 7, 64, 1000)
SMALL = 7  # capacities: all fill levels are looked at, whatever is found
FEW = 3  # rows: a buffer may refuse to sample so few
EVEN_CAPACITY, EVEN_FILLS = 200, (120, 200, 270)
REQUESTED, REQUESTS = 1000, (1, 2, 127, 128, 129, 513, 1000)
SCRIPT_BATCHES = 200


class StoredCount(Behaviour):
    """What `size` returns."""

    RIGHT = "right"
    ONE_FEWER = "one row fewer when full", HAZARD
    LARGER = "more than the capacity", HAZARD
    WRONG = "wrong", FAULT


class StoredRows(Behaviour):
    """Which rows can be drawn."""

    NEWEST = "exactly the newest rows"
    WITHOUT_NEXT = "never the newest row, which has no next observation yet", HAZARD
    REFUSES_SMALL = "refuses to sample at small capacities", HAZARD
    NEVER_OLDEST = "never the oldest row once full", HAZARD
    RAISES = "raises", FAULT
    NEVER_FIRST_SLOT = "never the first slot", FAULT
    NEVER_LAST_SLOT = "never the last slot", FAULT
    NEVER_NEWEST = "never the newest row", FAULT
    NEVER_SOME = "some rows never", FAULT
    OVERWRITTEN = "overwritten rows", FAULT
    UNWRITTEN = "unwritten rows", FAULT
    MIXED = "fields of different rows", FAULT


class EvenRows(Behaviour):
    """How often rows of equal probability are drawn while the buffer is partly filled, full and overwritten."""

    EVENLY = "evenly"
    UNEVENLY = "unevenly", FAULT


class BatchAdds(Behaviour):
    """Which rows can be drawn after batches that wrap around the end, or that are larger than the capacity."""

    NEWEST = "exactly the newest rows"
    REFUSES_LARGE = "refuses more rows than its capacity"
    RAISES = "raises", FAULT
    WRONG_COUNT = "another number of rows", FAULT
    NEVER_SOME = "some rows never", FAULT
    OVERWRITTEN = "overwritten rows", FAULT
    UNWRITTEN = "unwritten rows", FAULT
    MIXED = "fields of different rows", FAULT


class RequestSizes(Behaviour):
    """How many rows a batch has."""

    AS_REQUESTED = "as requested"
    REFUSED = "refuses some sizes", HAZARD
    OTHER = "another number", FAULT
    WRONG_ROWS = "rows that are not stored", FAULT


Observed = tuple[Behaviour, str, Sequence[str]]
#: Kind of `WrongRows` -> how it is called here.
WRONG: Mapping[str, StoredRows] = {
    UNWRITTEN: StoredRows.UNWRITTEN,
    OVERWRITTEN: StoredRows.OVERWRITTEN,
    MIXED: StoredRows.MIXED,
}


def stored(subject: Subject) -> dict[str, Seen]:
    """Fill buffers to 2.5 times their capacity, and look at their size and rows at several fill levels."""
    needs_rows(subject)
    sizes: list[Observed] = [(StoredCount.RIGHT, "", ())]
    rows: list[Observed] = [(StoredRows.NEWEST, "", ())]
    refused: list[Exception] = []
    levels = 0
    for kind, asked in kinds(subject).items():
        for capacity in CAPACITIES:
            try:
                buffer = Tracked(subject, capacity, **asked)
            except NotApplicable:
                raise
            except Exception as error:
                refused.append(error)
                continue
            mine: list[Observed] = []
            for fill in fills(capacity):
                nominal = f"{kind}, capacity {capacity}, {fill} rows added"
                if failed := attempt(lambda buffer=buffer, fill=fill: buffer.add(fill - buffer.added)):
                    body = filled(subject, capacity, fill, **asked)
                    mine.append((StoredRows.RAISES, f"{nominal}: add raised {said(failed)}", body))
                    break
                levels += 1
                sizes.append(_size(buffer, asked, nominal))
                mine += _rows(buffer, asked, nominal)
                if capacity > SMALL and mine and mine[-1][0] in WRONG.values():
                    break  # the rest would take long, and show the same
            rows += reversed(mine)  # a random fault is the surer, the more rows were added
    if not levels:
        raise refused[0]
    about = f"{levels} fill levels of the capacities {', '.join(map(str, CAPACITIES))}"
    counted = subject.functions.has("size")
    found = {"stored_count": worst(sizes, about, levels, StoredCount)} if counted else {}
    return found | {"stored_rows": worst(rows, about, levels, StoredRows)}


def needs_rows(subject: Subject) -> None:
    if subject.functions.evicts_episodes:
        raise NotApplicable("whole episodes are overwritten, so fewer rows than the capacity may be stored")


def fills(capacity: int) -> list[int]:
    """Return the numbers of rows after which a buffer of this capacity is looked at."""
    levels = {capacity // 2, capacity, capacity + 1, capacity * 5 // 2}
    if capacity < CAPACITIES[-1]:
        levels |= {1, capacity - 1, capacity * 3 // 2, 2 * capacity - 1, 2 * capacity}
    return sorted(levels - {0})


def _size(buffer: Tracked, asked: Mapping[str, object], nominal: str) -> Observed:
    """Compare the size. A buffer that keeps fewer or more rows is from now on compared with the rows that it keeps."""
    if not buffer.subject.functions.has("size"):
        return StoredCount.RIGHT, "", ()
    size, right = len(buffer.buffer), min(buffer.added, buffer.capacity)
    body = [*filled(buffer.subject, buffer.capacity, buffer.added, **asked), f"assert size(b) == {right}, size(b)"]
    about = f"{nominal}: size is {size}, expected {right}"
    needs_next = not buffer.subject.functions.accepts("add", "next_obs")
    if size == right or (needs_next and size == right - 1):
        return StoredCount.RIGHT, "", ()
    if buffer.added > buffer.capacity and size == buffer.capacity - 1 > 0:
        buffer.capacity = size
        return StoredCount.ONE_FEWER, about, body
    if buffer.capacity < size <= buffer.added:
        buffer.capacity = size
        return StoredCount.LARGER, about, body
    return StoredCount.WRONG, about, body


def _rows(buffer: Tracked, asked: Mapping[str, object], nominal: str) -> list[Observed]:
    """Return which rows are drawn; nothing if the buffer refuses to sample the few rows that it has."""
    held, few = buffer.held, len(buffer.held) <= FEW
    if len(held) == 1 and not buffer.subject.functions.accepts("add", "next_obs"):
        return []  # the row has no next one yet, and what such a buffer returns is seen by `empty`
    size = min(len(held), 64)
    begin = filled(buffer.subject, buffer.capacity, buffer.added, **asked)
    batches = int(len(held) * (np.log(len(held)) + COVERAGE)) // size + 1
    body = [*begin, *exactly(held, size, batches)]
    try:
        counts = buffer.cover()
    except WrongRows as error:
        return [(WRONG[error.kind], f"{nominal}: {error}", [*begin, *exactly(held, size, batches, error)])]
    except Exception as error:
        about = f"{nominal}: sample raised {said(error)}"
        if not few:
            return [(StoredRows.RAISES, about, body)]
        return [(StoredRows.REFUSES_SMALL, about, body)] if buffer.added >= buffer.capacity else []
    never = held[counts == 0]
    if not len(never):
        return []
    more = f" and {len(never) - 1} more" if len(never) > 1 else ""
    about = f"{nominal}: row {never[0]}{more} of {len(held)} was not drawn in {counts.sum():,} draws"
    return [(_never(buffer, never), about, body)]


def _never(buffer: Tracked, never: Array) -> StoredRows:
    held, capacity = buffer.held, buffer.capacity
    ends = {int(held[0]), int(held[-1])}
    if not buffer.subject.functions.accepts("add", "next_obs") and held[-1] in never and {*never.tolist()} <= ends:
        return StoredRows.WITHOUT_NEXT
    if len(never) > 1:
        return StoredRows.NEVER_SOME
    if never[0] == held[0] and len(held) == capacity > 1:
        return StoredRows.NEVER_OLDEST  # or a slot, which another fill level shows
    if (never[0] - 1) % capacity == capacity - 1:
        return StoredRows.NEVER_LAST_SLOT
    if never[0] == held[-1]:
        return StoredRows.NEVER_NEWEST
    return StoredRows.NEVER_FIRST_SLOT if (never[0] - 1) % capacity == 0 else StoredRows.NEVER_SOME


#: How rows are grouped: name -> the group of row `n` in a ring of `c`, of which `m` is the middle one, as in scripts.
GROUPS: Mapping[str, str] = {
    "all rows": "n - {first}",
    "the first and second half of the slots": "(n - 1) % {capacity} >= {half}",
    "older and newer rows": "n > {middle}",
    "even and odd slots": "(n - 1) % {capacity} % 2",
    "the others, the oldest and the newest row": "(n == {first}) + 2 * (n == {last})",
    "the others, the first and the last slot": "((n - 1) % {capacity} == 0) + 2 * ((n - 1) % {capacity} == {end})",
    "the first and last quarters, and the middle": "((n - 1) % {capacity} - {half}) // {quarter} % 4 % 3",
}


def even(subject: Subject) -> dict[str, Seen]:
    """Compare how often rows were drawn that are equally likely, one by one and in groups."""
    needs_rows(subject)
    found: list[Observed] = []
    draws = even_draws(subject.setting)
    for kind, asked in kinds(subject).items():
        buffer = Tracked(subject, EVEN_CAPACITY, **asked)
        for fill in EVEN_FILLS:
            buffer.add(fill - buffer.added)
            size = len(buffer.held) // 4
            try:
                counts = buffer.count_alike(draws, size)
            except WrongRows as error:
                body = [
                    *filled(subject, EVEN_CAPACITY, fill, **asked),
                    *exactly(buffer.held, size, SCRIPT_BATCHES, error),
                ]
                found.append((EvenRows.UNEVENLY, f"{kind}, {fill} rows added: {error}", body))
                break
            found += [
                _group(buffer, asked, f"{kind}, {fill} of {EVEN_CAPACITY} rows added", name, counts, size)
                for name in GROUPS
            ]
    about = f"{len(found)} tests of {draws:,} draws"
    return {"even_rows": worst(found, about, draws * len(found), EvenRows)}


def _group(buffer: Tracked, asked: Mapping[str, object], nominal: str, name: str, counts: Array, size: int) -> Observed:
    held, capacity = buffer.held, buffer.capacity
    values = {
        "first": int(held[0]),
        "last": int(held[-1]),
        "end": min(len(held), capacity) - 1,
        "capacity": capacity,
        "half": min(len(held), capacity) // 2,
        "quarter": max(1, len(held) // 4),
        "middle": int(held[len(held) // 2]),
    }
    group = GROUPS[name].format(**values)
    place: Callable[[Array], Array] = lambda n: np.asarray(eval(group, {"n": n})).astype(np.int64)  # noqa: E731
    never = held[counts == 0]
    drawable = counts >= (1 if len(never) and _known_never(buffer, never) else 0)
    groups = place(held)
    rows = np.bincount(groups[drawable], minlength=groups.max() + 1)
    drawn_rows = np.bincount(groups, weights=counts)
    present = rows > 0
    p = fit(drawn_rows[present], rows[present] / rows.sum())
    if p > SIGNIFICANCE:
        return EvenRows.EVENLY, "", ()
    shares = ", ".join(f"{share:.1%}" for share in drawn_rows[present][:3] / counts.sum())
    about = f"{nominal}: {name} were not drawn evenly in {counts.sum():,} draws (p = {p:.1g}; {shares})"
    batches = int(max(1.5 * counts.sum(), 2 * EVEN_DRAWS)) // size
    body = [
        *filled(buffer.subject, capacity, buffer.added, **asked),
        f"n, h = {drawn(size, batches)}.astype(int), np.arange({held[0]}, {held[-1] + 1})",
        f"c, e = (np.bincount(np.int64({group}), minlength={len(rows)}) / len(n) for n in (n, h))",
        "assert (np.abs(c - e) < 6 * np.sqrt(e / len(n)) + 1e-9).all(), (c, e)",
    ]
    return EvenRows.UNEVENLY, about, body


def batches(subject: Subject) -> dict[str, Seen]:
    """Add batches that wrap around the end, that are larger than the capacity, and of a single row."""
    subject.functions.require("add_batch")
    found: list[Observed] = [(BatchAdds.NEWEST, "", ())]
    added = 0
    for kind, asked in kinds(subject).items():
        for capacity in BATCHED:
            for observed in _in_batches(subject, kind, asked, capacity):
                found.append(observed)
                added += 1
    about = f"{added} batches added to the capacities {', '.join(map(str, BATCHED))}: exactly the newest rows drawn"
    return {"batch_adds": worst(found, about, added, BatchAdds)}


def _in_batches(subject: Subject, kind: str, asked: Mapping[str, object], capacity: int) -> Iterator[Observed]:
    buffer, starts = Tracked(subject, capacity, **asked), [1]
    part = capacity // 2 + 1
    for rows in (1, part, part, capacity - 1, capacity, capacity + 1, 1, 2 * capacity + 3, 2):
        nominal = f"{kind}, capacity {capacity}, {rows} rows added after {buffer.added}"
        starts.append(starts[-1] + rows)
        body = _batch_script(buffer, asked, starts)
        error = attempt(lambda rows=rows: buffer.add_batch(rows))
        if error is not None:
            starts.pop()
            word = BatchAdds.REFUSES_LARGE if rows > capacity else BatchAdds.RAISES
            yield word, f"{nominal}: {said(error)}", body
            if word is BatchAdds.RAISES:
                return
        yield _after_batch(buffer, asked, nominal, starts)


def _after_batch(buffer: Tracked, asked: Mapping[str, object], nominal: str, starts: Sequence[int]) -> Observed:
    held, begin = buffer.held, _batch_script(buffer, asked, starts)
    if buffer.subject.functions.has("size") and len(buffer.buffer) != len(held):
        about = f"{nominal}: size is {len(buffer.buffer)}, expected {len(held)}"
        return BatchAdds.WRONG_COUNT, about, [*begin, f"assert size(b) == {len(held)}, size(b)"]
    size = min(len(held), 64)
    often = int(len(held) * (np.log(len(held)) + COVERAGE)) // size + 1
    try:
        counts = buffer.cover()
    except WrongRows as error:
        return BatchAdds[WRONG[error.kind].name], f"{nominal}: {error}", [*begin, *exactly(held, size, often, error)]
    except Exception as error:
        if len(held) <= FEW:
            return BatchAdds.NEWEST, "", ()
        return BatchAdds.RAISES, f"{nominal}: sample raised {said(error)}", [*begin, f"sample(b, {size})"]
    never = held[counts == 0]
    if len(never) and not _known_never(buffer, never):
        about = f"{nominal}: row {never[0]} (and {len(never) - 1} more) was not drawn in {counts.sum():,} draws"
        return BatchAdds.NEVER_SOME, about, [*begin, *exactly(held, size, often)]
    return BatchAdds.NEWEST, "", ()


def _known_never(buffer: Tracked, never: Array) -> bool:
    """Return whether the missing row would also be missing if rows were added one by one (`stored_rows`)."""
    return _never(buffer, never) in (StoredRows.WITHOUT_NEXT, StoredRows.NEVER_OLDEST)


def _batch_script(buffer: Tracked, asked: Mapping[str, object], starts: Sequence[int]) -> list[str]:
    parts = f"np.split(np.arange(1, {starts[-1]}), {[start - 1 for start in starts[1:-1]]})"
    return [f"b = {made(buffer.subject, buffer.capacity, **asked)}", f"for i in {parts}: {add_batch(buffer.subject)}"]


def requests(subject: Subject) -> dict[str, Seen]:
    """Request batches of one row, of all stored rows, and of sizes around powers of two."""
    found: list[Observed] = [(RequestSizes.AS_REQUESTED, "", ())]
    looked_at = 0
    for kind, asked in kinds(subject).items():
        for capacity, sizes in ((REQUESTED, REQUESTS), (65, (1, 33, 64, 65)), (7, (1, 7))):
            buffer = Tracked(subject, capacity, **asked)
            buffer.add(capacity * 3 // 2)
            for size in sizes:
                found.append(_request(buffer, asked, f"{kind}, capacity {capacity}", size))
                looked_at += 1
    about = f"{looked_at} batches, of 1 row to all {REQUESTED} stored rows"
    return {"request_sizes": worst(found, about, looked_at, RequestSizes)}


def _request(buffer: Tracked, asked: Mapping[str, object], nominal: str, size: int) -> Observed:
    begin = filled(buffer.subject, buffer.capacity, buffer.added, **asked)
    lengths = ", ".join(f'len(x["{name}"])' for name in VALUES if name in ("obs", "act", "rew"))
    body = [*begin, f"x = sample(b, {size})", f"assert {{{lengths}}} == {{{size}}}, ({lengths})"]
    try:
        batch = buffer.batch(size)
    except Exception as error:
        return RequestSizes.REFUSED, f"{nominal}: {size} rows requested: {said(error)}", body
    rows = {name: len(np.atleast_1d(batch[name])) for name in VALUES if name in batch}
    odd = [name for name in rows if rows[name] != size]
    if odd:
        return RequestSizes.OTHER, f"{nominal}: {size} rows requested, {odd[0]} has {rows[odd[0]]}", body
    try:
        buffer.numbers(batch)
    except WrongRows as error:
        body = [*begin, *exactly(buffer.held, size, SCRIPT_BATCHES, error)]
        return RequestSizes.WRONG_ROWS, f"{nominal}: {size} rows requested: {error}", body
    return RequestSizes.AS_REQUESTED, "", ()


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {
    stored: ("stored_count", "stored_rows"),
    even: ("even_rows",),
    batches: ("batch_adds",),
    requests: ("request_sizes",),
}
CHECKS: Mapping[str, type[Behaviour]] = {
    "stored_count": StoredCount,
    "stored_rows": StoredRows,
    "even_rows": EvenRows,
    "batch_adds": BatchAdds,
    "request_sizes": RequestSizes,
}
