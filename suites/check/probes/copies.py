"""Probes of copies: deep copies, pickles, saved files, and forked workers."""

from __future__ import annotations

import copy
import os
import pickle
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from adapters.base import Array
from adapters.behaviours import FAULT, HAZARD, Behaviour
from adapters.checks import SIGNIFICANCE
from suites.check.functions import NotApplicable
from suites.check.probes.children import HANGS, Child, seed_everything
from suites.check.probes.probing import Seen, fit, said
from suites.check.probes.tracked import (
    DONE,
    Tracked,
    WrongRows,
    adds,
    by_priority,
    drawn,
    exactly,
    filled,
    kinds,
    prioritized,
    shares,
    worst,
)
from suites.check.reproduction import made
from suites.check.subject import CheckedBuffer, Subject

CAPACITY, ADDED = 32, 43
NEWER = 9  # rows that are added to the original or to the copy
BATCHES, SIZE = 6, 16
LOWEST = 0.05
SCRIPT = "checked_functions"  # the name of the module that `functions.load` runs


class Copied(Behaviour):
    """What a copy has, and what it shares with the original."""

    SAME = "the same rows and next draws"
    REFUSED = "refused"
    UNSEEDED = "the same rows, draws that no seed repeats"
    OTHER_DRAWS = "the same rows, other draws", HAZARD
    OTHER_PRIORITIES = "other priorities", FAULT
    OTHER_POSITION = "another position of the next row", FAULT
    OTHER_ROWS = "other rows", FAULT
    SHARES = "rows that it shares with the original", FAULT
    FAILS = "fails when used", FAULT


class OfWorkers(Behaviour):
    """What two workers draw, each of which seeds the global generators differently, as a DataLoader does."""

    OTHER = "different batches"
    SAME = "the same batches in each worker", HAZARD
    HANGS = "hang", HAZARD
    FAILS = "fail", HAZARD
    WRONG_ROWS = "rows that are not stored", FAULT


def deep_copies(subject: Subject) -> dict[str, Seen]:
    def copied(buffer: Tracked) -> Any:
        return copy.deepcopy(buffer.buffer.buffer)

    return {"deepcopy": _copies(subject, copied, "import copy", "c = copy.deepcopy(b)")}


def pickles(subject: Subject) -> dict[str, Seen]:
    if subject.functions.shared:
        raise NotApplicable("a pickle of a shared buffer has the same rows, for another process")

    def copied(buffer: Tracked) -> Any:
        return pickle.loads(pickle.dumps(_to_pickle(buffer)))

    return {"pickle": _copies(subject, copied, "import pickle", "c = pickle.loads(pickle.dumps(b))")}


def saved(subject: Subject) -> dict[str, Seen]:
    named = subject.functions.named
    if not {"save", "load"} <= named.keys():
        raise NotApplicable("there are no functions save and load")

    def copied(buffer: Tracked) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "buffer")
            named["save"](buffer.buffer.buffer, path)
            other = subject.make(CAPACITY, **buffer.asked)
            named["load"](other.buffer, path)
            return other.buffer

    text = 'c, p = make(), tempfile.mkdtemp() + "/b"; save(b, p); load(c, p)'
    return {"save": _copies(subject, copied, "import tempfile", text)}


def _copies(subject: Subject, copied: Callable[[Tracked], Any], imported: str, how: str) -> Seen:
    found, looked_at = [], 0
    for kind, asked in kinds(subject).items():
        line = how.replace("make()", made(subject, CAPACITY, **asked))
        begin = [
            f"{imported}; {filled(subject, CAPACITY, ADDED, **asked)[0]}",
            adds(subject, 1, ADDED),
            f"[sample(b, {SIZE}) for _ in range({BATCHES})]; {line}",
        ]
        word, about, body = _copied(subject, asked, copied, begin)
        found.append((word, f"{kind}: {about}", _short(body)))
        looked_at += 1
    if subject.has_priorities:
        with suppress(NotApplicable):
            word, about, body = _priorities(subject, copied, imported, how)
            found.append((word, about, _short(body)))
    return worst(found, "", looked_at, Copied)


def _short(body: list[str]) -> list[str]:
    """Return these lines, all but the first two as one line: saving and loading need two more functions."""
    rest = [
        f"[{line.partition(': ')[2]} {line.partition(': ')[0]}]" if line.startswith("for ") else line
        for line in body[2:]
    ]
    return [*body[:2], "; ".join(rest)] if any("save(" in line for line in body) else body


