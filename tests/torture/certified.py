"""Rows that certify themselves: every word of a row follows from its id, which encodes writer and sequence number.

A mixture of two rows is therefore detected, wherever the seam is, and so is memory that was never written. The
priority follows from the id too, so a priority that was meant for another row is also detected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

Batch = Mapping[str, np.ndarray]
Due = tuple[int, int, int]  # rows that must be stored: number of the writer, sequence number of the first, count

NARROW, WIDE = 2, 7000  # words of an obs: rows of 41 bytes, and of 56 KB
FRAMED = 0  # an obs is a stack of frames, each stored once: consecutive rows of a writer share all frames but one
STACK, FRAME = 4, 16  # frames in a stack, words in a frame
SEQUENCE_BITS = 40
DRAWS = 8
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # an odd factor, so that different ids remain different
_PLACE = np.arange(1, WIDE + 1, dtype=np.uint64) * np.uint64(0xD1B54A32D192ED03)


def env_dict(width: int) -> dict:
    if width == FRAMED:
        obs = {"dtype": np.uint64, "shape": (FRAME, STACK)}
        return {"id": {"dtype": np.uint64}, "obs": obs, "next_obs": obs, "done": {"dtype": np.uint8}}
    return {
        "id": {"dtype": np.uint64},
        "obs": {"dtype": np.uint64, "shape": width},
        "next_obs": {"dtype": np.uint64, "shape": 2},
        "done": {"dtype": np.uint8},
    }


def options(width: int, sequence: int = 0) -> dict:
    """Return the options of a buffer for such rows. If `sequence` is not 0, it draws sequences of so many steps."""
    chosen: dict = {"next_of": "obs", "stack_compress": "obs"} if width == FRAMED else {}
    return chosen | ({"sequences": {"size": sequence, "ends": "cross", "done": []}} if sequence else {})


def ids(writer: int, first: int, count: int) -> np.ndarray:
    """Return the ids of the rows `first` to `first + count - 1` of `writer`; both count from 1."""
    return np.arange(first, first + count, dtype=np.uint64) | np.uint64(writer << SEQUENCE_BITS)


def writers_of(row_ids: np.ndarray) -> np.ndarray:
    return (row_ids >> np.uint64(SEQUENCE_BITS)).astype(np.int64)


def sequences_of(row_ids: np.ndarray) -> np.ndarray:
    return (row_ids & np.uint64((1 << SEQUENCE_BITS) - 1)).astype(np.int64)


def rows(row_ids: np.ndarray, width: int) -> dict[str, np.ndarray]:
    mixed = row_ids * _SPREAD
    done = (mixed >> np.uint64(56)).astype(np.uint8)
    if width == FRAMED:
        return {"id": row_ids, "obs": _stacks(row_ids), "next_obs": _stacks(row_ids + np.uint64(1)), "done": done}
    return {
        "id": row_ids,
        "obs": mixed[:, None] + _PLACE[:width],
        "next_obs": mixed[:, None] ^ _PLACE[:2],
        "done": done,
    }


def _stacks(oldest: np.ndarray) -> np.ndarray:
    numbers = oldest[:, None] + np.arange(STACK, dtype=np.uint64)
    return (numbers * _SPREAD)[:, None, :] + _PLACE[:FRAME, None]


def torn(batch: Batch) -> np.ndarray:
    """Return for each row whether its values differ from what its id determines."""
    row_ids = batch["id"].ravel()
    width = FRAMED if batch["obs"].ndim == 3 else batch["obs"].shape[1]
    # All columns together first: reductions along short rows cost more than everything else.
    parts = [
        (batch[name].reshape(column.shape) == column).reshape(len(row_ids), -1 if len(row_ids) else 1)
        for name, column in rows(row_ids, width).items()
        if name != "id"
    ]
    if all(part.all() for part in parts):
        return np.zeros(len(row_ids), bool)
    return ~np.logical_and.reduce([part.all(axis=1) for part in parts])


def priorities(row_ids: np.ndarray) -> np.ndarray:
    """Return float32 in [1, 2), with 2^18 different values, so that two rows rarely have the same priority."""
    mixed = row_ids * _SPREAD
    return (1 + (mixed >> np.uint64(46)).astype(np.float64) * 2.0**-18).astype(np.float32)


def changed_priorities(row_ids: np.ndarray) -> np.ndarray:
    """Return what learners set: twice the priority or the same priority, depending on the id."""
    return priorities(row_ids) * (1 + (row_ids & np.uint64(1)).astype(np.float32))


def stale_priorities(batch: Batch) -> int:
    """Return how many rows of a sample were drawn with priorities that they never had.

    The buffer must have alpha=1 and eps=0, and the sample beta=1. A weight is then smallest / priority. The
    smallest is unknown but the same for all rows of a batch, so the median of what the rows imply is used.
    """
    smallest = np.log2(batch["weights"].ravel().astype(np.float64) * priorities(batch["id"].ravel()))
    turn = smallest - np.floor(smallest)  # ignores a factor of 2, by which an update may have changed the priority
    off = np.abs(turn - np.sort(turn)[len(turn) // 2])
    return int((np.minimum(off, 1 - off) > 2e-6).sum())


def draws_sequences(buffer: Any) -> bool:
    return hasattr(buffer, "_layout") and "sequences" in buffer._layout.options


def broken(batch: Batch) -> int:
    """How many sequences are not consecutive rows of one writer, or differ from them in where the stream begins."""
    row_ids = batch["id"][..., 0]
    wrong = row_ids != row_ids[:, :1] + np.arange(row_ids.shape[1], dtype=np.uint64)
    wrong |= batch["is_first"] != (sequences_of(row_ids) == 1)
    return int(wrong.any(axis=1).sum())


def sample(buffer: Any, count: int, findings: Findings, **options: Any) -> tuple[Batch, Batch]:
    """Draw rows or, from a buffer of sequences, as many sequences; count those that are broken.

    Returns what was drawn, and the rows that have the weights and indexes: those with which sequences end.
    """
    if not draws_sequences(buffer):
        drawn = buffer.sample(count, **options)
        return drawn, drawn
    drawn = buffer.sample_sequences(count, **options)
    findings.broken += broken(drawn)
    return drawn, {name: column[:, -1] if name in env_dict(NARROW) else column for name, column in drawn.items()}


def as_rows(batch: Batch) -> Batch:
    """The rows of all sequences of a batch, if it is one of sequences."""
    if "is_first" not in batch:
        return batch
    fields = ((name, batch[name]) for name in env_dict(NARROW))
    return {name: column.reshape(-1, *column.shape[2:]) for name, column in fields}


def look_at_sequences(buffer: Any, everything: Batch, findings: Findings, cut: int | None = None) -> None:
    """Of a buffer of sequences at rest: those that can be drawn are some of those that its rows are.

    If its streams were cut at most `cut` times since the oldest row, no others are missing.
    """
    size = buffer._layout.options["sequences"]["size"]
    stored = np.sort(everything["id"].ravel())
    whole = int((stored[size - 1 :] == stored[: len(stored) - size + 1] + np.uint64(size - 1)).sum())
    count = buffer.get_valid_sequences()
    findings.broken += max(0, count - whole)
    if cut is not None:
        findings.undrawn += max(0, whole - count - cut * size)
    if count > 0:
        drawn, ends = sample(buffer, DRAWS * count, findings)
        if "weights" in drawn:  # stratified: see look_at_all()
            findings.undrawn += max(0, count - len(np.unique(ends["id"])))


@dataclass
class Findings:
    """What a learner, or a check of all rows, has found."""

    rows: int = 0
    torn: int = 0
    unwritten: int = 0
    invented: int = 0
    duplicated: int = 0
    lost: int = 0
    undrawn: int = 0
    stale: int = 0
    broken: int = 0  # sequences

    FAULTS: ClassVar = ("torn", "unwritten", "invented", "duplicated", "lost", "undrawn", "stale", "broken")

    def __add__(self, other: Findings) -> Findings:
        return Findings(*(getattr(self, name) + getattr(other, name) for name in vars(self)))

    def faults(self) -> dict[str, int]:
        return {name: count for name in self.FAULTS if (count := getattr(self, name))}


def read(batch: Batch, begun: np.ndarray, findings: Findings) -> None:
    """Count a sample's rows and faults. `begun[w]` rows had been begun by writer w when the sample ENDED."""
    row_ids = batch["id"].ravel()
    findings.rows += len(row_ids)
    bad = torn(batch)
    if bad.any():
        # zeros: memory that was never written
        zero = np.logical_and.reduce([(batch[n].reshape(len(row_ids), -1) == 0).all(axis=1) for n in env_dict(2)])
        findings.unwritten += int(zero.sum())
        findings.torn += int((bad & ~zero).sum())
        row_ids = row_ids[~bad]
    writer = writers_of(row_ids)
    known = writer < len(begun)
    findings.invented += int((~known | (sequences_of(row_ids) > begun[np.where(known, writer, 0)])).sum())


def look_at_all(
    everything: Batch, begun: np.ndarray, due: list[Due], findings: Findings, drawn: Batch | None = None
) -> None:
    """Check a buffer at rest: no row is stored twice, all due rows are stored, and all rows can be drawn.

    `drawn` is a prioritized sample of `DRAWS` times as many rows, one from each equal part of the sum of priorities.
    Priorities are between 1 and 4, so each row covers at least one whole part and must be drawn.
    """
    read(everything, begun, findings)
    stored = everything["id"].ravel()
    findings.duplicated += len(stored) - len(np.unique(stored))
    for writer, first, count in due:
        findings.lost += int(np.isin(ids(writer, first, count), stored, invert=True).sum())
    if drawn is not None:
        read(drawn, begun, findings)
        findings.stale += stale_priorities(drawn)
        findings.undrawn += int(np.isin(stored, drawn["id"].ravel(), invert=True).sum())
