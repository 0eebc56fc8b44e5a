"""Correctness checks that run before any timing, and that every peer must pass, whatever its speed.

`AddedRows` knows the rows that were added, and checks that a batch contains only such rows, byte for byte and with the
fields of a row kept together. The `check_*` functions drive an adapter and raise `WrongAnswer`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from adapters.base import Adapter, Array, Columns, Field, Spec, Step, WrongAnswer
from adapters.behaviours import ImportanceWeights

#: The probability with which a correct peer fails a distribution check.
SIGNIFICANCE = 1e-6
EPSILON = 1e-14  # relative accuracy of a tail's probability


def keyed_columns(fields: Mapping[str, Field], rows: int, first: int = 0) -> Columns:
    """Return rows `first` .. `first + rows - 1` of an infinite series in which every float, wide integer and frame is
    unique. Flags, actions and small integers repeat."""
    keys = np.arange(first, first + rows)
    columns = {}
    for offset, (name, field) in enumerate(fields.items()):
        dtype, cells = np.dtype(field.dtype), int(np.prod(field.shape, dtype=int))
        each = np.arange(cells)
        if dtype.kind == "b":
            values = (keys[:, None] + each) % 3 == 0
        elif name == "act" and dtype.kind in "iu":
            values = (keys[:, None] + each) % 5
        elif dtype.kind == "u" and dtype.itemsize == 1:
            # The key's four bytes repeat, so that each part of a frame identifies its row.
            stamp = (keys + offset * 1_000_003).astype("<u4").view(np.uint8).reshape(rows, 4)
            values = np.tile(stamp, (1, cells // 4 + 1))[:, :cells]
        elif dtype.kind in "iu":  # not via floats, whose values may not fit into a narrow integer
            values = keys[:, None] + offset + each
        else:
            values = keys[:, None] + (offset + 1) / 8 + each / 1024
        columns[name] = values.astype(dtype).reshape(rows, *field.shape)
    return columns


def as_steps(columns: Columns) -> list[Step]:
    """Return the rows of `columns` as a training loop has them: Python scalars, and a separate array for each row."""
    parts = []
    for name in Step._fields:
        column = columns[name]
        parts.append(column.tolist() if column.ndim == 1 else [row.copy() for row in column])
    return list(map(Step, *parts))


def as_dicts(columns: Columns) -> list[dict[str, Any]]:
    """Return the rows of `columns`, which may have any fields, as dicts."""
    return [
        {name: row.item() if row.ndim == 0 else row.copy() for name, row in zip(columns, rows, strict=True)}
        for rows in zip(*columns.values(), strict=True)
    ]


class AddedRows:
    """The rows that a sample may contain. Create it once per workload: it reads every byte of `columns`."""

    def __init__(self, columns: Columns, fields: Mapping[str, Field]) -> None:
        self.fields = fields
        self._added = self._digests(columns, len(next(iter(columns.values()))))
        rows = list(zip(*self._added.values(), strict=True))
        self._row = dict(zip(reversed(rows), range(len(rows) - 1, -1, -1), strict=True))

    def check(self, batch: Columns, rows: int | None = None) -> Array:
        """Return, for each row of `batch`, the number of the first added row that equals it.

        `rows` is the number of rows that the batch must have.
        """
        missing = [name for name in self.fields if name not in batch]
        if missing:
            raise WrongAnswer(f"{missing[0]}: missing from the batch, which has {', '.join(batch)}")
        if rows is None:
            rows = len(batch[next(iter(self.fields))])
        digests = self._digests(batch, rows)
        numbers = np.empty(rows, dtype=np.int64)
        for i, row in enumerate(zip(*digests.values(), strict=True)):
            number = self._row.get(row)
            if number is None:
                raise WrongAnswer(self._explain(i, dict(zip(digests, row, strict=True))))
            numbers[i] = number
        return numbers

    def _digests(self, columns: Columns, rows: int) -> dict[str, list[bytes]]:
        return {name: _field_digests(name, columns[name], field, rows) for name, field in self.fields.items()}

    def _explain(self, position: int, row: dict[str, bytes]) -> str:
        for name, digest in row.items():
            if digest not in self._added[name]:
                return f"{name}: row {position} of the batch has a value that was never added"
        names = ", ".join(self.fields)
        return f"{names}: row {position} of the batch mixes values of different added rows"


def _field_digests(name: str, column: Array, field: Field, rows: int) -> list[bytes]:
    column, dtype = np.asarray(column), np.dtype(field.dtype)
    shapes = [(rows, *field.shape)] if field.shape else [(rows,), (rows, 1)]
    if column.shape not in shapes:
        raise WrongAnswer(f"{name}: shape {column.shape}, expected {' or '.join(map(str, shapes))}")
    if column.dtype.kind != dtype.kind and not are_pixels_as_floats(column, dtype):
        raise WrongAnswer(f"{name}: dtype {column.dtype}, expected {dtype}")
    # A library that keeps Python's float64 is as correct as one that stores float32: compare what the learner reads.
    cells = np.ascontiguousarray(column.astype(dtype, copy=False)).reshape(rows, -1).view(np.uint8)
    if (size := cells.shape[1]) <= 64:
        whole = cells.tobytes()
        return [whole[at : at + size] for at in range(0, len(whole), size)]
    return [hashlib.blake2b(cell, digest_size=16).digest() for cell in cells]


def are_pixels_as_floats(column: Array, added: np.dtype) -> bool:
    """Whether a column of bytes (the pixels of frames) was returned as floats with the same values, as networks need
    them."""
    return added == np.uint8 and column.dtype.kind == "f" and np.array_equal(column, column.astype(added))


def check_rows(batch: Columns, columns: Columns, fields: Mapping[str, Field]) -> Array:
    """Check that each row of `batch` is a row of `columns`; return their numbers. Use `AddedRows` for many batches."""
    return AddedRows(columns, fields).check(batch)


def draw(adapter: Adapter, spec: Spec, batch_size: int) -> Columns:
    """Draw one batch as a learner does: if the buffer is prioritized, also update the priorities of the batch's
    rows."""
    batch = adapter.sample(batch_size)
    if spec.prioritized:
        copy = {name: np.array(column) for name, column in batch.items()}
        adapter.update_priorities(batch["indexes"], np.ones(batch_size))
        return copy
    return batch


def check_full(adapter: Adapter, capacity: int) -> None:
    """Check that the number of stored rows equals the capacity."""
    stored = len(adapter)
    if stored != capacity and not (adapter.contract.whole_episodes and stored):
        raise WrongAnswer(f"size: {stored} rows stored, expected {capacity}")


def check_round_trip(adapter: Adapter, spec: Spec, known: AddedRows, batch_size: int = 32, batches: int = 4) -> None:
    """Check that every row in a few batches is one of the `known` rows, the only ones that were added."""
    for _ in range(batches):
        known.check(draw(adapter, spec, batch_size), batch_size)


def check_overwriting(adapter: Adapter, spec: Spec, columns: Columns, batch_size: int = 32, batches: int = 80) -> None:
    """Check that exactly the last `capacity` rows of `columns` can be drawn. The rows have been added in order.

    Rows not yet passed to the library (`Adapter.waiting`) count as not added. The default number of draws suffices for
    a capacity of about 128 rows.
    """
    added = len(next(iter(columns.values()))) - adapter.waiting
    kept = min(added, spec.capacity)
    if len(adapter) != kept:
        raise WrongAnswer(f"size: {len(adapter)} rows stored, expected {kept}")
    rows = AddedRows({name: column[added - kept : added] for name, column in columns.items()}, spec.fields)
    seen: set[int] = set()
    for _ in range(batches):
        seen.update(rows.check(draw(adapter, spec, batch_size), batch_size).tolist())
    never = set(range(kept)) - seen
    if spec.prioritized and not adapter.contract.draws_last_slot:
        # This is the number of the row in the last slot of the ring; the oldest row is number 0.
        never.discard(kept - 1 if added <= spec.capacity else (spec.capacity - 1 - added) % spec.capacity)
    if never:
        raise WrongAnswer(f"rows: {len(never)} of {kept} stored rows were never drawn in {batches * batch_size} draws")


def check_priorities(adapter: Adapter, spec: Spec, *, rows: int = 64, batch_size: int = 16, batches: int = 400) -> None:
    """Check that a prioritized adapter draws by priority, returns correct weights, and applies updates. It must be
    empty.

    Adds `rows` rows from `keyed_columns` (at most the capacity); they remain in the buffer, with changed priorities.
    """
    columns = keyed_columns(spec.fields, rows)
    raw = np.random.default_rng(spec.seed).permutation(np.geomspace(0.05, 5.0, rows))
    adapter.add_batch(columns, raw.copy())
    known = AddedRows(columns, spec.fields)
    counts = _check_weights_and_count(adapter, spec, known, raw, batch_size, batches)
    check_distribution(counts, _expected_shares(adapter, spec, raw))
    _check_update(adapter, spec, known, rows)


class Bounds(Protocol):
    """What a buffer makes of a priority before that is raised to alpha."""

    @property
    def eps(self) -> float: ...

    @property
    def largest(self) -> float: ...


def stored(priorities: Any, bounds: Bounds) -> Any:
    """Return what a buffer with these bounds raises to alpha, of priorities as they are passed to it."""
    return np.minimum(priorities + bounds.eps, bounds.largest)


def _expected_shares(adapter: Adapter, spec: Spec, raw: Array) -> Array:
    shares: Array = stored(raw, adapter.contract) ** spec.alpha
    if not adapter.contract.draws_last_slot:
        shares[-1] = 0.0
    shares /= shares.sum()
    return shares


def _check_weights_and_count(
    adapter: Adapter, spec: Spec, known: AddedRows, raw: Array, batch_size: int, batches: int
) -> Array:
    """Check the weights, and count how often each row is drawn. Each update sets its rows' priorities to the values
    that they already have."""
    counts = np.zeros(len(raw), dtype=np.int64)
    for _ in range(batches):
        batch = adapter.sample(batch_size)
        numbers = known.check(batch, batch_size)
        check_weights(batch["weights"], raw[numbers], raw, adapter, spec)
        adapter.update_priorities(batch["indexes"], raw[numbers])
        # Without replacement, only a batch's first row is drawn in proportion to the priorities.
        counted = numbers[:1] if adapter.contract.withholds_sampled_rows else numbers
        np.add.at(counts, counted, 1)
    return counts


def check_weights(weights: Array, drawn: Array, all_raw: Array, adapter: Adapter, spec: Spec) -> None:
    """Check the importance weights of rows with raw priorities `drawn` (Schaul et al. 2015, equation 2)."""
    weights = np.asarray(weights)
    if weights.shape != drawn.shape or weights.dtype.kind != "f":
        raise WrongAnswer(
            f"weights: dtype {weights.dtype} and shape {weights.shape}, expected floats of shape {drawn.shape}"
        )
    # N and the total cancel out: a weight depends only on the ratio of the row's priority to that of the row with the
    # largest weight.
    base = (drawn if adapter.contract.weights is ImportanceWeights.OVER_BATCH else all_raw).min()
    ratio = stored(drawn, adapter.contract) / stored(base, adapter.contract)
    expected = ratio ** (-spec.alpha * spec.beta)
    if not np.allclose(weights, expected, rtol=1e-3, atol=0):
        worst = int(np.argmax(np.abs(weights - expected)))
        raise WrongAnswer(f"weights: {weights[worst]:.6g}, expected {expected[worst]:.6g} by the formula")


def check_distribution(counts: Array, shares: Array) -> None:
    """Test `counts` against the expected `shares` with a chi-square test; a row with share 0 must never be drawn.

    Stratified draws vary less than independent ones, so they pass more easily.
    """
    impossible = np.flatnonzero((shares == 0) & (counts > 0))
    if impossible.size:
        raise WrongAnswer(f"priorities: row {impossible[0]} was drawn although its probability is 0")
    chi2, p = chi_square(counts[shares > 0], shares[shares > 0])
    if not p > SIGNIFICANCE:
        raise WrongAnswer(f"priorities: rows are not drawn by priority (chi-square {chi2:.1f}, p = {p:.1e})")


def chi_square(counts: Array, shares: Array, least: float = 0.0) -> tuple[float, float]:
    """Return the chi-square statistic of `counts` against `shares`, and the probability of a statistic at least that
    large.

    Rows with fewer than `least` expected draws are grouped, since the test needs about five per group.
    """
    order = np.argsort(shares)
    expected, seen = (shares / shares.sum() * counts.sum())[order], counts[order]
    groups = _groups(expected, least)
    expected, seen = (np.bincount(groups, weights=each) for each in (expected, seen))
    chi2 = float(((seen - expected) ** 2 / expected).sum())
    return chi2, chi_square_tail(chi2, max(1, len(expected) - 1))


def chi_square_tail(chi2: float, freedom: int) -> float:
    """Return the probability of a chi-square statistic above `chi2`, as scipy.stats.chi2.sf, which a checked buffer's
    Python may lack (Abramowitz and Stegun, 6.5.29 and 6.5.31)."""
    a, x = freedom / 2, chi2 / 2
    if x <= 0:
        return 1.0
    scale = a * math.log(x) - x - math.lgamma(a)
    if x < a + 1:  # the series of the lower tail
        term = total = 1 / a
        while term > total * EPSILON:
            a += 1
            term *= x / a
            total += term
        return 1 - math.exp(scale) * total
    b = x + 1 - a  # the continued fraction of the upper tail, by Lentz's method
    c, d = math.inf, 1 / b
    fraction, i = d, 0
    while True:
        i, b = i + 1, b + 2
        numerator = i * (a - i)
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        fraction *= c * d
        if abs(c * d - 1) < EPSILON:
            return math.exp(scale) * fraction


def _groups(expected: Array, least: float) -> Array:
    """Group neighbouring rows so that at least `least` draws are expected per group. The remainder joins the last
    group."""
    groups, group, held = np.zeros(len(expected), int), 0, 0.0
    for i, each in enumerate(expected):
        if held >= least and held > 0 and expected[i:].sum() >= least:
            group, held = group + 1, 0.0
        groups[i] = group
        held += each
    return groups


def _check_update(adapter: Adapter, spec: Spec, known: AddedRows, rows: int) -> None:
    """Raise the priority of every eighth row, and lower the priorities of other rows when they are drawn: in the end,
    nearly all draws must return raised rows."""
    batch_size = 4  # fewer than the raised rows, so that drawing without replacement can pass
    raised = np.arange(rows) % 8 == 3
    share: list[float] = []
    rounds = 8 * rows + adapter.contract.batches_ahead
    for _ in range(rounds):
        batch = adapter.sample(batch_size)
        numbers = known.check(batch, batch_size)
        share.append(float(raised[numbers].mean()))
        adapter.update_priorities(batch["indexes"], np.where(raised[numbers], 5_000.0, 1e-3))
    late = float(np.mean(share[-rounds // 4 :]))
    if late < 0.9:
        raise WrongAnswer(
            f"priorities: {late:.0%} of the draws returned rows with a raised priority, expected nearly all"
        )
