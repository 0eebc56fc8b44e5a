"""A simple replay server, typical of first implementations: one process with a ZeroMQ socket, asyncio, and pickled
messages.

It is designed like the Ape-X servers that this project started from, but needs no lock: a buffer call contains no
`await`, so two calls never overlap. The buffer is cpprb's or ours.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from adapters.base import Adapter, Columns, Spec
from adapters.contract import Processes, Stated, no
from adapters.hosts import HostsAdapter, Place
from adapters.peers.cpprb.adapter import Cpprb
from adapters.peers.cpprb_impl import CpprbImpl

PROTOCOL = pickle.HIGHEST_PROTOCOL


class ReplayServer(HostsAdapter):
    """The client of the server, which is on the first data host only."""

    behind: ClassVar[type[Adapter]]  # the buffer in the server

    @classmethod
    @contextmanager
    def serving(cls, spec: Spec, here: str) -> Iterator[str]:
        import zmq
        import zmq.asyncio

        buffer, socket = cls.behind.make(spec), zmq.asyncio.Context().socket(zmq.ROUTER)
        port = socket.bind_to_random_port(f"tcp://{here}")
        threading.Thread(target=lambda: asyncio.run(_serve(socket, buffer)), daemon=True).start()
        yield f"{here}:{port}"  # the thread ends with the process

    def __init__(self, spec: Spec, place: Place) -> None:
        import zmq

        self.fields, self._context = spec.fields, zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.connect(f"tcp://{place.data[0]}")

    @classmethod
    def joined(cls, spec: Spec, place: Place, handle: bytes) -> Self:
        return cls(spec, place)

    def _ask(self, method: str, *args: Any) -> Any:
        self._socket.send(pickle.dumps((method, args), PROTOCOL))
        answer = pickle.loads(self._socket.recv())
        if isinstance(answer, Exception):
            raise answer
        return answer

    def add(self, steps: Any) -> None:
        self._ask("add", steps)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        self._ask("add_batch", columns, priorities)

    def sample(self, batch_size: int) -> Columns:
        return self._ask("sample", batch_size)

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        self._ask("update_priorities", indexes, priorities)

    def __len__(self) -> int:
        return self._ask("__len__")

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()


async def _serve(socket: Any, buffer: Adapter) -> None:
    while True:
        sender, message = await socket.recv_multipart()
        method, args = pickle.loads(message)
        try:
            result = getattr(buffer, method)(*args)
        except Exception as error:
            result = error
        await socket.send_multipart([sender, pickle.dumps(result, PROTOCOL)])


def _contract(behind: type[Adapter]) -> Any:
    return replace(behind.contract, processes=Stated(Processes.ANY, "through a server"), disk=no(), compression=no())


class CpprbReplayServer(ReplayServer):
    name = "cpprb[replay server]"
    distribution = "cpprb"
    behind = Cpprb
    usage = (
        "PrioritizedReplayBuffer behind an asyncio server on the first data host: ZeroMQ, one process, pickled messages"
    )
    contract = _contract(Cpprb)


class CpprbImplReplayServer(ReplayServer):
    name = "cpprb_impl[replay server]"
    distribution = "cpprb-impl"
    behind = CpprbImpl
    usage = "the same server with cpprb_impl's PrioritizedReplayBuffer behind it"
    contract = _contract(CpprbImpl)
