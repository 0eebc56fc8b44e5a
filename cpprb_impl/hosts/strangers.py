"""A server's unauthenticated connections: see `Strangers`."""

from __future__ import annotations

import os
import resource
import socket
import threading
from contextlib import suppress

import zmq
from zmq.utils.monitor import recv_monitor_message

MOST = 512  # connections that may wait to authenticate; an owner of the keys needs a few round trips
ENDPOINT = "inproc://replay-strangers"


class Strangers:
    """Closes the oldest unauthenticated connections once there are more than `most`.

    ZeroMQ accepts every connection, and closes silent ones only after 30 s. Without a limit, silent connections would
    use up the process's descriptors, and no other client could connect. ZeroMQ reports connections by descriptor, but
    not which of them have authenticated: only those can send messages, so the server passes each message's first part
    to `has_sent`.

    Parameters
    ----------
    router : zmq.Socket
        Not bound yet.
    most : int
    """

    def __init__(self, router: zmq.Socket, most: int = MOST) -> None:
        self.waiting: dict[int, None] = {}  # by descriptor, the oldest first
        self._router, self._most, self._lock = router, most, threading.Lock()
        router.monitor(ENDPOINT, zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_MONITOR_STOPPED)
        self._events: zmq.Socket = router.context.socket(zmq.PAIR)
        self._events.set_hwm(0)  # otherwise ZeroMQ's own thread would wait for this one
        self._events.connect(ENDPOINT)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while (event := recv_monitor_message(self._events))["event"] != zmq.EVENT_MONITOR_STOPPED:
            descriptor = event["value"]
            with self._lock:
                self.waiting.pop(descriptor, None)
                if event["event"] == zmq.EVENT_ACCEPTED:
                    self.waiting[descriptor] = None
                oldest = next(iter(self.waiting)) if len(self.waiting) > self._most else None
                if oldest is not None:
                    del self.waiting[oldest]
            if oldest is not None:
                _shut(oldest)
        self._events.close(linger=0)

    def has_sent(self, part: zmq.Frame) -> None:
        """Record that the connection that sent this part has authenticated.

        If a client's first message arrives before ZeroMQ reports its connection, the connection counts as waiting until
        the second message.
        """
        with self._lock:
            self.waiting.pop(int(part.get(zmq.SRCFD)), None)

    def close(self) -> None:
        """Stop watching. Connections stay open."""
        self._router.disable_monitor()
        self._thread.join()


def _shut(descriptor: int) -> None:
    """Make ZeroMQ treat a connection as closed by its peer.

    If the descriptor was closed meanwhile and its number now belongs to another connection, that connection's client
    reconnects.
    """
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def allow_connections() -> None:
    """Raise this process's limit of open descriptors, often 1,024, to the hard limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
