"""The messages between learners, explorers and the servers of a shard.

A message is a ZeroMQ multipart message: a `Request` or `Reply`, and then one part per array, with its bytes in C order.
All numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

Column = tuple[str, str, tuple[int, ...]]  # name, dtype, shape of one row
Kind = Literal[b"d", b"u", b"h", b"a", b"x"]

DRAW: Kind = b"d"  # draw `rows` rows; the reply has their leaves, their numbers, and a part per column
UPDATE: Kind = b"u"  # new priorities of `rows` rows: parts are row numbers and priorities; there is no reply
HELLO: Kind = b"h"  # the reply says, as `stored`, which process answers: one started again does not know explorers
ADD: Kind = b"a"  # store `rows` rows: parts are the explorer's name, each column, and perhaps priorities
REFUSED: Kind = b"x"  # only as a reply: nothing was done; its one part says why

ROWS: Column = ("rows", "<i8", ())
PRIORITIES: Column = ("priorities", "<f4", ())


class Malformed(ValueError):  # noqa: N818 (what the message is)
    """A message violates the format."""


REQUEST, REPLY = struct.Struct("<cIQ"), struct.Struct("<cIQddQ")


class Request(NamedTuple):
    """The first part of a message to a server."""

    kind: bytes
    rows: int
    number: int  # chosen by the sender; the reply repeats it

    def packed(self) -> bytes:
        """Return the bytes of the part."""
        return REQUEST.pack(*self)

    @classmethod
    def read(cls, part: bytes) -> Request:
        """Raise `Malformed` if the part is not a request."""
        if len(part) != REQUEST.size:
            raise Malformed(f"a request must have {REQUEST.size} bytes, got {len(part)}")
        return cls(*REQUEST.unpack(part))


class Reply(NamedTuple):
    """The first part of a server's answer."""

    kind: bytes
    rows: int
    number: int
    total: float = 0.0  # sum of the leaves of all rows of the shard, when these were drawn
    smallest: float = 0.0  # smallest of these leaves
    stored: int = 0  # rows of the shard; in reply to HELLO, a number of the server process

    def packed(self) -> bytes:
        """Return the bytes of the part."""
        return REPLY.pack(*self)

    @classmethod
    def read(cls, part: bytes) -> Reply:
        """Raise `Malformed` if the part is not a reply."""
        if len(part) != REPLY.size:
            raise Malformed(f"a reply must have {REPLY.size} bytes, got {len(part)}")
        return cls(*REPLY.unpack(part))


def columns_of(rows: Mapping[str, np.ndarray]) -> list[Column]:
    """Describe arrays whose first axis is the row."""
    return [(name, array.dtype.str, tuple(array.shape[1:])) for name, array in rows.items()]


def arrays(parts: Sequence, count: int, columns: Iterable[Column]) -> dict[str, np.ndarray]:
    """Return the parts as arrays of `count` rows, without copying. Raise `Malformed` if a part has another size."""
    columns = list(columns)
    if len(parts) != len(columns):
        raise Malformed(f"a message of {len(columns)} arrays is expected, got {len(parts)}")
    found = {}
    for part, (name, dtype, shape) in zip(parts, columns, strict=True):
        kind, view = np.dtype(dtype), memoryview(part)
        wanted = count * kind.itemsize * int(np.prod(shape, dtype=np.int64))
        if view.nbytes != wanted:
            raise Malformed(f"{name} must have {wanted} bytes for {count} rows, got {view.nbytes}")
        found[name] = np.frombuffer(view, kind).reshape(count, *shape)
    return found
