"""An explorer of a buffer over several hosts.

If its own host has a shard, the explorer adds to that shard's shared memory, and no message is sent. Otherwise it sends
rows in batches to another host's shard, which acknowledges each batch once it is stored.
"""

from __future__ import annotations

import logging
import math
import random
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import zmq

from cpprb_impl.buffers.shared import MPPrioritizedReplayBuffer
from cpprb_impl.buffers.single import PrioritizedReplayBuffer
from cpprb_impl.buffers.transformed import TransformedBuffer
from cpprb_impl.hosts import kept, wire
from cpprb_impl.hosts.choice import CompressionChoice, LapTimes
from cpprb_impl.hosts.keys import Keys
from cpprb_impl.hosts.link import Link
from cpprb_impl.hosts.sequences import Streams
from cpprb_impl.hosts.shard import Address
from cpprb_impl.hosts.wire import Reply, Request
from cpprb_impl.layout.layout import Layout
from cpprb_impl.ring.autoreset import Autoreset
from cpprb_impl.ring.row_reader import RowReader

log = logging.getLogger("cpprb_impl.hosts")

LOOK_SECONDS = 0.05  # time between checks whether this host's shard exists
RETURN_SECONDS = 5.0  # time for a lost shard to return; meanwhile, its explorers still add to its memory
BATCH_ROWS = 100  # rows in a message, as in Ape-X; more if the shard is busy
BATCH_BYTES = 1 << 18  # most bytes of a message with more than `BATCH_ROWS` rows
WINDOW = 8  # batches that are sent before the first is acknowledged
STAGED = 4096  # most rows that may wait to be sent, not counting unfinished n-step windows
EXTRA = ("weights", "indexes")
ELSEWHERE, WAIT = "elsewhere", "wait"
NOT_ENDED = (
    "on_episode_end() cannot end the episode of a stored step in a shared buffer with sequences: a field that "
    "`sequences` names as done must have ended it when the step was added"
)


class Environments(NamedTuple):
    """Where a process's environments are in their episodes, which a different explorer of the process continues."""

    begins: np.ndarray | None = None  # with sequences: whether the next step of each begins an episode
    over: np.ndarray | None = None  # with autoreset: whether the next step of each only resets it


NEW = Environments()  # at the beginning of their first episodes


class LocalExplorer:
    """Adds to this host's shard.

    Parameters
    ----------
    address : Address
    environments : Environments
        The `environments` of the process's previous explorer, if there was one.
    """

    def __init__(self, address: Address, environments: Environments = NEW) -> None:
        self._buffer = MPPrioritizedReplayBuffer.attach(address.segment)
        if environments.begins is not None:
            self._buffer._begin_runs(0, environments.begins)
        _continue(self._buffer, environments)
        self.follow(address)
        self.add, self.on_episode_end = self._buffer.add, self._buffer.on_episode_end
        self._closed, self._is_watched = threading.Event(), False

    def follow(self, address: Address) -> None:
        """Learn the new address of the same shard, whose supervisor has changed."""
        self.address = address
        self._missing: float | None = None  # when the segment was first found without its name

    @property
    def environments(self) -> Environments:
        """Where the environments are in their episodes, also after `close`."""
        has_sequences = "sequences" in self._buffer._layout.options
        return Environments(self._buffer._get_begins() if has_sequences else None, _over(self._buffer))

    def gone_for(self) -> float | None:
        """Return how many seconds ago the segment was found to have lost its name; None if it still has the name."""
        if kept.exists(self.address.segment):
            self._missing = None
            return None
        now = time.monotonic()
        self._missing = now if self._missing is None else self._missing
        return now - self._missing

    @property
    def may_return(self) -> bool:
        """Whether a shard whose segment name is missing may return with its rows; False after `RETURN_SECONDS`."""
        return (self.gone_for() or 0.0) < RETURN_SECONDS

    @property
    def is_closed(self) -> bool:
        """Whether the memory is detached, so that `add` raises ValueError."""
        return self._closed.is_set()

    def watch(self, gone: Callable[[], None]) -> None:
        """Call the method `gone` from a thread whenever the shard's segment has lost its name.

        If the shard does not return within `RETURN_SECONDS`, the explorer is closed, because no learner would read its
        rows. The thread then ends. It also ends once the explorer or `gone`'s object is freed, since it holds no
        reference to either.
        """
        if not self._is_watched:
            self._is_watched = True
            args = weakref.ref(self), weakref.WeakMethod(gone), self._closed
            threading.Thread(target=_watch, args=args, daemon=True).start()

    def flush(self) -> None:
        """Return immediately: rows are stored when `add` returns."""

    def close(self) -> None:
        """Detach from the memory."""
        self._closed.set()
        self._buffer.close()


