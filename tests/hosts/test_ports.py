"""The ports of a shard: processes without its keys get no reply, and cannot disturb other processes."""

from __future__ import annotations

import socket
import struct
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
import zmq

from cpprb_impl.hosts import wire
from cpprb_impl.hosts.keys import Keys
from cpprb_impl.hosts.link import Link
from cpprb_impl.hosts.shard import Shard
from cpprb_impl.hosts.wire import Reply, Request

from .conftest import are_whole, layout_of, rows_with, with_and_without_encryption

LARGE_COMMAND = 64 << 20  # bytes that the frame of a handshake claims to have
pytestmark = with_and_without_encryption


def replies(link: Link, *messages: list[bytes], seconds: float = 1.0) -> list[list[bytes]]:
    for message in messages:
        link.socket.send_multipart(message)
    found = []
    while len(found) < len(messages) and link.socket.poll(int(1000 * seconds)):
        found.append(link.socket.recv_multipart())
    return found


DRAW = [Request(wire.DRAW, 3, 1).packed()]


@pytest.fixture
def shard(make_shards):
    (shard,) = make_shards(1)
    shard.buffer.add(**rows_with(np.arange(100)))
    return shard


@pytest.fixture
def link(shard, keys):
    context = zmq.Context()
    made = []

    def connect(with_keys: Keys = keys, port: int = shard.address.drawing_port) -> Link:
        made.append(Link(context, "127.0.0.1", port, with_keys))
        return made[-1]

    yield connect
    for each in made:
        each.close()
    context.term()


def test_clients_with_other_keys_receive_nothing(shard, link, keys, learn):
    strangers = [Keys.make(encrypt=False), Keys.make(encrypt=True)]
    if keys.server:  # a stranger that knows only the server's public key
        strangers.append(Keys(b"", (keys.server[0], b""), zmq.curve_keypair()))
    poller = zmq.Poller()
    for stranger in strangers:
        for port in (shard.address.drawing_port, shard.address.storing_port):
            asking = link(stranger, port)
            asking.socket.send_multipart(DRAW)
            poller.register(asking.socket, zmq.POLLIN)
    assert poller.poll(1000) == []
    assert len(replies(link(), DRAW)) == 1  # the control
    assert are_whole(learn([shard]).sample(32, 0.4))


def test_servers_listen_at_the_address_of_their_host_only(keys):
    with closing(Shard("of-one-address", 0, "127.0.0.2", "node", layout_of(10), keys)) as shard:
        for port in (shard.address.drawing_port, shard.address.storing_port):
            socket.create_connection(("127.0.0.2", port)).close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))


def test_an_address_of_another_machine_is_refused_with_a_remedy(keys):
    with pytest.raises(OSError, match=r"an address of its own machine, .* got 192\.0\.2\.77: .* --node-ip-address"):
        Shard("of-another-machine", 0, "192.0.2.77", "node", layout_of(10), keys)
    assert not [*Path("/dev/shm").glob("*of-another-machine*")]


def test_garbage_closes_only_its_own_connection(shard, link, learn):
    learner = learn([shard])
    greeting = b"\xff" + bytes(7) + b"\x01\x7f"  # in ZeroMQ's protocol
    for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 70_000, greeting + b"\x03" * 90):
        with socket.create_connection(("127.0.0.1", shard.address.drawing_port)) as stream:
            stream.sendall(junk)
        assert are_whole(learner.sample(32, 0.4))
    assert shard.servers["drawing"].restarts == 0


def test_a_stranger_cannot_make_a_server_buffer_its_messages(shard, keys, learn):
    learner = learn([shard])
    mechanism = (b"CURVE" if keys.server else b"PLAIN").ljust(20, b"\0")
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + mechanism + bytes(32)
    sent = 0
    with socket.create_connection(("127.0.0.1", shard.address.drawing_port)) as stream, suppress(ConnectionError):
        stream.sendall(greeting + b"\x06" + struct.pack(">Q", LARGE_COMMAND))
        while sent < LARGE_COMMAND:
            sent += stream.send(bytes(1 << 20))
    assert sent < LARGE_COMMAND
    assert are_whole(learner.sample(32, 0.4)) and shard.servers["drawing"].restarts == 0


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ([b""], "a request must have 13 bytes, got 0"),
        ([b"x" * 13], "must be to draw or to update, got b'x'"),
        ([*DRAW, b"more"], "must be to draw or to update, got b'd'"),
        ([Request(wire.DRAW, 2**32 - 1, 1).packed()], "MemoryError"),
        ([Request(wire.UPDATE, 2, 1).packed(), b"1234567", b"1234"], "rows must have 16 bytes for 2 rows, got 7"),
        ([Request(wire.UPDATE, 1, 1).packed(), bytes(8), np.float32(np.nan).tobytes()], "finite and not negative"),
        ([Request(wire.ADD, 1, 1).packed()], "must be to draw or to update"),
    ],
)
def test_a_malformed_message_of_an_owner_is_refused_with_the_reason(message, why, shard, link):
    ((head, *reason),) = replies(link(), message)
    assert Reply.read(head).kind == wire.REFUSED and why in reason[0].decode()
    assert len(replies(link(), DRAW)) == 1 and shard.servers["drawing"].restarts == 0
