"""Tools for the probes: buffers of one kind, a model of their expected contents, and observations."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from adapters.base import Adapter, Columns, Field, Spec, Unavailable
from adapters.checks import AddedRows, as_steps, chi_square, stored
from suites.check.probes import numbered
from suites.check.probes.numbered import FIELDS, SERIES

CAPACITY = 32
EXPECTED = 10.0  # minimum expected draws per group of rows in a chi-square test
REASON_CHARACTERS = 160
USUAL_DRAWS = 20_000  # per test of a distribution, in a check that is neither quick nor long
EVEN_DRAWS = 40_000
BETA_TOLERANCE = 1e-4  # of a beta that is computed from weights of 32 bits


class ProbeSettings(Protocol):
    """How much the probes do."""

    @property
    def draws(self) -> int:
        """Draws per test of a distribution."""

    @property
    def seed(self) -> int: ...


def times(setting: ProbeSettings) -> int:
    """Return how many times the usual work a probe does that counts no draws: in a long check more, so that it finds
    rarer faults."""
    return max(1, setting.draws // USUAL_DRAWS)


def even_draws(setting: ProbeSettings) -> int:
    """Return how many rows to draw from rows that are equally likely: enough to notice a bias of 10%, unless few draws
    are asked for."""
    return max(2 * setting.draws, min(10 * setting.draws, EVEN_DRAWS))


@dataclass(frozen=True)
class Seen:
    """An observed behaviour (`adapters.behaviours`), the evidence for it, and how much was checked."""

    word: str
    evidence: str
    looked_at: int
    script: str = ""  # repeats what was observed without this project (`suites.check.reproduction`)


class ProbedBuffer:
    """An adapter and the rows that it must hold, numbered in the order in which they were added."""

    def __init__(self, adapter: Adapter, spec: Spec) -> None:
        self.adapter, self.spec, self.added = adapter, spec, 0
        self.raw = np.ones(SERIES)  # priorities, by row
        self.columns = numbered.series(tuple(spec.fields.items()))

    @property
    def known(self) -> AddedRows:
        """Return the rows that may be returned, in the columns that batches have."""
        return numbered.known(tuple(self.spec.fields.items()), tuple(self.adapter.returned))

    @property
    def held(self) -> np.ndarray:
        """Return the numbers of the rows that the buffer must hold, oldest first."""
        return np.arange(*self._held)

    @property
    def _held(self) -> tuple[int, int]:
        """Return the numbers of the oldest held row, and of the row after the newest one."""
        stored = self.added - self.adapter.waiting
        return max(0, stored - self.spec.capacity), stored

    def next_rows(self, rows: int) -> Columns:
        """Return the columns of the rows to add next, as copies that the caller may change."""
        assert self.added + rows <= SERIES
        columns = {name: column[self.added : self.added + rows].copy() for name, column in self.columns.items()}
        self.added += rows
        return columns

    def add(self, rows: int) -> None:
        """Add rows one by one, without priorities."""
        self.adapter.add(as_steps(self.next_rows(rows)))

    def fill(self, rows: int, priorities: np.ndarray | float = 1.0) -> None:
        """Add rows in one call, with priorities if the buffer is prioritized."""
        if self.spec.prioritized:
            given = np.broadcast_to(np.asarray(priorities, float), rows).copy()
            self.raw[self.added : self.added + rows] = given
            self.adapter.add_batch(self.next_rows(rows), given)
        else:
            self.adapter.add_batch(self.next_rows(rows))

    def sample(self, size: int) -> tuple[np.ndarray, Columns]:
        """Sample; return the rows' numbers and the batch. Raises `WrongAnswer` if the batch contains anything other
        than added rows, and `Overwritten` if it contains a row that should have been overwritten."""
        batch = self.adapter.sample(size)
        numbers = self.known.check(batch, size)
        oldest, end = self._held
        odd = numbers[(numbers < oldest) | (numbers >= end)]
        if odd.size:
            raise Overwritten(
                f"row {odd[0]} was returned after {self.added} rows were added to a buffer of {self.spec.capacity}"
            )
        return numbers, batch

    def draw(self, size: int) -> np.ndarray:
        """Sample, and return the rows' numbers. An update would hide a wrong priority, so it is made only if the
        library withholds sampled rows until they are updated."""
        numbers, batch = self.sample(size)
        if self.takes_out:
            self.update(batch["indexes"], numbers)
        return numbers

    def update(self, indexes: Any, numbers: np.ndarray) -> None:
        if self.spec.prioritized:
            self.adapter.update_priorities(indexes, self.raw[numbers])

    def settle(self, size: int) -> None:
        """Discard prefetched batches, which were drawn from an earlier state."""
        if self.adapter.contract.batches_ahead:
            self.adapter.sample(size + 1)  # the prefetch queue may have grown; another batch size starts a new queue
            for _ in range(self.adapter.contract.batches_ahead):
                self.adapter.sample(size)

    @property
    def due(self) -> np.ndarray:
        """Return which of the held rows must be drawn in any case. The newest row has no next one yet, and in a ring
        the oldest one is where the newest may get it from."""
        due = np.ones(len(self.held), bool)
        if self.adapter.contract.next_of_rows:
            due[[0, -1]] = False
        return due

    @property
    def drawable(self) -> np.ndarray:
        """Return which of the held rows can be drawn at all, according to the contract."""
        last = self.held % self.spec.capacity == self.spec.capacity - 1
        return ~last | self.adapter.contract.draws_last_slot

    @property
    def takes_out(self) -> bool:
        """Whether sampled rows are withheld until their priorities are updated."""
        return self.spec.prioritized and self.adapter.contract.withholds_sampled_rows

    @property
    def independent(self) -> int:
        """Return how many rows of a batch are independent draws: without replacement, this is only the first row."""
        return 1 if self.takes_out else 16

    def count(self, draws: int, size: int | None = None) -> np.ndarray:
        """Return how often each held row was drawn, oldest first."""
        (first, end), size = self._held, size or self.independent
        counts = np.zeros(end - first, np.int64)
        self.settle(size)
        for _ in range(-(-draws // size)):
            np.add.at(counts, self.draw(size) - first, 1)
        return counts

    def shares(self, largest: float = np.inf) -> np.ndarray:
        """Return the probabilities with which the held rows must be drawn, or would be if priorities were clipped to
        this one."""
        if not self.spec.prioritized:
            return np.full(len(self.held), 1 / len(self.held))
        weights = np.minimum(stored(self.raw[self.held], self.adapter.contract), largest) ** self.spec.alpha
        return weights / weights.sum()


class Refused(Exception):  # noqa: N818 (what the peer did)
    """The peer refuses to make such a buffer; the message names the exception."""


class Overwritten(AssertionError):  # noqa: N818 (says what the row is)
    """A row was returned that should have been overwritten."""


def fit(counts: np.ndarray, shares: np.ndarray) -> float:
    """Return the p-value of these counts given the shares. It is also small if a row that must be drawn is missing."""
    shares = shares / shares.sum()
    missing = (counts == 0) & (shares > 0)
    never = np.exp(-shares[missing] * counts.sum()).min() * len(counts) if missing.any() else 1.0
    return min(chi_square(counts, shares, EXPECTED)[1], float(never))


class RisingBeta:
    """The beta of importance weights, batch by batch, if the buffer raises it on its own from the one that was asked
    for towards 1 (Schaul et al. 2015, section 3.4)."""

    def __init__(self, asked: float) -> None:
        self.asked = asked
        self.found: list[float] = []

    def of(self, chances: np.ndarray, weights: np.ndarray) -> float:
        """Return the beta of the next batch, of which the rows' probabilities and weights are given, or the one asked
        for if the batch shows none from the last one to 1."""
        beta, last = power(chances, weights), [self.asked, *self.found][-1]
        if not last - BETA_TOLERANCE < beta < 1 + BETA_TOLERANCE:
            return self.asked
        self.found.append(beta)
        return beta

    @property
    def rises(self) -> bool:
        """Return whether the beta rose. A constant other than the one asked for is no annealing."""
        return bool(self.found) and self.found[-1] - self.found[0] > BETA_TOLERANCE

    @property
    def is_over(self) -> bool:
        """Return whether the beta was 1 from the first batch on."""
        return bool(self.found) and self.found[0] > 1 - BETA_TOLERANCE

    @property
    def shown(self) -> str:
        return f"rising from {self.found[0]:.3g} to {self.found[-1]:.3g}"


def power(chances: np.ndarray, weights: np.ndarray) -> float:
    """Return the power, with a minus sign, of probabilities to which weights are proportional; NaN if there is none."""
    if chances.shape != weights.shape or not (weights > 0).all() or np.ptp(chances) == 0:
        return float("nan")
    x, y = np.log(chances), np.log(weights)
    x, y = x - x.mean(), y - y.mean()
    return float(-(x * y).sum() / (x * x).sum())


class BufferPool:
    """Buffers of one peer, for probes. `announce_risk` warns the watcher that a call may never return.

    A server takes seconds to start, so a buffer is reused by the next probe that needs the same kind. A probe fills the
    buffer first, unless it asks for a fresh one.
    """

    def __init__(
        self, kind: type[Adapter], setting: ProbeSettings, announce_risk: Callable[[], None] = lambda: None
    ) -> None:
        self.kind, self.setting, self.announce_risk = kind, setting, announce_risk
        self._done: dict[str, ProbedBuffer] = {}

    @property
    def has_priorities(self) -> bool:
        return self.kind.contract.priorities.value

    def refusal(self, **asked: Any) -> str | None:
        """Return why there can be no buffer as `buffer` is asked for; None if there can."""
        return self.kind.refusal(self._spec(**asked))

    def _spec(self, *, fields: Mapping[str, Field] = FIELDS, **asked: Any) -> Spec:
        return Spec(**{"capacity": CAPACITY, "fields": fields, "seed": self.setting.seed} | asked)

    @contextmanager
    def buffer(self, *, fresh: bool = False, **asked: Any) -> Iterator[ProbedBuffer]:
        spec = self._spec(**asked)
        buffer = None if fresh else self._done.pop(str(spec), None)
        if buffer is None or buffer.added > SERIES // 2:
            if buffer is not None:
                buffer.adapter.close()
            buffer = ProbedBuffer(self._make(spec), spec)
        elif left_over := buffer.added % spec.capacity:  # begin at the first slot again
            buffer.fill(spec.capacity - left_over)
        try:
            yield buffer
        except BaseException:
            buffer.adapter.close()
            raise
        if fresh or str(spec) in self._done:
            buffer.adapter.close()
        else:
            self._done[str(spec)] = buffer

    def _make(self, spec: Spec) -> Adapter:
        try:
            return self.kind.make(spec)
        except (NotImplementedError, Unavailable):
            raise
        except Exception as error:
            raise Refused(said(error)) from error

    def close(self) -> None:
        while self._done:
            self._done.popitem()[1].adapter.close()

    @contextmanager
    def priorities(self, alpha: float = 1.0, **asked: Any) -> Iterator[ProbedBuffer]:
        with self.buffer(prioritized=True, alpha=alpha, **asked) as buffer:
            yield buffer


def own(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy of a batch that keeps the peer's types."""
    return {name: copy.deepcopy(column) for name, column in batch.items()}


def said(error: BaseException) -> str:
    """Return an exception as one short line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:REASON_CHARACTERS] if text else type(error).__name__