def _over(buffer: TransformedBuffer) -> np.ndarray | None:
    return getattr(buffer._transform, "over", None)


def _continue(buffer: TransformedBuffer, environments: Environments) -> None:
    if environments.over is not None:
        cast("Autoreset", buffer._transform).over = environments.over.copy()


def _watch(
    explorer: weakref.ref[LocalExplorer], gone: weakref.WeakMethod[Callable[[], None]], closed: threading.Event
) -> None:
    while not closed.wait(LOOK_SECONDS):
        here, call = explorer(), gone()
        if here is None or call is None:
            return
        if here.gone_for() is not None:
            call()
            if not here.may_return:
                here.close()
        del here, call  # keep neither alive while waiting


@dataclass(eq=False)
class Sent:
    """A batch that has not been acknowledged yet."""

    number: int
    message: Sequence[Any]
    rows: int
    end: int  # the number of the staged row after the batch's last row
    packed: bool  # whether its rows may be compressed
    begins: np.ndarray  # as in `Environments`, after the batch
    to: int | None = None  # the server process that it may have been sent to
    at: float = 0.0  # when it was sent, in seconds spent compressing and waiting
    over: Link | None = None  # the connection that it was sent over


class RemoteExplorer:
    """Sends rows to another host's shard, switching to a different shard if that one is lost.

    An interrupted call (Ctrl-C) stores no row twice, and loses none unless its shard is lost as well: the list of
    unacknowledged batches, which is updated atomically, shows which staged rows were sent.

    Parameters
    ----------
    find : callable
        Returns the addresses of the shards that exist now, without waiting.
    keys : Keys
    layout : Layout
        The shards' layout, which defines how steps become rows.
    when_lost : {"elsewhere", "wait"}
        What to do if a shard does not answer for `deadline` seconds.
    deadline : float
    compress : bool
        Whether rows may be compressed: they are if calls then take less time.
    environments : Environments
        As for `LocalExplorer`.
    """

    def __init__(
        self,
        find: Callable[[], Sequence[Address]],
        keys: Keys,
        layout: Layout,
        *,
        when_lost: str,
        deadline: float,
        compress: bool = True,
        environments: Environments = NEW,
    ) -> None:
        self._find, self._keys = find, keys
        self._choice, self._waiting = CompressionChoice(compress), LapTimes()
        self._when_lost, self._deadline = when_lost, deadline
        self._context = zmq.Context()
        self._name = secrets.token_bytes(16)
        self._environments = layout.n_envs
        steps = 0 if layout.nstep is None else int(layout.nstep["size"]) * self._environments
        self._capacity = STAGED + steps + -(STAGED + steps) % self._environments
        # Its leaves are the raw priorities, since alpha is 1 and eps is 0.
        staging = layout.private(self._capacity, alpha=1.0, eps=0.0, check_for_update=False)
        self._streams = Streams(layout) if "sequences" in layout.options else None
        added: Sequence[str] = EXTRA
        if self._streams is not None:
            staging, added = self._streams.staged(staging), (*EXTRA, self._streams.field)
        self._staged = PrioritizedReplayBuffer._of(staging)
        _continue(self._staged, environments)
        columns = {name: rows for name, rows in self._staged.get_all_transitions().items() if name not in added}
        fields = [(name, rows.dtype, rows.shape[1:]) for name, rows in columns.items()]
        self._columns, self._first_field = list(columns), fields[0]
        row_bytes = sum(rows.dtype.itemsize * math.prod(rows.shape[1:]) for rows in columns.values())
        self._most = min(max(BATCH_ROWS, BATCH_BYTES // row_bytes), wire.MOST_ADDED)  # rows per batch
        computed = (self._staged._steps() or {}).get("discount", ())
        self._read = RowReader([field for field in fields if field[0] not in computed], {"alpha": 1.0, "eps": 0.0})
        begins = np.ones(self._environments, bool) if environments.begins is None else environments.begins
        self._settled = 0, begins  # `end` and `begins` of the last batch that needs no more acknowledgement
        self._own_priorities = False
        self._number = 0
        self._unanswered: deque[Sent] = deque()
        self._address: Address | None = None
        self._link: Link | None = None
        self._process = 0  # the server process that answers
        self._is_lost = False  # the shard did not answer, or the connection broke: try other shards first
        self.unconfirmed = 0  # rows that may or may not be stored; they are not sent again

    def add(self, *, priorities: Any = None, **steps: Any) -> None:
        """Stage steps, and send full batches.

        Raises the same exceptions as the buffer's own `add`, and ConnectionError if no shard answers in time: all steps
        of this call, or only the first of them, may then be staged.
        """
        if (own := priorities is not None) != self._own_priorities:
            self._send_staged()
            self._own_priorities = own
        given = {**steps, "priorities": priorities} if own else steps
        for part in self._parts(given):
            self._stage(partial(self._staged.add, **self._with_streams(part)))

    def _with_streams(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add the streams of a call's steps, with sequences."""
        name, _, shape = self._first_field
        if self._streams is None or name not in given:
            return given
        rows = math.prod(np.shape(given[name])) // max(1, math.prod(shape))
        env_ids = None if "env_ids" in self._columns else given.get("env_ids")
        return {**given, self._streams.field: self._streams.of_call(env_ids, rows)}

    def _parts(self, given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Divide steps into calls small enough for the staging buffer."""
        name, _, shape = self._first_field
        if math.prod(np.shape(given.get(name, 0))) <= wire.MOST_ADDED * math.prod(shape):
            yield given
            return
        if "env_ids" in given:
            raise ValueError(f"a call with env_ids must have at most {wire.MOST_ADDED} rows: divide it")
        columns = self._read(given)  # checks all steps before any is staged
        if not self._own_priorities:
            del columns["priorities"]
        most = max(wire.MOST_ADDED // self._environments, 1) * self._environments
        for at in range(0, len(columns[name]), most):
            yield {key: column[at : at + most] for key, column in columns.items()}

    def on_episode_end(self) -> None:
        """End the episode: with n-step rewards, the remaining steps become rows.

        With sequences, raises ValueError unless the last step of each environment ended its episode.
        """
        if (begins := self.environments.begins) is not None and not begins.all():
            raise ValueError(NOT_ENDED)
        self._stage(self._staged.on_episode_end)

    def _stage(self, call: Callable[[], Any]) -> None:
        if self._rows > STAGED - wire.MOST_ADDED:  # earlier calls could not send their rows
            self._send_staged()
        call()
        while self._rows >= BATCH_ROWS and (self._rows >= self._most or not self._is_busy()):
            self._send(min(self._rows, self._most))

    def _is_busy(self) -> bool:
        """Whether the maximum number of batches is unacknowledged, so that more rows can be sent together later."""
        return len(self._unanswered) >= WINDOW and self._link is not None and not self._has_reply()

    def _has_reply(self) -> bool:
        return self._link is not None and bool(self._link.socket.poll(0))

    @property
    def environments(self) -> Environments:
        """Where the environments are in their episodes, after all staged steps."""
        if self._streams is None:
            return Environments(None, _over(self._staged))
        _, begins = self._streams.words(self._staged.get(self._where(self._rows)), self._newest[1])
        return Environments(begins, _over(self._staged))

    def _where(self, rows: int) -> np.ndarray:
        """Return the places of the oldest staged rows that are in no batch."""
        return (self._first + np.arange(rows)) % self._capacity

    @property
    def _newest(self) -> tuple[int, np.ndarray]:
        """`end` and `begins` of the newest batch."""
        return (self._unanswered[-1].end, self._unanswered[-1].begins) if self._unanswered else self._settled

    @property
    def _first(self) -> int:
        """The oldest staged row that is in no batch."""
        return self._newest[0]

    @property
    def _rows(self) -> int:
        """Number of staged rows that are in no batch."""
        return (self._staged.get_next_index() - self._first) % self._capacity

    def _keep_only(self, sent: Iterable[Sent]) -> None:
        """Keep only these batches, and forget the others."""
        self._settled = self._newest
        self._unanswered = deque(sent)

    def flush(self) -> None:
        """Send the staged rows, and wait until all are acknowledged or counted as `unconfirmed`."""
        self._send_staged()
        while self._unanswered:
            self._await_reply()

    def close(self) -> None:
        """Close the connection. Rows that were not flushed may be lost."""
        self._context.destroy(linger=0)

    def _send_staged(self) -> None:
        while self._rows:
            self._send(min(self._rows, self._most))

    def _send(self, rows: int) -> None:
        where, begins = self._where(rows), self._newest[1]
        columns, packed = self._staged.get(where), self._choice.packed
        with self._waiting.running():
            parts: list[Any] = [wire.pack(columns[name]) if packed else columns[name] for name in self._columns]
        if self._streams is not None:
            steps, begins = self._streams.words(columns, begins)
            parts.insert(0, steps)
        if self._own_priorities:
            parts.append(self._staged._get_leaves(where).astype(wire.PRIORITIES[1]))
        while len(self._unanswered) >= WINDOW or (self._unanswered and self._has_reply()):
            self._await_reply()
        number, end = self._number + 1, (self._first + rows) % self._capacity
        head = Request(wire.ADD, rows, number).packed()
        sent = Sent(number, [head, self._name, *parts], rows, end, packed, begins)
        self._number = number  # if the call is interrupted after this line, the shard asks for a greeting
        self._unanswered.append(sent)
        self._transmit()

    def _transmit(self) -> None:
        """Connect if needed, and send, in order, every batch that has not been sent over this connection."""
        with self._whole_messages():
            if self._link is not None and self._link.was_lost():
                self._is_lost = True
                self._disconnect()
            if self._link is None:
                self._connect()
            assert self._link
            for sent in self._unanswered:
                if sent.over is not self._link:
                    sent.to, sent.at = self._process, self._waiting.seconds
                    wire.send(self._link.socket, sent.message)
                    sent.over = self._link

    @contextmanager
    def _whole_messages(self) -> Iterator[None]:
        """Close the connection if a call is interrupted, which may happen in the middle of a message."""
        try:
            yield
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _await_reply(self) -> None:
        """Receive an acknowledgement, or reconnect."""
        self._transmit()
        with self._whole_messages(), self._waiting.running():
            assert self._link
            reply = self._receive(self._link, self._deadline)
        if reply is None or reply.kind == wire.HELLO:  # it lacks a batch that was lost with an earlier connection
            self._is_lost = reply is None
            self._disconnect()
            self._transmit()
            return
        if reply.kind == wire.REFUSED:
            rows = sum(sent.rows for sent in self._unanswered if sent.number == reply.number)
            self._keep_only(sent for sent in self._unanswered if sent.number != reply.number)
            raise RuntimeError(f"the shard on {self._host} refused {rows} rows: {self._why}")
        for sent in self._unanswered:
            if sent.number <= reply.number and sent.to == self._process:
                self._choice.took(sent.packed, sent.rows, sent.at, self._waiting.seconds)
        self._keep_only(sent for sent in self._unanswered if sent.number > reply.number or sent.to != self._process)

    @property
    def _host(self) -> str:
        return self._address.host if self._address else "no host"

    def _receive(self, link: Link, seconds: float) -> Reply | None:
        """Return the next reply, or None if the connection was lost or no reply arrived in time."""
        poller = zmq.Poller()
        poller.register(link.socket, zmq.POLLIN)
        poller.register(link.monitor, zmq.POLLIN)
        ready = dict(poller.poll(int(1000 * seconds)))
        if link.socket not in ready:
            return None
        head, *parts = link.socket.recv_multipart()
        self._why = parts[0].decode(errors="replace") if parts else ""
        return Reply.read(head)

    def _connect(self) -> None:
        """Connect to a shard."""
        end = time.monotonic() + self._deadline
        lost = self._address if self._is_lost or self._when_lost == WAIT else None
        while True:
            address = self._choose(lost)
            if address is not None and self._greet(address):
                return
            if address is not None and self._when_lost == ELSEWHERE:
                lost = address
            if time.monotonic() > end and self._when_lost == ELSEWHERE:
                raise ConnectionError(f"no shard answered within {self._deadline:g} s")
            time.sleep(0.02)

    def _drop_doubtful(self, process: int) -> None:
        """Drop batches that a different server process may have stored, so that they are not sent again."""
        repeatable = [sent for sent in self._unanswered if sent.to in (None, process)]
        if doubtful := sum(sent.rows for sent in self._unanswered) - sum(sent.rows for sent in repeatable):
            log.warning("it is unknown whether %d rows were stored on %s", doubtful, self._host)
            self._keep_only(repeatable)
            self.unconfirmed += doubtful

    def _choose(self, lost: Address | None) -> Address | None:
        found = self._find()
        if lost is not None and self._when_lost == WAIT:
            same = [address for address in found if address.number == lost.number]
            found = same or [address for address in found if address.host == lost.host] or found
        elif lost is not None:
            found = [address for address in found if address.number != lost.number] or found
        elif self._address is not None:
            found = [address for address in found if address.number == self._address.number] or found
        return random.choice(found) if found else None

    def _greet(self, address: Address) -> bool:
        """Connect, and announce the number of the first batch. Return False if no server answers in time."""
        link = Link(self._context, address.host, address.storing_port, self._keys)
        end = time.monotonic() + self._deadline
        process = self._hello(link, 0, end)
        if process is not None:
            # Drop these before greeting again: a shard acknowledges repeated batches up to the number in the greeting.
            self._drop_doubtful(process)
            if self._hello(link, self._unanswered[0].number - 1 if self._unanswered else self._number, end) == process:
                self._process, self._address, self._link, self._is_lost = process, address, link, False
                return True
        link.close()
        return False

    def _hello(self, link: Link, last: int, end: float) -> int | None:
        """Greet, promising not to repeat any batch up to `last`. Return the answering server process, or None."""
        link.socket.send_multipart([Request(wire.HELLO, 0, last).packed(), self._name])
        while (left := end - time.monotonic()) > 0:
            reply = self._receive(link, left)
            if reply is not None and reply.kind == wire.HELLO:
                return reply.stored
            if reply is None and link.was_lost():
                break
        return None
