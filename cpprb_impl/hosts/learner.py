"""A learner of a buffer over several hosts: draws batches from all shards, and updates priorities.

Each batch is divided among the shards in proportion to their sums of priorities, as reported in each shard's last
reply. A shard draws its part by priority, and replies with the leaves and the sum used in drawing. A row's probability
is therefore known exactly even if the sums have changed meanwhile: stale sums make the estimate noisier, but not
biased.

With sequences, a batch consists of sequences instead of rows, and everything else is the same.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import zmq

from cpprb_impl._native import PrioritizedRing, _indexes_of
from cpprb_impl.hosts import wire
from cpprb_impl.hosts.choice import CompressionChoice, LapTimes
from cpprb_impl.hosts.keys import Keys
from cpprb_impl.hosts.link import Link
from cpprb_impl.hosts.sequences import length_of
from cpprb_impl.hosts.shard import Address
from cpprb_impl.hosts.source import Batch, BatchPart, Source
from cpprb_impl.hosts.wire import Malformed, Reply, Request
from cpprb_impl.layout.arrays import array_of
from cpprb_impl.layout.fields import integer
from cpprb_impl.layout.layout import Layout
from cpprb_impl.layout.options import check_exponent

log = logging.getLogger("cpprb_impl.hosts")

ROW_BITS = 48  # low bits of an index: the row's number; the bits above are the shard's
PROBE_SECONDS = 0.05  # time between probes of a shard that has supplied no rows recently
MOST_BYTES = 1 << 30  # most bytes of a batch, since a shard serves no other learner while drawing
GRACE_SECONDS = 0.15  # time for other shards to replace the rows of a shard abandoned at the deadline


class ShardsLost(ConnectionError):  # noqa: N818 (says what happened)
    """No shard of the buffer answers."""


class Learner:
    """The connections of one process to all shards. Only one thread may use it.

    Parameters
    ----------
    find : callable
        Returns the addresses of the shards that exist now, without waiting.
    keys : Keys
    prefetch : int
        Number of batches requested ahead. Their rows are drawn before the newest priorities take effect.
    deadline : float
        Seconds after which `sample` continues without a shard that does not answer.
    compress : bool
        Whether rows may be compressed: they are if `sample` then takes less time.
    normalize : {"buffer", "batch", None}
        The divisor of importance weights, as for `PrioritizedReplayBuffer`.
    alpha, eps : float
        As for the shards.
    sequences : mapping, optional
        The shards' option, as their layouts contain it.
    """

    def __init__(
        self,
        find: Callable[[], Sequence[Address]],
        keys: Keys,
        *,
        prefetch: int,
        deadline: float,
        compress: bool = True,
        normalize: str | None = "buffer",
        alpha: float = 0.6,
        eps: float = 1e-4,
        sequences: Mapping[str, Any] | None = None,
    ) -> None:
        self._normalize, self._sequences = normalize, sequences
        self._trial = PrioritizedRing(
            Layout(1, [("row", np.dtype(np.int8), (1,))], {"alpha": alpha, "eps": eps}, prioritized=True)
        )
        self._trial.add(row=0)
        self._good_up_to = 1e38 ** (1 / max(alpha, 1)) - eps  # (priority + eps)^alpha is a finite float32
        self._find, self._keys, self._prefetch, self._deadline = find, keys, prefetch, deadline
        self._compress, self._sampling = compress, LapTimes()
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._sources: dict[int, Source] = {}
        self._polled = -math.inf  # when replies and lost connections were last checked
        self._numbers = 0
        self._random = np.random.default_rng()
        self._ahead: deque[Batch] = deque()
        self._columns: Sequence[wire.Column] = ()

    def reseed(self, seed: int | None = None) -> None:
        """Reseed the generator that divides batches among shards. Raise ValueError if a seed is given."""
        if seed is not None:
            raise ValueError(
                f"seed must be None, got {seed!r}: each shard draws with its own generator, which the operating "
                "system seeds and all learners share"
            )
        self._random = np.random.default_rng()

    # Shards appear, answer, and are lost.

    def _look_for_shards(self) -> None:
        found = {address.number: address for address in self._find()}
        for number, source in [*self._sources.items()]:
            if found.get(number) != source.address:  # the shard is lost, or has a new supervisor
                self._give_up(self._sources.pop(number))
        for number, address in found.items():
            if number not in self._sources:
                link = Link(self._context, address.host, address.drawing_port, self._keys)
                source = Source(address, link, CompressionChoice(self._compress))
                self._columns = address.columns
                self._sources[number] = source
                self._watch(source)
                self._ask(source, None, 0, 1, 0.0)

    def _watch(self, source: Source) -> None:
        self._poller.register(source.link.socket, zmq.POLLIN)
        self._poller.register(source.link.monitor, zmq.POLLIN)

    def _unwatch(self, source: Source) -> None:
        self._poller.unregister(source.link.socket)
        self._poller.unregister(source.link.monitor)

    def _give_up(self, source: Source) -> None:
        """Close the connection to a shard that no longer exists."""
        self._unwatch(source)
        pieces = source.forget()
        source.link.close()
        self._ask_others(pieces)

    def _lose(self, source: Source, why: str) -> None:
        """Continue without a shard until it answers again."""
        if source.answers:
            log.warning("shard %d on %s: %s", source.address.number, source.address.host, why)
        self._unwatch(source)
        pieces = source.forget()
        source.link.open_again()
        self._watch(source)
        self._ask(source, None, 0, 1, 0.0)
        self._ask_others(pieces)

    @property
    def lost(self) -> list[str]:
        """The hosts of shards that do not answer."""
        return [source.address.host for source in self._sources.values() if not source.answers]

    def get_stored_size(self) -> int:
        """Return the number of transitions in the shards that answer, including all stored before this call."""
        self._ask_all(wire.DRAW)
        return sum(source.stored for source in self._sources.values())

    def get_valid_sequences(self) -> int:
        """Return the number of sequences that can be drawn from the shards that answer."""
        self._ask_all(wire.COUNT)
        return sum(source.sequences for source in self._sources.values())

    def _ask_all(self, kind: wire.Kind) -> None:
        """Ask all shards for their sums, and wait for the answers."""
        end = time.monotonic() + self._deadline
        with self._whole_messages():
            self._look_for_shards()
            for source in self._sources.values():
                if source.answers or source.is_new:  # a lost shard has been asked already
                    self._ask(source, None, 0, 1, 0.0, kind)
            while any(source.pieces for source in self._sources.values()) and time.monotonic() < end:
                self._poll(0.01)

    @contextmanager
    def _whole_messages(self) -> Iterator[None]:
        """Reconnect to all shards if a call is interrupted (Ctrl-C), which may happen in the middle of a message."""
        try:
            yield
        except Exception:
            raise
        except BaseException:
            self._poller, self._ahead, self._polled = zmq.Poller(), deque(), -math.inf
            while self._sources:
                self._sources.popitem()[1].link.close()
            raise

    # Requests.

    def _ask(
        self, source: Source, batch: Batch | None, start: int, stop: int, share: float, kind: wire.Kind = wire.DRAW
    ) -> None:
        self._numbers += 1
        packed = source.choice.packed
        source.pieces[self._numbers] = BatchPart(batch, start, stop, share, packed, self._sampling.seconds)
        kind = wire.DRAW_PACKED if packed and kind == wire.DRAW else kind
        source.link.socket.send(Request(kind, stop - start, self._numbers).packed())

    def _divide(self, batch: Batch, start: int, stop: int) -> bool:
        """Ask all shards for rows start .. stop - 1, in proportion to their sums. Return False if all are 0."""
        sources = [source for source in self._sources.values() if source.answers and source.total > 0]
        if not sources:
            return False
        totals = np.array([source.total for source in sources])
        shares = self._shares(totals)
        rows = stop - start
        # Systematic sampling: each shard's number of rows differs by less than one from its share.
        ends = np.ceil(np.cumsum(shares) * rows - self._random.random()).astype(int)
        ends[-1] = rows
        first = 0
        for source, share, end in zip(sources, shares.tolist(), np.clip(ends, 0, rows).tolist(), strict=True):
            if end > first:
                self._ask(source, batch, start + first, start + end, share)
                first = end
            else:
                batch.least = min(batch.least, share * source.smallest / source.total)
        return True

    def _shares(self, totals: np.ndarray) -> np.ndarray:
        """Return each shard's share of a batch, given the shards' sums of leaves."""
        shares: np.ndarray = totals / totals.sum()
        return shares

    def _ask_others(self, pieces: Iterable[BatchPart]) -> None:
        for piece in pieces:
            if piece.batch is not None and not self._divide(piece.batch, piece.start, piece.stop):
                piece.batch.is_lost = True

    def _probe(self) -> None:
        """Ask shards that have supplied no rows recently for their sums."""
        now = time.monotonic()
        for source in self._sources.values():
            if not source.pieces and now - source.link.heard > PROBE_SECONDS:
                self._ask(source, None, 0, 1, 0.0)

    def _new_batch(self, rows: int) -> Batch:
        size = rows * sum(map(wire.bytes_of, self._columns))
        if size > MOST_BYTES:
            what = "sequences" if self._sequences else "rows"
            raise ValueError(f"a batch must have at most {MOST_BYTES:,} bytes, got {rows:,} {what} with {size:,} bytes")
        columns = {name: np.empty((rows, *shape), dtype) for name, dtype, shape in self._columns}
        return Batch(columns, np.empty(rows), np.empty(rows, np.int64), rows)

    # Replies.

    def _receive(self, source: Source) -> None:
        socket = source.link.socket
        # Do not loop until `zmq.Again` is raised: pyzmq's wheels for Python 3.12 and later run Python code while
        # building an exception's traceback, and a KeyboardInterrupt raised there is lost.
        while int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            try:
                self._take(source, Reply.read(socket.recv()))
            except Malformed as error:
                return self._lose(source, str(error))
        return None

    def _take(self, source: Source, reply: Reply) -> None:
        source.link.heard = time.monotonic()
        source.answers, source.is_new = True, False
        piece = source.pieces.pop(reply.number, None)
        socket = source.link.socket
        if reply.kind == wire.REFUSED and piece is None:  # a refused update of priorities, not a draw
            log.warning("shard %d: %s", source.address.number, socket.recv().decode(errors="replace"))
            return
        source.total, source.smallest, source.stored = reply.total, reply.smallest, reply.stored
        if reply.sequences >= 0:
            source.sequences = reply.sequences
        if reply.kind == wire.REFUSED:  # the shard is empty, or every priority is 0
            source.why = b"".join(socket.recv_multipart()).decode(errors="replace")
            self._ask_others([piece] if piece else [])
            return
        if piece is None or piece.batch is None:
            socket.recv_multipart()
            return
        try:
            self._fill(piece.batch, piece, source, reply)
        except Malformed:
            source.pieces[reply.number] = piece  # its rows are still missing
            raise
        source.choice.took(piece.packed, piece.stop - piece.start, piece.asked, self._sampling.seconds)

    def _fill(self, batch: Batch, piece: BatchPart, source: Source, reply: Reply) -> None:
        """Receive the arrays of a piece. Raise `Malformed` if they are not the expected ones."""
        socket, rows = source.link.socket, slice(piece.start, piece.stop)
        numbers, leaves = batch.indexes[rows], np.empty(piece.stop - piece.start, np.float32)
        for array in (leaves, numbers):
            wire.receive_into(socket, array)
        for column in batch.columns.values():
            wire.receive_into(socket, column[rows], packed=True)
        numbers |= source.address.number << ROW_BITS
        chance = piece.share / reply.total
        np.multiply(leaves, chance, out=batch.probabilities[rows])
        batch.least = min(batch.least, chance * reply.smallest)
        batch.missing -= piece.stop - piece.start

    def _poll(self, seconds: float) -> None:
        """Receive the replies that have arrived, after waiting for at most `seconds`."""
        self._polled = time.monotonic()
        ready = dict(self._poller.poll(max(0, int(1000 * seconds))))
        if not ready:
            return
        for source in [*self._sources.values()]:
            if source.link.socket in ready:
                self._receive(source)
            if source.link.monitor in ready and source.link.was_lost():
                self._lose(source, "the connection was lost")

    # The methods that a learner calls.

    def sample(self, rows: int, beta: float) -> dict[str, np.ndarray]:
        """Return a batch.

        Raise TypeError or ValueError for a bad argument, ValueError if the buffer is empty, and `ShardsLost` if no
        shard answers in time.
        """
        rows, beta = integer("batch_size", rows), check_exponent("beta", beta)
        if rows < 0:
            raise ValueError(f"batch_size must not be negative, got {rows}")
        start = time.monotonic()
        with self._whole_messages(), self._sampling.running():
            self._look_for_shards()
            self._poll(0)
            self._await_new_shards(start)
            self._probe()
            if self._ahead and len(self._ahead[0].indexes) != rows:
                self._ahead.clear()  # their pieces are received, but not used
            while True:
                batch = self._next(rows, start)
                if self._wait(batch, start):
                    break
        weights = np.power(batch.probabilities / self._unit(batch), -beta).astype(np.float32)
        return {**batch.columns, "weights": weights, "indexes": batch.indexes}

    def _unit(self, batch: Batch) -> float:
        """Return the probability of a row whose weight would be 1."""
        if self._normalize is None:
            sources = self._sources.values()
            return 1 / max(1, sum(source.sequences if self._sequences else source.stored for source in sources))
        least = float(batch.probabilities.min(initial=np.inf))
        return least if self._normalize == "batch" else min(batch.least, least)

    def _await_new_shards(self, start: float) -> None:
        """Wait until all shards have reported their sums; after the deadline, continue without the rest."""
        while new := [source for source in self._sources.values() if source.is_new]:
            left = start + self._deadline - time.monotonic()
            if left > 0:
                self._poll(left)
                continue
            for source in new:
                self._lose(source, f"did not answer within {self._deadline:g} s")

    def _next(self, rows: int, start: float) -> Batch:
        while len(self._ahead) <= self._prefetch:
            batch = self._new_batch(rows) if self._columns else None
            if batch is None or not self._divide(batch, 0, rows):
                if self._ahead:
                    break
                self._await_rows(start)
                continue
            self._ahead.append(batch)
        return self._ahead.popleft()

    def _await_rows(self, start: float) -> None:
        """Ask all shards for their sums, and wait for an answer.

        Raise ValueError if none that answers has rows to draw, with the reason of the one that stores most rows, and
        `ShardsLost` if no shard answers.
        """
        for source in self._sources.values():
            if not source.pieces and source.link.heard < start:
                self._ask(source, None, 0, 1, 0.0)
        fresh = [source for source in self._sources.values() if source.answers and source.link.heard >= start]
        left = start + self._deadline - time.monotonic()
        if fresh and (left <= 0 or len(fresh) == len(self._sources)):
            raise ValueError(max(fresh, key=lambda source: source.stored).why)
        if left <= 0:
            raise ShardsLost(f"no shard answered within {self._deadline:g} s")
        self._poll(min(left, 0.05))
        self._look_for_shards()

    def _wait(self, batch: Batch, start: float) -> bool:
        """Wait until the batch is complete. Return False if rows are lost and it must be requested again."""
        end = start + self._deadline
        while batch.missing and not batch.is_lost:
            left = end - time.monotonic()
            if left > 0:
                self._poll(left)
                continue
            late = [source for source in self._sources.values() if _has_piece_of(source, batch)]
            if end > start + self._deadline:
                size = batch.missing * sum(map(wire.bytes_of, self._columns))
                missing = f"{batch.missing} rows ({size / 1e6:.3g} MB) are missing"
                raise ShardsLost(f"no shard answered within {self._deadline:g} s: {missing}")
            end += GRACE_SECONDS
            for source in late:
                self._lose(source, f"did not answer within {self._deadline:g} s")
        return not batch.is_lost

    def update_priorities(self, indexes: Any, priorities: Any) -> None:
        """Send new priorities. Rows that were overwritten, and rows of lost shards, are skipped.

        For a bad argument, raise the exceptions of `PrioritizedReplayBuffer.update_priorities`. Nothing is sent then.
        """
        numbers = _whole_numbers(indexes)
        if self._sequences and (errors := array_of("priorities", priorities)).ndim > 1:
            self._send(numbers, self._checked(errors, numbers.size), wire.ERRORS)
            return
        if not self._are_good(priorities, numbers.size):
            self._trial.update_priorities(np.zeros(numbers.size, np.int64), priorities)  # raises if they are invalid
        values = array_of("priorities", priorities).astype(np.float32, copy=False)
        self._send(numbers, values.ravel() if values.ndim else np.full(numbers.size, values), wire.UPDATE)

    def _checked(self, errors: np.ndarray, count: int) -> np.ndarray:
        """Return the errors of the steps of sequences, float32 (count, steps). Raise ValueError if they are invalid.

        Only the shards know which steps are padded, so the errors of these must be valid as well.
        """
        assert self._sequences
        length = length_of(self._sequences)
        if errors.shape != (count, length):
            raise ValueError(
                f"priorities must be of shape ({count},), or errors of shape ({count}, {length}), got {errors.shape}"
            )
        if errors.dtype.kind not in "biuf":
            self._trial.update_priorities(np.zeros(errors.size, np.int64), errors)  # raises unless they are numbers
        errors = errors.astype(np.float64)
        largest = np.abs(errors[:, self._sequences["burn_in"] :]).max(axis=1)
        self._trial.update_priorities(np.zeros(count, np.int64), largest)  # raises if one is not finite
        return errors.astype(np.float32)

    def _send(self, numbers: np.ndarray, values: np.ndarray, kind: wire.Kind) -> None:
        """Send a value, or errors, for each of these rows to its shard."""
        with self._whole_messages():
            if time.monotonic() - self._polled > PROBE_SECONDS:  # the caller is not drawing batches
                self._look_for_shards()
                self._poll(0)
            shards, rows = numbers >> ROW_BITS, numbers & ((1 << ROW_BITS) - 1)
            for number, source in self._sources.items():
                mine = shards == number
                if mine.any():
                    self._send_to(source, rows[mine], values[mine], kind)

    def _are_good(self, priorities: Any, count: int) -> bool:
        """Return whether `priorities` is certainly an array of valid priorities; if False, they may still be valid."""
        usual = type(priorities) is np.ndarray and priorities.dtype.kind == "f" and priorities.size == count > 0
        return usual and priorities.min() >= 0 and priorities.max() <= self._good_up_to

    def _send_to(self, source: Source, rows: np.ndarray, values: np.ndarray, kind: wire.Kind) -> None:
        most = max(1, wire.MOST_UPDATED // math.prod(values.shape[1:]))
        for at in range(0, len(rows), most):
            some = slice(at, at + most)
            head = Request(kind, len(rows[some]), 0).packed()
            wire.send(source.link.socket, [head, rows[some], values[some]])

    def close(self) -> None:
        """Close all connections."""
        self._sources.clear()
        self._context.destroy(linger=0)


def _has_piece_of(source: Source, batch: Batch) -> bool:
    return any(piece.batch is batch for piece in source.pieces.values())


def _whole_numbers(indexes: Any) -> np.ndarray:
    """Return the indexes (count,), int64. Raise as `PrioritizedReplayBuffer` does for an invalid index."""
    numbers = _indexes_of(indexes).ravel()
    if numbers.min(initial=0) < 0:
        bad = int(np.argmax(numbers < 0))
        raise IndexError(f"indexes[{bad}] is {numbers[bad]}, where no transition is stored")
    return numbers
