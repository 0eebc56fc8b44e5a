"""A shard server: a process that draws rows for learners, or stores rows from explorers on other hosts.

Its supervisor starts it as `python -m cpprb_impl.hosts.server`, and writes its `ServerSettings` as one line of JSON to
its standard input. The server prints its port, and exits at the end of its standard input. The rows are in shared
memory, so a server that was killed and restarted continues with the same rows.
"""

from __future__ import annotations

import base64
import json
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import zmq

from cpprb_impl.buffers.shared import MPPrioritizedReplayBuffer
from cpprb_impl.hosts import wire
from cpprb_impl.hosts.keys import Keys
from cpprb_impl.hosts.sequences import length_of
from cpprb_impl.hosts.strangers import Strangers, allow_connections
from cpprb_impl.hosts.wire import Malformed, Reply, Request

DRAWING, STORING = "drawing", "storing"
REMEMBERED = 65_536  # explorers whose last batch is remembered; others' repeated batches may be stored twice
SMALLEST_LIMIT = 1 << 16  # bytes of a part, more than greetings and priorities need
FRAMING = 64  # upper bound of the bytes that encryption adds to a part (33)
WAKES = 64  # messages that are answered between two checks of standard input

Answer = Callable[[Sequence[zmq.Frame]], Sequence[Any] | None]  # returns the parts of the reply to a message


@dataclass(frozen=True)
class ServerSettings:
    """The settings of a server."""

    role: str
    segment: str
    host: str  # the address at which it listens
    port: int  # 0: any
    columns: Sequence[wire.Column]
    keys: Keys

    @property
    def largest_part(self) -> int:
        """The size in bytes of the largest part that the server accepts, so that a stranger cannot fill its memory."""
        if self.role == DRAWING:
            return FRAMING + wire.MOST_UPDATED * wire.bytes_of(wire.ROWS)
        return FRAMING + max(SMALLEST_LIMIT, wire.MOST_ADDED * max(map(wire.bytes_of, self.columns)))

    def line(self) -> str:
        """Return the settings as one line of JSON."""

        def text(value: Any) -> Any:
            return base64.b64encode(value).decode() if isinstance(value, bytes) else value and [text(v) for v in value]

        keys = {name: text(value) for name, value in vars(self.keys).items()}
        return json.dumps({**vars(self), "keys": keys}) + "\n"

    @classmethod
    def read(cls, line: str) -> ServerSettings:
        """Parse settings written by `line`."""

        def value(text: Any) -> Any:
            return base64.b64decode(text) if isinstance(text, str) else text and tuple(value(each) for each in text)

        found = json.loads(line)
        keys = Keys(**{name: value(text) for name, text in found["keys"].items()})
        columns = [(name, dtype, tuple(shape)) for name, dtype, shape in found["columns"]]
        return cls(**{**found, "columns": columns, "keys": keys})


class Drawer:
    """Answers learners, which ask for rows or sequences and send new priorities."""

    def __init__(self, buffer: MPPrioritizedReplayBuffer) -> None:
        self.buffer = buffer
        sequences = buffer._layout.options.get("sequences")
        self.updates = {wire.UPDATE: [wire.ROWS, wire.PRIORITIES]}
        self.kinds = {wire.DRAW, wire.DRAW_PACKED}
        if sequences:
            name, dtype, _ = wire.PRIORITIES
            self.updates[wire.ERRORS] = [wire.ROWS, (name, dtype, (length_of(sequences),))]
            self.kinds.add(wire.COUNT)

    def __call__(self, parts: Sequence[zmq.Frame]) -> Sequence[Any] | None:
        """Return the parts of the reply, or None if there is none. Raise `Malformed`, or an exception of the buffer."""
        request = Request.read(parts[0].bytes)
        if request.kind in self.updates:
            self.buffer._update_rows(**wire.arrays(parts[1:], request.rows, self.updates[request.kind]))
            return None
        if request.kind not in self.kinds or len(parts) != 1:
            raise Malformed(f"a learner's request must be to draw or to update, got {request.kind!r}")
        counted = self.buffer.get_valid_sequences() if request.kind == wire.COUNT else -1
        try:
            rows, total, smallest, sequences = self._draw(request.rows)
        except ValueError as error:  # the shard is empty, or every priority is 0
            refusal = Reply(wire.REFUSED, 0, request.number, stored=self.buffer.get_stored_size(), sequences=0)
            return [refusal.packed(), str(error).encode()]
        stored = self.buffer.get_stored_size()
        reply = Reply(wire.DRAW, request.rows, request.number, total, smallest, stored, max(counted, sequences))
        *fields, leaves, numbers = rows.values()
        if request.kind == wire.DRAW_PACKED:
            fields = [wire.pack(field) for field in fields]
        return [reply.packed(), leaves, numbers, *fields]

    def _draw(self, rows: int) -> tuple[dict[str, np.ndarray], float, float, int]:
        if wire.COUNT in self.kinds:
            return self.buffer._draw_sequences(rows)
        return (*self.buffer._draw(rows), -1)


