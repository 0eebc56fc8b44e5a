"""The source of a fuzz case's choices: a seeded generator, or the bytes that a fuzzer mutates."""

from __future__ import annotations

import random


class FromBytes(random.Random):
    """A `random.Random` that takes its numbers from `data`, then returns zeros, so that every case ends."""

    def __new__(cls, data: bytes) -> FromBytes:
        return super().__new__(cls)

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        super().__init__(0)

    def getrandbits(self, k: int) -> int:
        size = (k + 7) // 8
        piece = self.data[self.at : self.at + size].ljust(size, b"\0")
        self.at += size
        return int.from_bytes(piece, "little") & ((1 << k) - 1)

    def random(self) -> float:
        return self.getrandbits(16) / 65536
