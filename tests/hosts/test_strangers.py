"""Connections that never authenticate are limited in number, and owners of the keys can use the server meanwhile."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import numpy as np
import pytest
import zmq

from cpprb_impl.hosts.keys import Keys
from cpprb_impl.hosts.strangers import MOST, Strangers

from .conftest import are_whole, rows_with, with_and_without_encryption

PATIENCE = 10.0
EXTRA = 200  # strangers beyond the limit
OTHERS = 64  # at most this many descriptors of a server are not connections
pytestmark = with_and_without_encryption


def silent(port: int, count: int, stack: ExitStack) -> list[socket.socket]:
    strangers = []
    for _ in range(count):
        stranger = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
        # ZeroMQ greets each connection that it accepts. With too many waiting to be accepted, connecting takes seconds.
        with suppress(ConnectionError):
            stranger.recv(1, socket.MSG_PEEK)
        strangers.append(stranger)
    return strangers


def is_closed(connection: socket.socket) -> bool:
    """Return whether the server has closed the connection, after reading what it sent before."""
    connection.setblocking(False)
    try:
        while data := connection.recv(1 << 16):
            assert data
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def wait_until(condition) -> bool:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("role", ["drawing", "storing"])
def test_silent_strangers_are_limited_and_owners_keep_working(role, make_shards, learn, monkeypatch):
    # On a busy machine, a server that is closing hundreds of connections may miss heartbeats for half a second.
    monkeypatch.setattr("cpprb_impl.hosts.link.SILENCE_MS", int(1000 * PATIENCE))
    (shard,) = make_shards(1)
    shard.buffer.add(**rows_with(np.arange(100)))
    early = learn([shard])
    assert are_whole(early.sample(32, 0.4))
    descriptors = Path(f"/proc/{shard.get_servers()[role]}/fd")
    port = getattr(shard.address, f"{role}_port")
    with ExitStack() as stack:
        strangers = silent(port, MOST + EXTRA, stack)
        assert wait_until(lambda: len(list(descriptors.iterdir())) <= MOST + OTHERS)
        assert wait_until(lambda: all(map(is_closed, strangers[:EXTRA])))
        assert not any(map(is_closed, strangers[-MOST // 2 :]))
        for learner in (early, learn([shard])):
            assert are_whole(learner.sample(32, 0.4))
    assert early.lost == [] and shard.servers[role].restarts == 0


@pytest.fixture
def small(keys) -> Iterator[tuple[zmq.Socket, int]]:
    """Return a server's socket, and its record of strangers, of which three may wait."""
    with zmq.Context() as context, ExitStack() as stack:
        guard = keys.guard(context)
        stack.callback(guard.stop)
        router = stack.enter_context(context.socket(zmq.ROUTER))
        router.linger = 0
        keys.of_server(router)
        strangers = stack.enter_context(closing(Strangers(router, most=3)))
        router.bind("tcp://127.0.0.1:0")
        yield router, strangers


def test_only_the_oldest_strangers_are_closed(small, keys):
    router, strangers = small
    port = int(router.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
    with zmq.Context() as context, ExitStack() as stack:
        owners = [stack.enter_context(context.socket(zmq.DEALER)) for _ in range(5)]
        for owner in owners:
            owner.linger = 0
            keys.of_client(owner)
            owner.connect(f"tcp://127.0.0.1:{port}")
            owner.send(b"first")
            sender, _ = router.recv_multipart(copy=False)
            assert wait_until(lambda: strangers.waiting)
            strangers.has_sent(sender)
            assert not strangers.waiting
        made = silent(port, 3, stack)
        assert wait_until(lambda: len(strangers.waiting) == 3)
        assert not any(map(is_closed, made))
        made += silent(port, 2, stack)
        assert wait_until(lambda: is_closed(made[1]))
        assert [is_closed(each) for each in made] == [True, True, False, False, False]
        made[2].close()  # closed by the stranger itself
        assert wait_until(lambda: len(strangers.waiting) == 2)
        for owner in owners:  # all of which are still connected
            owner.send(b"second")
            sender, part = router.recv_multipart()
            assert part == b"second"
            router.send_multipart([sender, b"reply"])
            assert owner.poll(1000 * int(PATIENCE)) and owner.recv() == b"reply"


def test_keys_of_another_buffer_count_as_strangers(small):
    router, strangers = small
    port = int(router.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
    with zmq.Context() as context, ExitStack() as stack:
        for _ in range(6):
            other = stack.enter_context(context.socket(zmq.DEALER))
            other.linger, other.reconnect_ivl = 0, -1
            Keys.make(encrypt=True).of_client(other)
            other.connect(f"tcp://127.0.0.1:{port}")
            with suppress(zmq.Again):  # it is refused before it can send, and would wait forever
                other.send(b"mine", zmq.NOBLOCK)
        assert not router.poll(500)
        assert len(strangers.waiting) <= 3
