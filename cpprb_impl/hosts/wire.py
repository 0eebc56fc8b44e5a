"""The messages between learners, explorers and shard servers.

A message is a ZeroMQ multipart message: a `Request` or `Reply`, and then one part per array, with its bytes in C order.
All numbers are little-endian. A column's part may have fewer bytes than the array: it is then one LZ4 block.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import zmq
from cramjam import DecompressionError, lz4

Column = tuple[str, str, tuple[int, ...]]  # name, dtype, shape of one row
Kind = Literal[b"d", b"p", b"c", b"u", b"e", b"h", b"a", b"x"]

# With sequences, the rows that are drawn and updated are sequences, and a row's number is that of its last step.
DRAW: Kind = b"d"  # draw `rows` rows; the reply has their leaves, row numbers, and a part per column
DRAW_PACKED: Kind = b"p"  # the same, but columns may be compressed
COUNT: Kind = b"c"  # the same as DRAW, and count all sequences
UPDATE: Kind = b"u"  # new priorities of `rows` rows: parts are row numbers and priorities; there is no reply
ERRORS: Kind = b"e"  # the same for sequences, with the errors of all their steps instead of priorities
# An explorer's greeting: the part is the explorer's name, and the number is that of the last batch that will not be
# sent again. The reply's `stored` identifies the answering process, since a restarted process does not know any
# explorers.
HELLO: Kind = b"h"
# Store `rows` rows: the parts are the explorer's name, with sequences the steps, each column and, if given, priorities.
# If an earlier batch is
# missing, nothing is stored, and the reply is the same as to a greeting: the explorer must greet again.
ADD: Kind = b"a"
REFUSED: Kind = b"x"  # only as a reply: nothing was done; its only part states the reason

ROWS: Column = ("rows", "<i8", ())
PRIORITIES: Column = ("priorities", "<f4", ())
STEPS: Column = ("steps", "<u4", ())  # a step's stream, times 2, plus 1 if it is the first of its episode

# Sizes in bytes: the smallest array that is worth compressing, the largest that LZ4 can compress, and the most that one
# compressed byte can expand to.
SMALL, LARGE, MOST_EACH = 1024, 0x7E000000, 255

# Most rows in a message that adds rows, and in one that updates priorities. A server drops a connection that sends
# larger parts.
MOST_ADDED, MOST_UPDATED = 1024, 1 << 20


class Malformed(ValueError):  # noqa: N818 (what the message is)
    """A message violates the format."""


REQUEST, REPLY = struct.Struct("<cIQ"), struct.Struct("<cIQddQq")


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
        """Parse a part. Raise `Malformed` if it is not a request."""
        if len(part) != REQUEST.size:
            raise Malformed(f"a request must have {REQUEST.size} bytes, got {len(part)}")
        return cls(*REQUEST.unpack(part))


class Reply(NamedTuple):
    """The first part of a server's answer."""

    kind: bytes
    rows: int
    number: int
    total: float = 0.0  # sum of the leaves of all rows in the shard at the time of drawing
    smallest: float = 0.0  # smallest of these leaves
    stored: int = 0  # rows in the shard; in reply to HELLO, a number that identifies the server process
    sequences: int = -1  # sequences in the shard; -1 if they were not counted

    def packed(self) -> bytes:
        """Return the bytes of the part."""
        return REPLY.pack(*self)

    @classmethod
    def read(cls, part: bytes) -> Reply:
        """Parse a part. Raise `Malformed` if it is not a reply."""
        if len(part) != REPLY.size:
            raise Malformed(f"a reply must have {REPLY.size} bytes, got {len(part)}")
        return cls(*REPLY.unpack(part))


def bytes_of(column: Column) -> int:
    """Return the bytes of one row."""
    _, dtype, shape = column
    return np.dtype(dtype).itemsize * math.prod(shape)


def columns_of(rows: Mapping[str, np.ndarray]) -> list[Column]:
    """Describe arrays whose first axis is the row. Raise TypeError for a dtype that messages cannot carry."""
    for name, array in rows.items():
        if array.dtype.kind not in "biufcSU":
            raise TypeError(f"{name} has dtype {array.dtype}, which cannot be sent to other hosts")
    return [(name, array.dtype.str, tuple(array.shape[1:])) for name, array in rows.items()]


def pack(array: np.ndarray) -> Any:
    """Return the part for a C-contiguous array: compressed if that makes it smaller, otherwise the array itself."""
    if not SMALL <= array.nbytes <= LARGE:
        return array
    packed = lz4.compress_block(array.data, store_size=False)
    return packed if len(packed) < array.nbytes else array


def unpack(part: Any, array: np.ndarray) -> None:
    """Decompress a part into a C-contiguous array. Raise `Malformed` if it is not an LZ4 block of the array's size.

    The array may then have been overwritten.
    """
    try:
        size = lz4.decompress_block_into(part, array.data, output_len=array.nbytes)
    except DecompressionError as error:
        raise Malformed(f"a part cannot be decompressed: {error}") from error
    if size != array.nbytes:
        raise Malformed(f"a decompressed part must have {array.nbytes} bytes, got {size}")


def send(socket: zmq.Socket, parts: Iterable[Any]) -> None:
    """Send a message, whose arrays must not change until it has been received.

    `zmq.Socket.send_multipart` takes about 2 us more per part, to combine flags.
    """
    *first, last = parts
    for part in first:
        socket.send(part, zmq.SNDMORE, copy=False)
    socket.send(last, copy=False)


def receive_into(socket: zmq.Socket, array: np.ndarray, *, packed: bool = False) -> None:
    """Receive the next part of a message into a C-contiguous array; `packed`: it may be compressed.

    Raise `Malformed` if there is no part, or if it has the wrong size. The array may then have been overwritten.
    """
    if not socket.getsockopt(zmq.RCVMORE):
        raise Malformed("a message has too few parts")
    size = socket.recv_into(array.data)
    if packed and size < array.nbytes:
        unpack(array.reshape(-1).view(np.uint8)[:size].tobytes(), array)
    elif size != array.nbytes:
        raise Malformed(f"a part must have {array.nbytes} bytes, got {size}")


def arrays(parts: Sequence, count: int, columns: Iterable[Column], *, packed: bool = False) -> dict[str, np.ndarray]:
    """Return the parts as arrays of `count` rows, without copying those that are not compressed.

    `packed`: parts may be compressed. Raise `Malformed` if a part has the wrong size.
    """
    columns = list(columns)
    if len(parts) != len(columns):
        raise Malformed(f"a message must have {len(columns)} arrays, got {len(parts)}")
    found = {}
    for part, (name, dtype, shape) in zip(parts, columns, strict=True):
        kind, view = np.dtype(dtype), memoryview(part)
        wanted = count * bytes_of((name, dtype, shape))
        if view.nbytes == wanted:
            found[name] = np.frombuffer(view, kind).reshape(count, *shape)
        elif packed and view.nbytes < wanted <= MOST_EACH * view.nbytes:  # nothing larger is allocated
            found[name] = np.empty((count, *shape), kind)
            unpack(view, found[name])
        else:
            raise Malformed(f"{name} must have {wanted} bytes for {count} rows, got {view.nbytes}")
    return found
