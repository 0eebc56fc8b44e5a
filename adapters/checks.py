"""The answer is checked before it is timed: what every peer must get right, whatever its speed.

`AddedRows` knows the rows that were added and tells whether a batch holds such rows, byte for byte
and all its fields together. The `check_*` functions drive an adapter and raise `WrongAnswer`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from adapters.base import Adapter, Columns, Field, Spec, Step, WrongAnswer

#: A right peer fails a distribution check less often than this.
SIGNIFICANCE = 1e-6


def keyed_columns(fields: Mapping[str, Field], rows: int, first: int = 0) -> Columns:
    """Rows `first` .. `first + rows - 1` of an endless series in which no two rows share a value of a float, of a
    wide integer or of a frame. Flags, actions and small integers repeat."""
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
            # The key's four bytes, over and over, so that each part of a frame tells its row.
            stamp = (keys + offset * 1_000_003).astype("<u4").view(np.uint8).reshape(rows, 4)
            values = np.tile(stamp, (1, cells // 4 + 1))[:, :cells]
        elif dtype.kind in "iu":  # not through floats, which a narrow integer can't hold
            values = keys[:, None] + offset + each
        else:
            values = keys[:, None] + (offset + 1) / 8 + each / 1024
        columns[name] = values.astype(dtype).reshape(rows, *field.shape)
    return columns


def as_steps(columns: Columns) -> list[Step]:
    """The rows of `columns` as a training loop has them in hand: scalars are Python's, arrays are the row's own."""
    parts = []
    for name in Step._fields:
        column = columns[name]
        parts.append(column.tolist() if column.ndim == 1 else [row.copy() for row in column])
    return list(map(Step, *parts))


def as_dicts(columns: Columns) -> list[dict]:
    """The same, for rows of any fields."""
    return [
        {name: row.item() if row.ndim == 0 else row.copy() for name, row in zip(columns, rows, strict=True)}
        for rows in zip(*columns.values(), strict=True)
    ]


class AddedRows:
    """The rows that may come back. Make it once for a workload: it reads every byte of `columns`."""

    def __init__(self, columns: Columns, fields: Mapping[str, Field]) -> None:
        self.fields = fields
        digests = self._digests(columns, len(next(iter(columns.values()))))
        self._row = {row: number for number, row in reversed(list(enumerate(zip(*digests.values(), strict=True))))}
        self._known = {name: set(column) for name, column in digests.items()}

    def check(self, batch: Columns, rows: int | None = None) -> np.ndarray:
        """The number of the added row that each row of `batch` is (the first such, where rows repeat).

        `rows` is the number of rows the batch should have.
        """
        missing = [name for name in self.fields if name not in batch]
        if missing:
            raise WrongAnswer(f"{missing[0]}: not in the batch, which has {', '.join(batch)}")
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
            if digest not in self._known[name]:
                return f"{name}: row {position} of the batch holds a value that was never added"
        names = ", ".join(self.fields)
        return f"{names}: row {position} of the batch is put together from different added rows"


def _field_digests(name: str, column: np.ndarray, field: Field, rows: int) -> list[bytes]:
    column, dtype = np.asarray(column), np.dtype(field.dtype)
    shapes = [(rows, *field.shape)] if field.shape else [(rows,), (rows, 1)]
    if column.shape not in shapes:
        raise WrongAnswer(f"{name}: shape {column.shape}, expected {' or '.join(map(str, shapes))}")
    if column.dtype.kind != dtype.kind:
        raise WrongAnswer(f"{name}: dtype {column.dtype}, expected {dtype}")
    # A library that keeps Python's float64 is as right as one that stores float32: compare what the learner reads.
    cells = np.ascontiguousarray(column.astype(dtype, copy=False)).reshape(rows, -1).view(np.uint8)
    if cells.shape[1] <= 64:
        return [cell.tobytes() for cell in cells]
    return [hashlib.blake2b(cell, digest_size=16).digest() for cell in cells]


def check_rows(batch: Columns, columns: Columns, fields: Mapping[str, Field]) -> np.ndarray:
    """Each row of `batch` is one of the rows of `columns`: gives their numbers. See `AddedRows` for many batches."""
    return AddedRows(columns, fields).check(batch)


def draw(adapter: Adapter, spec: Spec, batch_size: int) -> Columns:
    """One batch, as a learner draws it: a prioritized buffer is told some priorities afterwards."""
    batch = adapter.sample(batch_size)
    if spec.prioritized:
        copy = {name: np.array(column) for name, column in batch.items()}
        adapter.update_priorities(batch["indexes"], np.ones(batch_size))
        return copy
    return batch


def check_full(adapter: Adapter, capacity: int) -> None:
    """As many rows are stored as there is room for."""
    stored = len(adapter)
    if stored != capacity and not (adapter.whole_episodes and stored):
        raise WrongAnswer(f"size: {stored} rows stored, expected {capacity}")


def check_round_trip(adapter: Adapter, spec: Spec, known: AddedRows, batch_size: int = 32, batches: int = 4) -> None:
    """Some batches of an adapter that holds rows of `known` and no others: every row is one of them, whole."""
    for _ in range(batches):
        known.check(draw(adapter, spec, batch_size), batch_size)


def check_overwriting(adapter: Adapter, spec: Spec, columns: Columns, batch_size: int = 32, batches: int = 80) -> None:
    """Of `columns`, already added in order, the last `capacity` rows and no others can be drawn, and all of them.

    Rows that still wait (`Adapter.waiting`) count as not added. For a small capacity: with the default number of draws,
    up to about 128 rows.
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
    if spec.prioritized and not adapter.promises.draws_last_slot:
        # The kept row, oldest first, that lies in the last slot of the ring.
        never.discard(kept - 1 if added <= spec.capacity else (spec.capacity - 1 - added) % spec.capacity)
    if never:
        raise WrongAnswer(f"rows: {len(never)} of {kept} stored rows were never drawn in {batches * batch_size} draws")


