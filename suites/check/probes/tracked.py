"""Tools for the probes of a subject: a buffer with the rows that it must hold, and how they are named in scripts.

Row number i, from 1, has i in each cell of obs, i % 5 as its action, i as its reward, i + 1 in next_obs, and done if
i % 3 is 2. All columns of a batch therefore tell which row they belong to, and a slot that was never written differs
from every row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adapters.base import Array, Columns
from adapters.behaviours import Behaviour, Meaning
from adapters.checks import stored
from suites.check.functions import OPTIONS, BufferFunctions, NotApplicable
from suites.check.probes.probing import Seen, own
from suites.check.reproduction import added, made
from suites.check.subject import Subject

COVERAGE = 20.0  # draws per row, beside the logarithm of the rows: some row is missed in 1 of e^20 cases
MOST_BATCHES = 60  # in which each row must have been drawn at least once
MOST_SINGLE = 4_000  # draws in batches of one row
TRIED = 8  # rows of the buffer that shows its manners
CHARACTERS = 240
NO_ALPHA = "make has no argument alpha, and the file defines no ALPHA"
#: Column -> its expected value for row n, as in scripts.
VALUES: Mapping[str, str] = {
    "obs": "n",
    "act": "n % 5",
    "rew": "n",
    "next_obs": "n + 1",
    "done": "n % 3 == 2",
}
DONE = "i % 3 == 2"

UNWRITTEN, OVERWRITTEN, MIXED = "unwritten", "overwritten", "mixed"


class WrongRows(AssertionError):  # noqa: N818 (says what the rows are)
    """A batch has rows that are not stored: `kind` is `UNWRITTEN`, `OVERWRITTEN` or `MIXED`."""

    def __init__(self, kind: str, message: str, field: str = "obs") -> None:
        super().__init__(message)
        self.kind, self.field = kind, field


@dataclass(frozen=True)
class Manners:
    """How a buffer that draws by priority must be called."""

    must_update: bool = False  # a batch must be updated before the next one is drawn
    distinct: bool = False  # only the first row of a batch is an independent draw


#: By the functions, which are kept alive, and the kind.
_known: dict[tuple[int, str], tuple[BufferFunctions, Manners]] = {}


def manners(subject: Subject, asked: Mapping[str, Any]) -> Manners:
    """Find the manners of a kind of buffer with a small one."""
    if not subject.has_priorities or not asked.get("prioritized", True):
        return Manners()
    key = id(subject.functions), subject.way
    if key not in _known:
        _known[key] = subject.functions, _found_manners(subject, {k: v for k, v in asked.items() if k != "obs_dtype"})
    return _known[key][1]


def _found_manners(subject: Subject, asked: Mapping[str, Any]) -> Manners:
    buffer, must_update, batches = subject.make(TRIED, **asked), False, []
    try:
        for number in range(1, TRIED + 1):
            buffer.add(**step(number))
        for _ in range(4):
            try:
                batch = buffer.sample(TRIED)
            except Exception:
                buffer.update(indexes_of(batch), np.ones(TRIED))
                batch, must_update = buffer.sample(TRIED), True
            batches.append(certified(batch))
    except Exception:
        return Manners()  # whatever it is, the probes will find it
    return Manners(must_update, all(len(np.unique(batch)) == TRIED for batch in batches))


class Tracked:
    """A checked buffer, and the numbers of the rows that it must hold."""

    def __init__(self, subject: Subject, capacity: int, **asked: Any) -> None:
        if subject.other_rows:
            raise NotApplicable(f"batches have other rows than those added, because of {subject.other_rows[0]}")
        self.subject, self.capacity, self.asked, self.added = subject, capacity, asked, 0
        self.dtype: str = asked.get("obs_dtype", OPTIONS["obs_dtype"])
        self.manners = manners(subject, asked)
        self.priorities = np.ones(1)  # by row number, as far as they were set
        self._due: Columns | None = None  # a batch without an update
        self.buffer = subject.make(capacity, **asked)

    @property
    def held(self) -> Array:
        """Return the numbers of the rows that must be stored, oldest first."""
        return np.arange(max(0, self.added - self.capacity), self.added) + 1

    def add(self, rows: int = 1, **more: Any) -> None:
        self._settle()
        for number in range(self.added + 1, self.added + rows + 1):
            self.buffer.add(**step(number, self.dtype), **more)
            self.added += 1

    def add_batch(self, rows: int) -> None:
        self._settle()
        self.buffer.add_batch(**columns_of(np.arange(self.added, self.added + rows) + 1))
        self.added += rows

    def batch(self, size: int, **asked: Any) -> Columns:
        """Return a batch, whatever it contains."""
        self._settle()
        batch = self.buffer.sample(size, **asked)
        self._due = batch if self.manners.must_update else None
        return batch

    def _settle(self) -> None:
        """Set the priorities of the last batch to what they are, if the buffer requires an update."""
        if (batch := self._due) is not None:
            self._due = None
            numbers = np.asarray(batch["obs"]).reshape(len(batch["obs"]), -1)[:, 0].astype(np.int64)
            known = (numbers >= 0) & (numbers < len(self.priorities))
            new = max(1.0, self.priorities.max())
            self.buffer.update(indexes_of(batch), np.where(known, self.priorities[np.where(known, numbers, 0)], new))

    def sample(self, size: int, **asked: Any) -> tuple[Array, Columns]:
        """Return the numbers of the rows, and the batch. Raises `WrongRows`."""
        batch = self.batch(size, **asked)
        return self.numbers(batch), batch

    def numbers(self, batch: Columns) -> Array:
        """Return the numbers of a batch's rows. Raises `WrongRows` unless all are stored."""
        numbers = certified(batch)
        if len(never := numbers[(numbers < 1) | (numbers > self.added)]):
            raise WrongRows(UNWRITTEN, f"a row was drawn that was never added: its obs is {never[0]:g}")
        if len(gone := numbers[numbers <= self.added - self.capacity]):
            raise WrongRows(
                OVERWRITTEN, f"row {gone[0]:g} was drawn after {self.added} were added; the capacity is {self.capacity}"
            )
        return numbers.astype(np.int64)

    def independent(self, size: int) -> int:
        """Return a size of batches whose rows are independent draws, at most this one."""
        return 1 if self.manners.distinct else size

    def count(self, draws: int, size: int) -> Array:
        """Return how often each held row was drawn in independent draws, oldest first."""
        size = self.independent(size)
        return self.count_alike(draws if size > 1 else min(draws, MOST_SINGLE), size)

    def count_alike(self, draws: int, size: int) -> Array:
        """Return how often each held row was drawn, oldest first. Rows must be equally likely."""
        held = self.held
        counts = np.zeros(len(held), np.int64)
        for _ in range(-(-draws // size)):
            counts += np.bincount(self.sample(size)[0] - held[0], minlength=len(held))
        return counts

    def cover(self) -> Array:
        """Return counts of so many draws that a row without any can't be drawn."""
        rows = len(self.held)
        return self.count_alike(int(rows * (np.log(rows) + COVERAGE)) + 1, min(rows, 256))

    def update(self, indexes: Any, priorities: Array) -> None:
        self.buffer.update(indexes, priorities)
        self._due = None  # if the update is refused, the batch still needs one

    def prioritize(self, wanted: Array) -> None:
        """Set the priorities of all rows, `wanted[number]`: all at once, since a high priority hides the other rows.
        Raises `NotApplicable` if a row is never drawn."""
        batches, due = [], {*self.held.tolist()}
        while due and len(batches) < MOST_BATCHES:
            numbers, batch = self.sample(len(self.held))
            batches.append((own({"indexes": indexes_of(batch)})["indexes"], numbers))
            due -= {*numbers.tolist()}
        for indexes, numbers in batches:
            self.update(indexes, wanted[numbers])
        self.priorities = wanted
        if due:
            raise NotApplicable(f"the priority of row {min(due)} cannot be set, as the row is never drawn")

    def lower(self, wanted: Array) -> None:
        """Set the priorities of all rows, batch by batch, to values that are lower than their present ones. A row that
        is no longer drawn keeps its priority."""
        due = {*self.held.tolist()}
        for _ in range(MOST_BATCHES * 10):
            numbers, batch = self.sample(len(self.held))
            self.update(indexes_of(batch), wanted[numbers])
            due -= {*numbers.tolist()}
            if not due:
                break
        self.priorities = wanted


def indexes_of(batch: Columns) -> Any:
    if "indexes" not in batch:
        raise NotApplicable("batches have no indexes")
    return batch["indexes"]


def certified(batch: Columns) -> Array:
    """Return the numbers that the rows of a batch claim to have, as floats. Raises `WrongRows` if columns disagree."""
    obs = flat(batch["obs"])
    numbers = obs[:, 0] if obs.size else obs.reshape(-1)
    for name in VALUES:
        if name not in batch:
            continue
        column = flat(batch[name])
        if len(column) != len(numbers):
            raise WrongRows(MIXED, f"{name} has {len(column)} rows, obs has {len(numbers)}", name)
        unlike = column != expected(name, numbers)[:, None]
        odd = unlike.any(axis=1)
        if odd.any():
            at = int(np.argmax(odd))
            if not any(flat(batch[each])[at].any() for each in VALUES if each in batch):
                raise WrongRows(UNWRITTEN, "a row of zeros was drawn, which was never added", "obs")
            about = f"{name} is {column[at][unlike[at]][0]:g} in a row whose obs is {numbers[at]:g}"
            raise WrongRows(MIXED, f"{about} (in {odd.sum()} of {len(odd)} rows)", name)
    return numbers


def flat(column: Array) -> Array:
    column = np.asarray(column)
    if not column.ndim:
        raise WrongRows(MIXED, "a column of a batch has no axis")
    return column.reshape(len(column), -1).astype(np.float64) if column.size else np.zeros((len(column), 1))


def expected(name: str, numbers: Array) -> Array:
    """Return the values of a column in these rows (`VALUES`)."""
    if name == "act":
        return numbers % 5
    if name == "next_obs":
        return numbers + 1
    return numbers % 3 == 2 if name == "done" else numbers


def step(number: int, dtype: str = OPTIONS["obs_dtype"]) -> dict[str, Any]:
    """Return a row as the arguments of `CheckedBuffer.add`."""
    shape = OPTIONS["obs_shape"]
    return {
        "obs": np.full(shape, number, dtype),
        "act": number % 5,
        "rew": float(number),
        "next_obs": np.full(shape, number + 1, dtype),
        "terminated": number % 3 == 2,
        "first": number % 3 == 0 or number == 1,
    }


def columns_of(numbers: Array) -> Columns:
    """Return rows as the arguments of `CheckedBuffer.add_batch`."""
    cells = np.ones(OPTIONS["obs_shape"], OPTIONS["obs_dtype"])
    return {
        "obs": numbers[:, None].astype(cells.dtype) * cells,
        "act": (numbers % 5).astype(OPTIONS["act_dtype"]),
        "rew": numbers.astype(np.float32),
        "next_obs": (numbers[:, None] + 1).astype(cells.dtype) * cells,
        "done": numbers % 3 == 2,
    }


def kinds(subject: Subject) -> Mapping[str, Mapping[str, Any]]:
    """Return the kinds of buffers that `make` can be asked for, and with which arguments."""
    if subject.has_priorities and subject.can(prioritized=None):
        return {"uniform": {"prioritized": False}, "by priority": {"prioritized": True}}
    return {"by priority": {}} if subject.has_priorities else {"uniform": {}}


def by_priority(subject: Subject, alpha: float | None = None) -> tuple[dict[str, Any], float]:
    """Return what to ask `make` for, and the buffer's alpha. Raises `NotApplicable` if it is unknown."""
    subject.functions.require("update")
    asked = dict(kinds(subject)["by priority"])
    if subject.can(alpha=None):
        fixed = subject.options.get("alpha")
        asked["alpha"] = alpha if fixed is None else fixed
        return asked, float(asked["alpha"])
    if subject.functions.alpha is None:
        raise NotApplicable(NO_ALPHA)
    return asked, subject.functions.alpha


def shares(subject: Subject, priorities: Array, alpha: float) -> Array:
    each = stored(priorities, subject.functions) ** alpha
    return each / each.sum()


def worst(
    found: Iterable[tuple[Behaviour, str, Sequence[str]]], about: str, looked_at: int, order: type[Behaviour]
) -> Seen:
    """Return the worst observation, by the order in which the behaviours are declared, or `about` if it is sound."""
    members = list(order)
    word, evidence, body = max(found, key=lambda each: members.index(each[0]))
    return seen(word, evidence or about, looked_at, body)


def seen(word: Behaviour, evidence: str, looked_at: int, body: Sequence[str] = ()) -> Seen:
    return Seen(
        word.value, evidence[:CHARACTERS], looked_at, "\n".join(body) if word.meaning is not Meaning.SOUND else ""
    )


def attempt(call: Callable[[], Any]) -> Exception | None:
    """Return the exception that this call of a buffer raised, if any."""
    try:
        call()
    except (NotApplicable, WrongRows):
        raise
    except Exception as error:
        return error
    return None


# Lines of scripts


def filled(subject: Subject, capacity: int, rows: int, **asked: Any) -> list[str]:
    """Return lines that make a buffer `b`, and add rows 1 to `rows`."""
    obs = {}
    if dtype := asked.get("obs_dtype"):
        obs = {
            name: f"np.full({OPTIONS['obs_shape']}, {n}, {dtype!r})"
            for name, n in (("obs", "i"), ("next_obs", "i + 1"))
        }
    return [f"b = {made(subject, capacity, **asked)}", adds(subject, 1, rows, **obs)]


def adds(subject: Subject, first: int, last: int, **step: str) -> str:
    ends = {"done": DONE, "terminated": DONE}
    return f"for i in range({first}, {last + 1}): {added(subject, **ends | step)}"


def drawn(size: int, batches: int, buffer: str = "b") -> str:
    """Return an expression for the numbers of the rows in several batches."""
    return f'np.concatenate([np.asarray(sample({buffer}, {size})["obs"])[:, 0] for _ in range({batches})])'


def prioritized(subject: Subject, capacity: int, rows: int, wanted: str, **asked: Any) -> list[str]:
    """Return lines that make a buffer `b`, add rows 1 to `rows`, and set their priorities to an expression of their
    numbers `n`."""
    size = min(capacity, rows)
    value = re.sub(r"\bn\b", 'np.asarray(x["obs"])[:, 0]', wanted)
    update = f'[update(b, x["indexes"], {value}) for x in [sample(b, {size}) for _ in range({MOST_BATCHES})]]'
    return [f"b = {made(subject, capacity, **asked)}", f"{adds(subject, 1, rows)}; i % {size} or {update}"]


def batch(subject: Subject, first: int, last: int) -> str:
    """Return a line that adds rows as one batch."""
    return f"i = np.arange({first}, {last + 1}); {add_batch(subject)}"


def add_batch(subject: Subject) -> str:
    """Return a call of `add_batch` with the rows `i`, an array."""
    values = {
        "obs": 'np.repeat(i[:, None], 4, 1).astype("float32")',
        "act": "i % 5",
        "rew": 'i.astype("float32")',
        "next_obs": 'np.repeat(i[:, None] + 1, 4, 1).astype("float32")',
        "done": DONE,
        "terminated": DONE,
        "truncated": "i < 0",
    }
    accepts = subject.functions.accepts
    return f"add_batch({', '.join(['b', *(f'{k}={v}' for k, v in values.items() if accepts('add_batch', k))])})"


def exactly(held: Array, size: int, batches: int, error: WrongRows | None = None, buffer: str = "b") -> list[str]:
    """Return lines that compare all drawn rows with those that are stored, or with the field that differed. All stored
    rows must have been drawn, unless `error` says which rows were wrong."""
    if error is not None and error.kind == MIXED and error.field != "obs":
        value = re.sub(r"\bn\b", 'np.asarray(x["obs"])[:, :1]', VALUES[error.field])
        cells = f'np.asarray(x["{error.field}"]).reshape({size}, -1)'
        drawn_rows = f"[sample({buffer}, {size}) for _ in range({batches})]"
        return [f"assert all(({cells} == ({value})).all() for x in {drawn_rows})"]
    compared = "==" if error is None else "<="
    return [
        f"n = set({drawn(size, batches, buffer)})",
        f"assert n {compared} set(range({held[0]}, {held[-1] + 1})), sorted(n)",
    ]
