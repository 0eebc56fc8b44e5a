"""Access control for a shard's ports: clients need the buffer's keys, which they receive with it through Ray."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import zmq
import zmq.auth
from zmq.auth.thread import ThreadAuthenticator

USER = DOMAIN = "replay"  # names that ZeroMQ requires


@dataclass(frozen=True)
class Keys:
    """A password, sent in clear text; or, for encrypted connections, two pairs of CurveZMQ keys."""

    password: bytes
    server: tuple[bytes, bytes] | None = None  # public and secret
    client: tuple[bytes, bytes] | None = None

    @classmethod
    def make(cls, encrypt: bool) -> Keys:
        """Return new keys."""
        if not encrypt:
            return cls(secrets.token_hex(32).encode())
        return cls(b"", zmq.curve_keypair(), zmq.curve_keypair())

    def of_client(self, socket: zmq.Socket) -> None:
        """Set up a socket before it connects to a shard."""
        if self.server and self.client:
            socket.curve_serverkey = self.server[0]
            socket.curve_publickey, socket.curve_secretkey = self.client
        else:
            socket.plain_username, socket.plain_password = USER.encode(), self.password

    def of_server(self, socket: zmq.Socket) -> None:
        """Set up a socket before it is bound. Connections are refused unless `guard` checks them."""
        socket.zap_domain = DOMAIN.encode()
        if self.server:
            socket.curve_server = True
            socket.curve_publickey, socket.curve_secretkey = self.server
        else:
            socket.plain_server = True

    def guard(self, context: zmq.Context) -> ThreadAuthenticator:
        """Start a thread that authenticates a context's clients. The caller must stop it."""
        guard = ThreadAuthenticator(context)
        guard.start()
        if self.client:
            guard.configure_curve_callback(domain=DOMAIN, credentials_provider=_OneClient(self.client[0]))
        else:
            guard.configure_plain(domain=DOMAIN, passwords={USER: self.password.decode()})
        return guard


@dataclass(frozen=True)
class _OneClient:
    """The object that pyzmq asks about a client's public key."""

    public: bytes

    def callback(self, _domain: str, key: Any) -> bool:
        return bool(key == self.public)