class Storer:
    """Answers explorers on other hosts."""

    def __init__(self, buffer: MPPrioritizedReplayBuffer, columns: Sequence[wire.Column]) -> None:
        self.buffer, self.columns = buffer, columns
        self.last: dict[bytes, int] = {}  # by explorer: the last batch that was stored or will not be sent again
        self.process = secrets.randbits(63)
        # By explorer, with sequences: the first of its streams. Each explorer has as many as environments.
        self.streams: dict[bytes, int] | None = {} if "sequences" in buffer._layout.options else None
        self.unused: list[int] = []  # first streams of explorers that are not remembered

    def __call__(self, parts: Sequence[zmq.Frame]) -> Sequence[Any]:
        """Return the parts of the reply. Raise `Malformed`, or an exception of the buffer."""
        request = Request.read(parts[0].bytes)
        if request.kind not in (wire.HELLO, wire.ADD) or len(parts) < 2:
            what = f"{request.kind!r} and {len(parts)} parts"
            raise Malformed(f"an explorer's message must be a greeting or an add, with its name, got {what}")
        # ZeroMQ may have reconnected by itself, possibly to a new process, and lost earlier messages. A batch is
        # therefore stored only after its predecessor. An explorer that has reconnected repeats the batches that were
        # not acknowledged, and its earlier messages may still arrive as well.
        name, columns = parts[1].bytes, parts[2:]
        last = self.last.get(name, 0)
        if request.kind == wire.ADD and request.number <= last + 1:
            if request.number > last:
                self._store(name, request.rows, columns)
                self._remember(name, request.number)
            return [Reply(wire.ADD, request.rows, request.number).packed()]
        if request.kind == wire.HELLO:
            if self.streams and name in self.streams and request.number > last:
                self._begin_runs(self.streams[name])  # the batches in between were not stored here
            self._remember(name, max(last, request.number))
        return [Reply(wire.HELLO, 0, request.number, stored=self.process).packed()]

    def _store(self, name: bytes, rows: int, parts: Sequence[zmq.Frame]) -> None:
        steps, columns = ([], parts) if self.streams is None else (parts[:1], parts[1:])
        own = [wire.PRIORITIES] if len(columns) > len(self.columns) else []
        arrays = wire.arrays(columns, rows, [*self.columns, *own], packed=True)
        if self.streams is None:
            self.buffer._add_rows(**arrays)
            return
        words = wire.arrays(steps, rows, [wire.STEPS])["steps"].astype(np.int64)
        streams, firsts = words >> 1, (words & 1).astype(bool)
        if streams.max(initial=0) >= self.buffer.n_envs:
            raise Malformed(f"a stream must be from 0 to {self.buffer.n_envs - 1}, got {streams.max()}")
        if name not in self.streams:
            first = self.unused.pop() if self.unused else len(self.streams) * self.buffer.n_envs
            self._begin_runs(first)
            self.streams[name] = first
        self.buffer._add_steps(self.streams[name] + streams, firsts, **arrays)

    def _begin_runs(self, first: int) -> None:
        """Let the next steps of an explorer's streams continue none."""
        self.buffer._begin_runs(first, np.zeros(self.buffer.n_envs, bool))

    def _remember(self, name: bytes, last: int) -> None:
        self.last.pop(name, None)
        self.last[name] = last
        if len(self.last) > REMEMBERED:
            oldest = next(iter(self.last))
            del self.last[oldest]
            if self.streams and oldest in self.streams:
                self.unused.append(self.streams.pop(oldest))


def serve(router: zmq.Socket, strangers: Strangers, answer: Answer, end: Any) -> None:
    """Answer messages until the file `end` can be read."""
    poller = zmq.Poller()
    poller.register(router, zmq.POLLIN)
    poller.register(end.fileno(), zmq.POLLIN)
    while end.fileno() not in dict(poller.poll()):
        for _ in range(WAKES):
            try:
                sender, *parts = router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            if strangers.waiting:
                strangers.has_sent(sender)
            reply = _reply(answer, parts)
            if reply is not None:
                wire.send(router, [sender.bytes, *reply])


def _reply(answer: Answer, parts: Sequence[zmq.Frame]) -> Sequence[Any] | None:
    try:
        return answer(parts)
    except (ValueError, TypeError, KeyError, IndexError, RuntimeError, MemoryError, OSError) as error:
        number = 0
        if parts and len(parts[0].bytes) == wire.REQUEST.size:
            number = Request.read(parts[0].bytes).number
        return [Reply(wire.REFUSED, 0, number).packed(), f"{type(error).__name__}: {error}".encode()]


@contextmanager
def bound(settings: ServerSettings) -> Iterator[tuple[zmq.Socket, Strangers]]:
    """Yield a socket to which only owners of the keys can connect, and the connections not yet authenticated."""
    with zmq.Context() as context:
        guard = settings.keys.guard(context)
        try:
            with context.socket(zmq.ROUTER) as router:
                router.linger = 0
                router.set_hwm(0)  # there are few requests, since learners and explorers limit their number
                router.maxmsgsize = settings.largest_part
                router.heartbeat_ivl, router.heartbeat_timeout = 200, 800
                settings.keys.of_server(router)
                with closing(Strangers(router)) as strangers:
                    router.bind(f"tcp://{settings.host}:{settings.port}")
                    yield router, strangers
        finally:
            guard.stop()


def main() -> None:
    """Serve until standard input ends."""
    settings = ServerSettings.read(sys.stdin.readline())
    buffer = MPPrioritizedReplayBuffer.attach(settings.segment)
    answer: Answer = Drawer(buffer) if settings.role == DRAWING else Storer(buffer, settings.columns)
    allow_connections()
    with bound(settings) as (router, strangers):
        with suppress(BrokenPipeError):  # the supervisor has just died, and standard input has ended
            print(router.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2], flush=True)
        serve(router, strangers, answer, sys.stdin)


if __name__ == "__main__":
    main()
