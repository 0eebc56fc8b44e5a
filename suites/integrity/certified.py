"""Rows that certify themselves: every word of a row is computed from the row's writer and number.

Reading a row therefore shows whether it is intact, is a mixture of several rows, or was never written. It also reveals
the row's priority, so a weight that belongs to another row is detected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from adapters.base import Columns
from suites.workloads import Workload
from suites.workloads.cartpole import FIELDS

WORKLOAD = "certified"
_LOW = 1 << 20  # a float32 holds integers up to 2^24, so a row's number takes two of them
_SAMPLE = 1_000  # rows that the record's checksum covers


def rows(writer: np.ndarray | int, number: np.ndarray) -> Columns:
    """Return the rows with these writers (counted from 1) and numbers (n,), as columns."""
    number = np.asarray(number, np.int64)
    words = _words(writer, number)
    own = [number % _LOW, number // _LOW, words[0], words[1]]
    return {
        "obs": np.stack(own, axis=1).astype(np.float32),
        "act": np.broadcast_to(np.asarray(writer, np.int32), number.shape).copy(),
        "rew": words[2].astype(np.float32),
        "next_obs": words[3:7].T.astype(np.float32),
        "done": words[7] % 2 == 1,
    }


def priorities(writer: np.ndarray | int, number: np.ndarray) -> np.ndarray:
    """Return the priority of each row, used when it is added and at every update: 1, 2 or 4."""
    return 2.0 ** (_words(writer, np.asarray(number, np.int64))[7] % 3)


def _words(writer: np.ndarray | int, number: np.ndarray) -> np.ndarray:
    """Return eight 24-bit words for each row, (8, n): SplitMix64's finalizer of writer, number and word position."""
    with np.errstate(over="ignore"):
        seed = (np.asarray(writer).astype(np.uint64) << np.uint64(40)) + number.astype(np.uint64)
        mixed = seed * np.uint64(8) + np.arange(8, dtype=np.uint64)[:, None] + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed >> np.uint64(40)).astype(np.int64)


class Reading(NamedTuple):
    """What the rows of a batch reveal, (n,) each. Writer and number are valid only where `whole` is true."""

    writer: np.ndarray
    number: np.ndarray
    whole: np.ndarray  # the row is exactly as it was written
    unwritten: np.ndarray  # all zeros: memory to which no row was ever written

    @property
    def torn(self) -> np.ndarray:
        return ~(self.whole | self.unwritten)


def read(batch: Columns) -> Reading:
    """Examine a batch, which has the columns of FIELDS; a scalar column may be (n,) or (n, 1)."""
    size = len(batch["obs"])
    found = {name: np.asarray(batch[name]).reshape(size, *field.shape) for name, field in FIELDS.items()}
    low, high = found["obs"][:, 0], found["obs"][:, 1]
    valid = (low >= 0) & (low < _LOW) & (high >= 0) & (high < _LOW) & (found["act"] > 0)
    low, high = (np.where(valid, part, 0).astype(np.int64) for part in (low, high))
    writer, number = found["act"], low + high * _LOW
    whole = valid.copy()
    for name, column in rows(np.where(valid, writer, 0), number).items():
        whole &= (found[name] == column).reshape(size, -1).all(axis=1)
    unwritten = ~np.any([column.reshape(size, -1).any(axis=1) for column in found.values()], axis=0)
    return Reading(writer, number, whole, unwritten)


def stale(reading: Reading, weights: np.ndarray) -> np.ndarray:
    """Return, for each whole row, whether its weight belongs to a priority other than the row's own. Shape: (whole
    rows,).

    With alpha and beta of 1, a weight is inversely proportional to its priority, so weight times priority is the same
    for all rows of a batch. A difference of half a level reveals a stale priority, however much a peer's sums change in
    the meantime.
    """
    writer, number = reading.writer[reading.whole], reading.number[reading.whole]
    with np.errstate(divide="ignore", invalid="ignore"):
        product = np.log2(np.asarray(weights, np.float64).reshape(-1)[reading.whole] * priorities(writer, number))
    finite = product[np.isfinite(product)]
    return ~(np.abs(product - np.median(finite)) < 0.5) if len(finite) else np.ones(len(product), bool)


def workload() -> Workload:
    """Describe these rows for the record."""
    columns = rows(1, np.arange(_SAMPLE))
    source = "made for the integrity suite: every word of a row is computed from its writer and its number"
    return Workload.computed(WORKLOAD, source, columns)
