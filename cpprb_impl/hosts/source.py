"""A shard as a learner knows it, and the batches whose rows come from several shards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cpprb_impl.hosts.choice import CompressionChoice
from cpprb_impl.hosts.link import Link
from cpprb_impl.hosts.shard import Address


@dataclass(eq=False)
class Batch:
    """A batch that is being received."""

    columns: dict[str, np.ndarray]
    probabilities: np.ndarray
    indexes: np.ndarray
    missing: int  # rows
    is_lost: bool = False  # no shard could give the missing rows
    least: float = float("inf")  # the smallest probability of any stored row


@dataclass(eq=False)
class BatchPart:
    """Rows of a batch that one shard was asked for. A probe has no batch."""

    batch: Batch | None
    start: int
    stop: int
    share: float  # of the batch's rows that come from this shard, in the mean
    packed: bool  # whether its rows may be compressed
    asked: float  # when, in seconds spent in `sample`


class Source:
    """A shard as the learner knows it."""

    def __init__(self, address: Address, link: Link, choice: CompressionChoice) -> None:
        self.address, self.link, self.choice = address, link, choice
        self.pieces: dict[int, BatchPart] = {}  # by number of the request
        self.answers = False  # since it was connected
        self.is_new = True  # it has neither answered nor been given up
        self.total = self.smallest = 0.0
        self.stored = 0

    def forget(self) -> list[BatchPart]:
        """Return the pieces that will not arrive."""
        pieces, self.pieces = [piece for piece in self.pieces.values() if piece.batch], {}
        self.answers, self.is_new, self.total, self.stored = False, False, 0.0, 0
        return pieces
