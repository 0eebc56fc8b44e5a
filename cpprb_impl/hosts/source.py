"""A learner's view of a shard, and the batches whose rows come from several shards."""

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
    is_lost: bool = False  # no shard could supply the missing rows
    least: float = float("inf")  # the smallest probability of any stored row


@dataclass(eq=False)
class BatchPart:
    """Rows of a batch that were requested from one shard. A probe has no batch."""

    batch: Batch | None
    start: int
    stop: int
    share: float  # expected share of the batch's rows that come from this shard
    packed: bool  # whether its rows may be compressed
    asked: float  # time of the request, in seconds spent in `sample`


class Source:
    """A learner's view of a shard."""

    def __init__(self, address: Address, link: Link, choice: CompressionChoice) -> None:
        self.address, self.link, self.choice = address, link, choice
        self.pieces: dict[int, BatchPart] = {}  # by request number
        self.answers = False  # has answered since it was connected
        self.is_new = True  # has neither answered nor been abandoned
        self.total = self.smallest = 0.0
        self.stored = self.sequences = 0
        self.why = ""  # reason why it could draw no rows

    def forget(self) -> list[BatchPart]:
        """Forget the requested pieces, and return those that belong to batches."""
        pieces, self.pieces = [piece for piece in self.pieces.values() if piece.batch], {}
        self.answers, self.is_new, self.total, self.stored = False, False, 0.0, 0
        self.sequences = 0
        return pieces