def check_priorities(adapter: Adapter, spec: Spec, *, rows: int = 64, batch_size: int = 16, batches: int = 400) -> None:
    """An empty prioritized adapter draws by priority, gives the right weights, and follows updates.

    Adds `rows` keyed rows (no more than the capacity) and leaves them in the buffer with their priorities
    changed.
    """
    columns = keyed_columns(spec.fields, rows)
    raw = np.random.default_rng(spec.seed).permutation(np.geomspace(0.05, 5.0, rows))
    adapter.add_batch(columns, raw.copy())
    known = AddedRows(columns, spec.fields)
    counts = _check_weights_and_count(adapter, spec, known, raw, batch_size, batches)
    check_distribution(counts, _expected_shares(adapter, spec, raw))
    _check_update(adapter, spec, known, rows)


def _expected_shares(adapter: Adapter, spec: Spec, raw: np.ndarray) -> np.ndarray:
    shares = (raw + adapter.eps) ** spec.alpha
    if not adapter.promises.draws_last_slot:
        shares[-1] = 0.0
    return shares / shares.sum()


def _check_weights_and_count(
    adapter: Adapter, spec: Spec, known: AddedRows, raw: np.ndarray, batch_size: int, batches: int
) -> np.ndarray:
    """How often each row was drawn. Every batch is given its own priorities again, which changes nothing."""
    counts = np.zeros(len(raw), dtype=np.int64)
    for _ in range(batches):
        batch = adapter.sample(batch_size)
        numbers = known.check(batch, batch_size)
        check_weights(batch["weights"], raw[numbers], raw, adapter, spec)
        adapter.update_priorities(batch["indexes"], raw[numbers])
        # Without replacement only the first draw of a batch is proportional to the priorities.
        counted = numbers[:1] if adapter.promises.takes_out else numbers
        np.add.at(counts, counted, 1)
    return counts


def check_weights(weights: np.ndarray, drawn: np.ndarray, all_raw: np.ndarray, adapter: Adapter, spec: Spec) -> None:
    """Importance weights of rows with raw priorities `drawn`, by Schaul et al. 2015, equation 2."""
    weights = np.asarray(weights)
    if weights.shape != drawn.shape or weights.dtype.kind != "f":
        raise WrongAnswer(f"weights: {weights.dtype} {weights.shape}, expected floats {drawn.shape}")
    # N and the total cancel: what is left is the row's priority against that of the most weighted row.
    base = (drawn if adapter.promises.weights == "over the batch" else all_raw).min()
    expected = ((drawn + adapter.eps) / (base + adapter.eps)) ** (-spec.alpha * spec.beta)
    if not np.allclose(weights, expected, rtol=1e-3, atol=0):
        worst = int(np.argmax(np.abs(weights - expected)))
        raise WrongAnswer(f"weights: {weights[worst]:.6g} where the formula gives {expected[worst]:.6g}")


def check_distribution(counts: np.ndarray, shares: np.ndarray) -> None:
    """A chi-square test of `counts` against the expected `shares`; never drawn is right where a share is 0.

    Stratified draws vary less than independent ones, so they pass all the more easily.
    """
    impossible = np.flatnonzero((shares == 0) & (counts > 0))
    if impossible.size:
        raise WrongAnswer(f"priorities: row {impossible[0]} has no probability and was drawn")
    chi2, p = chi_square(counts[shares > 0], shares[shares > 0])
    if not p > SIGNIFICANCE:
        raise WrongAnswer(f"priorities: rows are not drawn by priority (chi-square {chi2:.1f}, p = {p:.1e})")


def chi_square(counts: np.ndarray, shares: np.ndarray, least: float = 0.0) -> tuple[float, float]:
    """How far `counts` are from the expected `shares`, and how often chance alone gives that much.

    Rows that would be drawn fewer than `least` times count together: the test holds for no fewer than about five.
    """
    from scipy.special import chdtrc

    order = np.argsort(shares)
    expected, seen = (shares / shares.sum() * counts.sum())[order], counts[order]
    groups = _groups(expected, least)
    expected, seen = (np.bincount(groups, weights=each) for each in (expected, seen))
    chi2 = float(((seen - expected) ** 2 / expected).sum())
    return chi2, float(chdtrc(max(1, len(expected) - 1), chi2))


def _groups(expected: np.ndarray, least: float) -> np.ndarray:
    """Neighbours until there are `least`; what is left over at the end joins the last group."""
    groups, group, held = np.zeros(len(expected), int), 0, 0.0
    for i, each in enumerate(expected):
        if held >= least and held > 0 and expected[i:].sum() >= least:
            group, held = group + 1, 0.0
        groups[i] = group
        held += each
    return groups


def _check_update(adapter: Adapter, spec: Spec, known: AddedRows, rows: int) -> None:
    """After every eighth row is raised and the rest lowered as they are drawn, nearly all draws are raised rows."""
    batch_size = 4  # fewer than the raised rows, so that drawing without replacement can do it too
    raised = np.arange(rows) % 8 == 3
    share: list[float] = []
    rounds = 8 * rows + adapter.batches_ahead
    for _ in range(rounds):
        batch = adapter.sample(batch_size)
        numbers = known.check(batch, batch_size)
        share.append(float(raised[numbers].mean()))
        adapter.update_priorities(batch["indexes"], np.where(raised[numbers], 5_000.0, 1e-3))
    late = float(np.mean(share[-rounds // 4 :]))
    if late < 0.9:
        raise WrongAnswer(f"priorities: {late:.0%} of the draws are rows with a raised priority, expected nearly all")
