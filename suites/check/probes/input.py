"""Probes of wrong arguments: is the call refused, and does the buffer go on unchanged?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adapters.base import Array
from adapters.behaviours import FAULT, HAZARD, Behaviour
from adapters.checks import SIGNIFICANCE
from suites.check.functions import OPTIONS, NotApplicable
from suites.check.probes.probing import Seen, fit, own, said
from suites.check.probes.tracked import (
    DONE,
    MIXED,
    Tracked,
    WrongRows,
    adds,
    by_priority,
    drawn,
    exactly,
    filled,
    indexes_of,
    kinds,
    step,
    worst,
)
from suites.check.reproduction import added, made
from suites.check.subject import Subject

CAPACITY = 16
LEVELS = (10, 23)  # rows added before the call: partly filled, and overwriting
FAR = 10**6  # an index that no buffer of this capacity has
BATCHES = 40


class BadRow(Behaviour):
    """What becomes of a row with a field of the wrong shape or dtype."""

    REFUSED = "refused"
    IGNORED = "ignored"
    KEPT = "kept as it is"
    CONVERTS = "converted silently", HAZARD
    BREAKS = "stored, and later draws fail", HAZARD
    CORRUPTS = "changes other rows", FAULT


class BadCapacity(Behaviour):
    """What a capacity of 0 or -1 does."""

    REFUSED = "refused"
    LATER = "refused when first used", HAZARD
    ACCEPTED = "accepted", HAZARD
    GARBAGE = "accepted, and rows are drawn that were never added", FAULT


class BadUpdate(Behaviour):
    """The effect of an update with a wrong index or a wrong number of priorities."""

    REFUSED = "refused"
    IGNORED = "ignored"
    CHANGES = "changes another row's priority", HAZARD
    CONVERTS = "repeats or drops priorities", HAZARD
    PARTLY = "refused, but some priorities changed", HAZARD
    BREAKS = "later draws fail", FAULT
    CORRUPTS = "later draws are wrong", FAULT


class BadSize(Behaviour):
    """What a request of 0 or -1 rows returns."""

    REFUSED = "refused"
    NO_ROWS = "no rows"
    ROWS = "other numbers of rows", HAZARD
    BREAKS = "later draws fail", FAULT
    CORRUPTS = "rows that are not stored", FAULT


Observed = tuple[Behaviour, str, Sequence[str]]


#: A field, and its wrong value in row `n`, as in scripts.
Wrong = tuple[str, str]


def shapes(subject: Subject) -> dict[str, Seen]:
    """Add rows with a field of the wrong shape."""
    bad: dict[str, Wrong] = {
        "obs of shape (5,)": ("obs", 'np.full(5, n, "float32")'),
        "obs of shape (1,)": ("obs", 'np.full(1, n, "float32")'),
        "obs of shape (3, 4)": ("obs", 'np.full((3, 4), n, "float32")'),
        "next_obs of shape (5,)": ("next_obs", 'np.full(5, n + 1, "float32")'),
        "next_obs of shape (1,)": ("next_obs", 'np.full(1, n + 1, "float32")'),
        "an action of shape (2,)": ("act", "np.array([n % 5, n % 5])"),
    }
    return {"wrong_shape": _bad_rows(subject, bad)}


def floats(subject: Subject) -> dict[str, Seen]:
    """Add floats where integers are stored: an action, and an observation of bytes."""
    found = [_bad_rows(subject, {"an action of 1.7": ("act", "np.float64(1.7)")})]
    if _takes_bytes(subject):
        half = {"obs of n + 0.5 for bytes": ("obs", f"np.full({OPTIONS['obs_shape']}, n + 0.5)")}
        found.append(_bad_rows(subject, half, obs_dtype="uint8"))
    words = list(BadRow)
    return {"float_for_integer": max(found, key=lambda each: words.index(BadRow(each.word)))}


def _takes_bytes(subject: Subject) -> bool:
    if not subject.can(obs_dtype=None):
        return False
    try:
        Tracked(subject, CAPACITY, **next(iter(kinds(subject).values())), obs_dtype="uint8").add()
    except Exception:
        return False
    return True


def dtypes(subject: Subject) -> dict[str, Seen]:
    """Add rows with a field that is no number."""
    bad = {
        "obs of strings": ("obs", f"np.full({OPTIONS['obs_shape']}, str(n))"),
        "a reward of None": ("rew", "None"),
        "an action as text": ("act", "str(n % 5)"),
    }
    return {"wrong_dtype": _bad_rows(subject, bad)}


def _bad_rows(subject: Subject, bad: Mapping[str, Wrong], **more: Any) -> Seen:
    found: list[Observed] = []
    for asked in kinds(subject).values():
        for name, (field, text) in bad.items():
            if not subject.functions.accepts("add", field):
                continue
            for added_before in LEVELS:
                word, about, body = _bad_row(subject, {**asked, **more}, added_before, field, text)
                found.append((word, f"{name}, after {added_before} rows in a buffer of {CAPACITY}: {about}", body))
    if not found:
        raise NotApplicable("add has none of these arguments")
    return worst(found, "", len(found), BadRow)


def _bad_row(subject: Subject, asked: Mapping[str, Any], before: int, field: str, expression: str) -> Observed:
    value = eval(expression, {"np": np, "n": before + 1})
    text = re.sub(r"\bn\b", str(before + 1), expression)
    buffer = Tracked(subject, CAPACITY, **asked)
    buffer.add(before)
    begin = filled(subject, CAPACITY, before, **asked)
    row = step(before + 1, buffer.dtype) | {field: value}
    call = added(subject, str(before + 1), **{"done": "False", "terminated": "False", field: text})
    refused = [
        "import contextlib",
        f"with contextlib.suppress(Exception): {call}",
    ]
    begin = [f"{refused[0]}; {begin[0]}", begin[1]]
    size = min(before, CAPACITY)
    error = None
    try:
        buffer.buffer.add(**row)
    except NotApplicable:
        raise
    except Exception as raised:
        error = raised
    if error is not None or (subject.functions.has("size") and len(buffer.buffer) == before < CAPACITY):
        body = [*begin, refused[1]]
        about = said(error) if error is not None else "the size is unchanged"
        if (found := _goes_on(buffer, body, about)) is not None:
            return found
        return (BadRow.REFUSED if error is not None else BadRow.IGNORED), about, ()
    body = [*begin, call]
    strict = [*begin, "try:", f"    {call}", "except Exception: raise SystemExit", "raise AssertionError('stored')"]
    try:
        kept = _kept(buffer, field, value)
    except WrongRows as wrong:
        return BadRow.CORRUPTS, f"accepted; then {wrong}", [*body, *_others(buffer, size)]
    except Exception as raised:
        return (
            BadRow.BREAKS,
            f"accepted; later draws raise {said(raised)}",
            [*body, f"for _ in range(99): sample(b, {size})"],
        )
    if kept:
        return BadRow.KEPT, "returned as it was added", ()
    return BadRow.CONVERTS, "accepted, and stored as something else", strict


def _goes_on(buffer: Tracked, body: list[str], about: str) -> Observed | None:
    """Return what is wrong with a buffer that refused a row, and after it added further ones; None if nothing is."""
    has_size = buffer.subject.functions.has("size")
    for more in (0, 1, 4):
        if more:
            body = [*body, adds(buffer.subject, buffer.added + 1, buffer.added + more)]
        size = min(buffer.added + more, CAPACITY)
        try:
            buffer.add(more)
            counts = buffer.cover()
            if has_size and len(buffer.buffer) != len(buffer.held):
                raise WrongRows("", f"the size is {len(buffer.buffer)}, expected {len(buffer.held)}")
            if not counts.all() and (counts == 0).sum() > _never_drawn(buffer):
                raise WrongRows("", f"row {buffer.held[counts == 0][0]} is never drawn")
        except WrongRows as wrong:
            text = [*body, *exactly(buffer.held, size, BATCHES * 5, wrong if wrong.kind == MIXED else None)]
            if not wrong.kind and "size" in str(wrong):
                text = [*body, f"assert size(b) == {len(buffer.held)}, size(b)"]
            return BadRow.CORRUPTS, f"{about}; then {wrong}", text
        except Exception as raised:
            return BadRow.BREAKS, f"{about}; later calls raise {said(raised)}", [*body, f"sample(b, {size})"]
    return None


def _never_drawn(buffer: Tracked) -> int:
    """Return how many rows are never drawn from a buffer that was only called rightly."""
    other = Tracked(buffer.subject, buffer.capacity, **buffer.asked)
    other.add(buffer.added)
    return int((other.cover() == 0).sum())


def _kept(buffer: Tracked, field: str, value: Any) -> bool:
    """Return whether the row that was accepted is drawn as it was added. Raises `WrongRows` if another row changed."""
    odd, is_kept, size = buffer.added + 1, True, min(buffer.added, CAPACITY)
    for _ in range(BATCHES):
        batch = buffer.batch(size)
        rew, obs = (np.asarray(batch[name]).reshape(size, -1)[:, 0].astype(float) for name in ("rew", "obs"))
        mine = (rew == odd) if field != "rew" else (obs == odd)
        if field in batch and mine.any():
            is_kept &= _same(np.asarray(batch[field])[mine], np.asarray(value))
        if not mine.all():
            buffer.numbers({name: np.asarray(column)[~mine] for name, column in batch.items() if name != "indexes"})
    return is_kept


def _same(values: np.ndarray, value: np.ndarray) -> bool:
    """Return whether each of these values is `value`, to their own precision if they are floats."""
    if values.shape[1:] == (*value.shape, 1):
        values = values[..., 0]
    if values.dtype.kind == value.dtype.kind == "f":
        value = value.astype(values.dtype)
    return bool(values.shape[1:] == value.shape and (values == value).all())


def _others(buffer: Tracked, size: int) -> list[str]:
    return [
        f"x = [sample(b, {size}) for _ in range({BATCHES * 5})]",
        f'o, r = (np.ravel([np.asarray(each[k]).reshape({size}, -1)[:, 0] for each in x]) for k in ("obs", "rew"))',
        f"assert (o == r)[r <= {buffer.added}].all() and set(r) <= set(range(1, {buffer.added + 2})), (o, r)",
    ]


def capacities(subject: Subject) -> dict[str, Seen]:
    """Make buffers of capacity 0 and -1, and use them."""
    found = [_capacity(subject, asked, each) for asked in kinds(subject).values() for each in (0, -1)]
    return {"bad_capacity": worst(found, "", len(found), BadCapacity)}


def _capacity(subject: Subject, asked: Mapping[str, Any], capacity: int) -> Observed:
    call = made(subject, capacity, **asked)
    try:
        buffer = Tracked(subject, capacity, **asked)
    except NotApplicable:
        raise
    except Exception as error:
        return BadCapacity.REFUSED, f"capacity {capacity}: {said(error)}", ()
    body = ["try:", f"    {call}", "except Exception: raise SystemExit", f"raise AssertionError('capacity {capacity}')"]
    try:
        buffer.add(5)
        batch = buffer.batch(2)
        buffer.capacity = 5  # any row that was added may be drawn
        buffer.numbers(batch)
    except WrongRows as error:
        return BadCapacity.GARBAGE, f"capacity {capacity}: {error}", body
    except Exception as error:
        return BadCapacity.LATER, f"capacity {capacity}: {said(error)}", body
    return BadCapacity.ACCEPTED, f"capacity {capacity}: 5 rows added, {len(batch['obs'])} sampled", body


def far_indexes(subject: Subject) -> dict[str, Seen]:
    return {"index_out_of_range": _bad_index(subject, FAR)}


def negative_indexes(subject: Subject) -> dict[str, Seen]:
    return {"negative_index": _bad_index(subject, -1)}


def _bad_index(subject: Subject, index: int) -> Seen:
    """Update a batch in which one index is replaced, with a priority of 1,000."""
    found = []
    asked, _ = by_priority(subject, 1.0)
    for before in _levels(subject):

        def wrong(batch: Any) -> tuple[Any, Array]:
            indexes = own({"indexes": indexes_of(batch)})["indexes"]
            if not _are_integers(indexes):
                raise NotApplicable("indexes are no array of integers")
            indexes[-1] = index  # the last, which counts if the row is in the batch twice
            priorities = np.ones(len(indexes))
            priorities[-1] = 1e3
            return indexes, priorities

        size = min(before, CAPACITY)
        line = f'x = sample(b, {size}); j = x["indexes"]; j[-1] = {index}; p = np.ones({size}); p[-1] = 1e3'
        word, about, body = _bad_update(subject, asked, before, wrong, line)
        found.append((word, f"index {index}, {before} rows added to {CAPACITY}: {about}", body))
    return worst(found, "", len(found), BadUpdate)


def _levels(subject: Subject) -> tuple[int, ...]:
    """Return how many rows to add, so that it is known which rows are then stored, and drawn evenly."""
    return LEVELS[:1] if subject.functions.evicts_episodes else LEVELS


def _are_integers(indexes: Any) -> bool:
    try:
        array = np.asarray(indexes)
        indexes[0] = indexes[0]
    except Exception:
        return False
    return array.ndim == 1 and array.dtype.kind in "iu"


def lengths(subject: Subject) -> dict[str, Seen]:
    """Update a batch with one priority too few, one too many, and one for all."""
    found = []
    asked, _ = by_priority(subject, 1.0)
    for name, rows in {"one too few": -1, "one too many": 1, "one for all": 0}.items():
        for before in _levels(subject):
            size = min(before, CAPACITY)
            given = 1 if not rows else size + rows

            def wrong(batch: Any, given: int = given) -> tuple[Any, Array]:
                return own({"indexes": indexes_of(batch)})["indexes"], np.full(given, 1.0)

            line = f'x = sample(b, {size}); j, p = x["indexes"], np.ones({given})'
            word, about, body = _bad_update(subject, asked, before, wrong, line)
            if word is BadUpdate.IGNORED:  # the priorities are those that the rows had
                word, about = BadUpdate.CONVERTS, "accepted"
            found.append((word, f"{name} ({given} for {size} rows): {about}", body))
    return {"priorities_length": worst(found, "", len(found), BadUpdate)}


def _bad_update(
    subject: Subject, asked: Mapping[str, Any], before: int, wrong: Callable[[Any], tuple[Any, Array]], line: str
) -> Observed:
    buffer = Tracked(subject, CAPACITY, **asked)
    buffer.add(before)
    size = min(before, CAPACITY)
    begin = filled(subject, CAPACITY, before, **asked)
    silent = [
        *begin,
        f"try: {line}; update(b, j, p)",
        "except Exception: raise SystemExit",
        "raise AssertionError('accepted')",
    ]
    quiet = [
        f"import contextlib; {begin[0]}",
        begin[1],
        f"with contextlib.suppress(Exception): {line}; update(b, j, p)",
    ]
    _, batch = buffer.sample(size)
    indexes, priorities = wrong(batch)
    held = buffer.held
    error = None
    try:
        buffer.update(indexes, priorities)
    except NotApplicable:
        raise
    except Exception as raised:
        error = raised
    how = f"raised {said(error)}" if error is not None else "accepted"
    try:
        counts = buffer.count(subject.setting.draws, size)
        buffer.add(3)
        buffer.count(100, size)
    except WrongRows as bad:
        return BadUpdate.CORRUPTS, f"{how}; then {bad}", [*quiet, *exactly(buffer.held[:size], size, BATCHES, bad)]
    except Exception as raised:
        return BadUpdate.BREAKS, f"{how}; a later call raised {said(raised)}", [*quiet, f"sample(b, {size})"]
    if fit(counts, np.ones(size)) > SIGNIFICANCE:
        return (BadUpdate.REFUSED, how, ()) if error is not None else (BadUpdate.IGNORED, how, silent)
    top = int(np.argmax(counts))
    share = counts[top] / counts.sum()
    about = f"{how}; row {held[top]} then got {share:.0%} of {counts.sum():,} draws"
    if error is not None:
        return BadUpdate.PARTLY, about, [*quiet, *_still_even(size, before)]
    rest = np.delete(counts, top)
    if rest.sum() and fit(rest, np.ones(size - 1)) <= SIGNIFICANCE:
        return (
            BadUpdate.CORRUPTS,
            f"{about}, and the others were not drawn evenly",
            [*quiet, *_still_even(size, before)],
        )
    return BadUpdate.CHANGES, about, silent


def _still_even(size: int, before: int) -> list[str]:
    first = max(0, before - CAPACITY) + 1
    return [
        f"c = np.bincount({drawn(size, 800)}.astype(int))[{first}:]",
        "assert c.max() < 2 * c.mean(), c",
    ]


def sizes(subject: Subject) -> dict[str, Seen]:
    """Request 0 and -1 rows."""
    return {"sample_zero": _size(subject, 0), "sample_negative": _size(subject, -1)}


def _size(subject: Subject, size: int) -> Seen:
    found: list[Observed] = []
    for kind, asked in kinds(subject).items():
        for before in LEVELS:
            word, about, body = _sized(subject, asked, before, size)
            found.append((word, f"{kind}, {before} rows added to {CAPACITY}: {about}", body))
    return worst(found, "", len(found), BadSize)


def _sized(subject: Subject, asked: Mapping[str, Any], before: int, size: int) -> Observed:
    buffer = Tracked(subject, CAPACITY, **asked)
    buffer.add(before)
    begin = filled(subject, CAPACITY, before, **asked)
    call = f"sample(b, {size})"
    strict = [*begin, f'try: x = {call}["obs"]', "except Exception: raise SystemExit", "assert len(x) == 0, x"]
    quiet = [f"import contextlib; {begin[0]}", begin[1], f"with contextlib.suppress(Exception): {call}"]
    rows, error = 0, None
    try:
        batch = buffer.batch(size)
        rows = len(np.atleast_1d(batch["obs"])) if np.asarray(batch["obs"]).size else 0
        if rows:
            buffer.numbers(batch)
    except WrongRows as wrong:
        return BadSize.CORRUPTS, f"{size} rows requested: {wrong}", strict
    except NotApplicable:
        raise
    except Exception as raised:
        error = raised
    how = f"raised {said(error)}" if error is not None else f"returned {rows} rows"
    try:
        buffer.add(3)
        never = int((buffer.cover() == 0).sum())
        missing = never > 0 and never > _never_drawn(buffer)
    except WrongRows as wrong:
        body = [
            *quiet,
            adds(subject, before + 1, before + 3, done=DONE),
            *exactly(buffer.held, len(buffer.held), BATCHES, wrong),
        ]
        return BadSize.CORRUPTS, f"{how}; then {wrong}", body
    except Exception as raised:
        return (
            BadSize.BREAKS,
            f"{how}; a later call raised {said(raised)}",
            [*quiet, f"sample(b, {min(before, CAPACITY)})"],
        )
    if missing:
        body = [*quiet, adds(subject, before + 1, before + 3), *exactly(buffer.held, len(buffer.held), BATCHES)]
        return BadSize.CORRUPTS, f"{how}; then some rows were never drawn", body
    if error is not None:
        return BadSize.REFUSED, how, ()
    return (BadSize.ROWS, how, strict) if rows else (BadSize.NO_ROWS, how, ())


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {
    shapes: ("wrong_shape",),
    floats: ("float_for_integer",),
    dtypes: ("wrong_dtype",),
    capacities: ("bad_capacity",),
    far_indexes: ("index_out_of_range",),
    negative_indexes: ("negative_index",),
    lengths: ("priorities_length",),
    sizes: ("sample_zero", "sample_negative"),
}
CHECKS: Mapping[str, type[Behaviour]] = {
    "wrong_shape": BadRow,
    "float_for_integer": BadRow,
    "wrong_dtype": BadRow,
    "bad_capacity": BadCapacity,
    "index_out_of_range": BadUpdate,
    "negative_index": BadUpdate,
    "priorities_length": BadUpdate,
    "sample_zero": BadSize,
    "sample_negative": BadSize,
}
