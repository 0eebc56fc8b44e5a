"""A connection to one of a shard's servers, which notices when the server is gone."""

from __future__ import annotations

import itertools
import time
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from cpprb_impl.hosts.keys import Keys

# ZeroMQ's own threads ask for and answer heartbeats, so a busy Python process does not appear dead.
HEARTBEAT_MS, SILENCE_MS = 150, 600
LOST = zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
_names = itertools.count()


class Link:
    """A socket that is connected, or tries to connect, to a server. `heard` is when its last message arrived."""

    def __init__(self, context: zmq.Context, host: str, port: int, keys: Keys) -> None:
        self._context, self._keys = context, keys
        self.endpoint = f"tcp://{host}:{port}"
        self.heard = time.monotonic()
        self._open()

    def _open(self) -> None:
        self.socket: zmq.Socket[Any] = self._context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.set_hwm(0)
        self.socket.reconnect_ivl, self.socket.reconnect_ivl_max = 50, 500
        self.socket.heartbeat_ivl, self.socket.heartbeat_timeout = HEARTBEAT_MS, SILENCE_MS
        self._keys.of_client(self.socket)
        self.monitor = self.socket.get_monitor_socket(LOST, f"inproc://replay-link-{next(_names)}")
        self.socket.connect(self.endpoint)

    def was_lost(self) -> bool:
        """Whether the connection was lost since the last call."""
        lost = False
        while self.monitor.poll(0):
            recv_monitor_message(self.monitor)
            lost = True
        return lost

    def open_again(self) -> None:
        """Reconnect, dropping everything that was sent but not answered."""
        self.close()
        self._open()

    def close(self) -> None:
        """Disconnect. Unsent messages are dropped."""
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close(linger=0)