def _copied(
    subject: Subject, asked: Mapping[str, object], copied: Callable[[Tracked], Any], begin: list[str]
) -> tuple[Copied, str, list[str]]:
    buffer = Tracked(subject, CAPACITY, **asked)
    buffer.add(ADDED)
    buffer.count(BATCHES * SIZE, SIZE)  # a seed alone does not repeat the next draws
    try:
        other = _as_tracked(buffer, copied(buffer))
    except (NotApplicable, WrongRows):
        raise
    except Exception as error:
        return Copied.REFUSED, said(error), []
    same = _drawn_alike(buffer, other)
    try:
        if (found := _differing(subject, buffer, other, begin)) is not None:
            return found
    except Exception as error:
        return (
            Copied.FAILS,
            f"the copy raised {said(error)}",
            [*begin, adds_to("c", subject, ADDED + 1), f"sample(c, {SIZE})"],
        )
    if same:
        return Copied.SAME, f"{BATCHES} batches of {SIZE} rows were the same from both", []
    if not _repeats(subject, asked):
        return Copied.UNSEEDED, "rows were the same; no seed repeats draws", []
    draws = [drawn(SIZE, BATCHES, each) for each in "bc"]
    text = "; ".join(f"np.random.seed(0); {name} = {each}" for name, each in zip("xy", draws, strict=True))
    return (
        Copied.OTHER_DRAWS,
        "rows were the same, but the next batches differed",
        [*begin, text, "assert (x == y).all()"],
    )


def adds_to(buffer: str, subject: Subject, first: int, last: int | None = None) -> str:
    return adds(subject, first, last or first + NEWER - 1).replace("add(b,", f"add({buffer},")


def _as_tracked(buffer: Tracked, whole: Any) -> Tracked:
    """Return the copy of a buffer, which must have the same rows."""
    other = copy.copy(buffer)
    other.buffer = CheckedBuffer(buffer.subject, whole)
    return other


def _drawn_alike(buffer: Tracked, other: Tracked) -> bool:
    drawn = []
    for each in (buffer, other):
        seed_everything(each.subject.setting.seed)
        with suppress(Exception):
            drawn.append([each.sample(SIZE)[0].tolist() for _ in range(BATCHES)])
    return len(drawn) == 2 and drawn[0] == drawn[1]


def _repeats(subject: Subject, asked: Mapping[str, object]) -> bool:
    """Return whether two buffers with the same seed and rows draw the same batches."""
    pair = []
    for _ in range(2):
        pair.append(Tracked(subject, CAPACITY, **asked))
        pair[-1].add(ADDED)
    return _drawn_alike(*pair)


def _differing(
    subject: Subject, buffer: Tracked, other: Tracked, begin: list[str]
) -> tuple[Copied, str, list[str]] | None:
    """Return how the copy's rows differ, at first and after rows were added to either; None if they do not."""
    has_size = subject.functions.has("size")
    try:
        if (buffer.cover() > 0)[other.cover() == 0].any() or (has_size and len(other.buffer) != len(buffer.buffer)):
            raise WrongRows("", "a row is missing from the copy, or its size differs")
    except WrongRows as error:
        return Copied.OTHER_ROWS, str(error), [*begin, _rows("c", buffer.held, error)]
    other.add(NEWER)
    body = [*begin, adds_to("c", subject, ADDED + 1)]
    try:
        buffer.cover()
        if has_size and len(buffer.buffer) != len(buffer.held):
            raise WrongRows("", "the original's size changed")
    except WrongRows as error:
        about = f"after {NEWER} rows were added to the copy, the original: {error}"
        return Copied.SHARES, about, [*body, _rows("b", buffer.held, error)]
    try:
        if (other.cover() == 0).sum() > (buffer.cover() == 0).sum():
            raise WrongRows("", "a row is missing")
    except WrongRows as error:
        about = f"after {NEWER} rows were added to the copy: {error}"
        return Copied.OTHER_POSITION, about, [*body, _rows("c", other.held, error)]
    buffer.add(2 * NEWER)
    try:
        other.cover()
    except WrongRows as error:
        about = f"after {2 * NEWER} rows were added to the original, the copy: {error}"
        body = [*begin, adds_to("b", subject, ADDED + 1)]
        return Copied.SHARES, about, [*body, _rows("c", np.arange(ADDED - CAPACITY, ADDED) + 1, error)]
    return None


def _rows(name: str, held: Array, error: WrongRows) -> str:
    """Return a line that compares the rows of this buffer with those that it must have."""
    return "; ".join(exactly(held, SIZE, 120, error if error.kind else None, name))


def _priorities(
    subject: Subject, copied: Callable[[Tracked], Any], imported: str, how: str
) -> tuple[Copied, str, list[str]]:
    """Compare how often rows are drawn from a copy with their priorities in the original, then change the copy's."""
    asked, alpha = by_priority(subject, 1.0)
    rows = CAPACITY // 2
    buffer = Tracked(subject, CAPACITY, **asked)
    buffer.add(rows)
    wanted = np.append(1.0, np.geomspace(LOWEST, 1.0, rows))
    buffer.prioritize(wanted)
    try:
        other = _as_tracked(buffer, copied(buffer))
    except NotApplicable:
        raise
    except Exception as error:
        return Copied.REFUSED, f"by priority: {said(error)}", []
    line = how.replace("make()", made(subject, CAPACITY, **asked))
    lines = prioritized(subject, CAPACITY, rows, f"np.where(n == 1, 1.0, {LOWEST})", **asked)
    begin = [f"{imported}; {lines[0]}", lines[1], line]
    draws, expected = subject.setting.draws, shares(subject, wanted[1:], alpha)
    one = 1 / (1 + (rows - 1) * LOWEST**alpha)
    check = f"n = {drawn(SIZE, 300, '{}')}; assert abs(np.mean(n == 1) - {one:.3f}) < 0.08, np.mean(n == 1)"
    try:
        p = fit(other.count(draws, SIZE), expected)
        if p <= SIGNIFICANCE:
            about = f"{draws:,} draws from the copy do not fit the priorities (p = {p:.1g})"
            return Copied.OTHER_PRIORITIES, about, [*begin, check.format("c")]
        other.prioritize(wanted[::-1].copy())
        p = fit(buffer.count(draws, SIZE), expected)
    except WrongRows as error:
        return Copied.OTHER_ROWS, f"by priority: {error}", [*begin, _rows("c", buffer.held, error)]
    if p <= SIGNIFICANCE:
        about = f"updates of the copy changed the draws from the original (p = {p:.1g})"
        lower = f'[update(c, x["indexes"], np.full({SIZE}, 1e-3)) for x in [sample(c, {SIZE}) for _ in range(9)]]'
        return Copied.SHARES, about, [*begin, f"{lower}; {check.format('b')}"]
    return Copied.SAME, "", []


def forked(subject: Subject) -> dict[str, Seen]:
    """Draw in two forked processes, and compare their batches."""
    return {"forked_workers": _workers(subject, lambda buffer: lambda: buffer, "")}


def spawned(subject: Subject) -> dict[str, Seen]:
    """Draw in two processes that get a pickled buffer, as those that are spawned or come from a fork server do."""

    def unpickled(buffer: Tracked) -> Callable[[], Tracked]:
        data = pickle.dumps(_to_pickle(buffer))
        return lambda: _as_tracked(buffer, pickle.loads(data))

    seen = _workers(subject, unpickled, "b = pickle.loads(p); ")
    if seen.word == OfWorkers.HANGS:  # the workers are forked here, which JAX forbids, as it has threads
        raise NotApplicable("a forked process that unpickles the buffer hangs, and none is spawned")
    return {"spawned_workers": seen}


def _to_pickle(buffer: Tracked) -> Any:
    whole = buffer.buffer.buffer
    if type(whole).__module__ == SCRIPT:
        raise NotApplicable("a class in the file of functions cannot be pickled")
    return whole


def _workers(subject: Subject, sent: Callable[[Tracked], Callable[[], Tracked]], first: str) -> Seen:
    if not hasattr(os, "fork"):
        raise NotApplicable("this platform has no fork")
    found = []
    for kind, asked in kinds(subject).items():
        buffer = Tracked(subject, CAPACITY, **asked)
        buffer.add(ADDED)
        try:
            received = sent(buffer)
        except NotApplicable:
            raise
        except Exception as error:
            raise NotApplicable(f"the buffer cannot be pickled: {said(error)}") from error
        word, about = _drawn_by_workers(received, subject.setting.patience)
        found.append((word, f"{kind}: {about}", _workers_script(subject, asked, first)))
    return worst(found, "", len(found) * 2 * BATCHES, OfWorkers)


def _drawn_by_workers(received: Callable[[], Tracked], patience: float) -> tuple[OfWorkers, str]:
    def draw() -> list[list[int]]:
        buffer = received()
        return [buffer.sample(SIZE)[0].tolist() for _ in range(BATCHES)]

    answers = [Child(draw, 1_000 + worker).answer(patience) for worker in range(2)]
    for answer in answers:
        if isinstance(answer, str):
            word = {HANGS: OfWorkers.HANGS}.get(answer, OfWorkers.FAILS)
            return (OfWorkers.WRONG_ROWS if answer.startswith("WrongRows") else word), f"a worker: {answer}"
    if answers[0] == answers[1]:
        return OfWorkers.SAME, f"{BATCHES} batches of {SIZE} rows were the same in two workers"
    return OfWorkers.OTHER, f"{BATCHES} batches of {SIZE} rows differed between two workers"


def _workers_script(subject: Subject, asked: Mapping[str, object], first: str) -> list[str]:
    work = f"{first}np.random.seed(os.getpid()); print({drawn(SIZE, BATCHES)}.tolist(), flush=True)"
    return [
        f"import os, pickle; {filled(subject, CAPACITY, ADDED, **asked)[0]}",
        adds(subject, 1, ADDED, done=DONE),
        f"r, w = os.pipe(){'; p = pickle.dumps(b)' if first else ''}",
        f"for _ in 'ab': os.fork() or (os.dup2(w, 1), exec({work!r}), os._exit(0)); os.wait()",
        "os.close(w); x, y = os.read(r, 1 << 16).splitlines(); assert x != y, x",
    ]


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {
    deep_copies: ("deepcopy",),
    pickles: ("pickle",),
    saved: ("save",),
    forked: ("forked_workers",),
    spawned: ("spawned_workers",),
}
CHECKS: Mapping[str, type[Behaviour]] = {
    "deepcopy": Copied,
    "pickle": Copied,
    "save": Copied,
    "forked_workers": OfWorkers,
    "spawned_workers": OfWorkers,
}
