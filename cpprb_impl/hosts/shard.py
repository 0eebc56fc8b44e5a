"""A shard: one host's rows, in shared memory, and the two servers through which other hosts use them."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from cpprb_impl.hosts import kept, wire
from cpprb_impl.hosts.keys import Keys
from cpprb_impl.hosts.sequences import columns_of_sequences
from cpprb_impl.hosts.server import DRAWING, STORING, ServerSettings
from cpprb_impl.layout.layout import Layout

PAUSE = 0.05  # seconds from a server's end to its next start
END_SECONDS = 3.0  # time for a server to end by itself
SAVE_SECONDS = 10.0
PIECE_BYTES = 4 << 20


@dataclass(frozen=True)
class Address:
    """A shard's location. An empty shard that replaces a lost one gets a new number."""

    number: int  # from 0 to 2^15 - 1
    host: str
    drawing_port: int
    storing_port: int
    segment: str  # for processes of the same node
    node: str  # Ray's node ID of the host
    columns: Sequence[wire.Column]  # of the rows or sequences that learners draw


class Server:
    """One server process, restarted on the same port whenever it ends."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._closed, self._starting = False, threading.Lock()
        self._process, self.port = self._start(settings)
        self.restarts = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _start(self, settings: ServerSettings) -> tuple[subprocess.Popen, int]:
        process = subprocess.Popen(
            [sys.executable, "-m", "cpprb_impl.hosts.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin and process.stdout
        process.stdin.write(settings.line())
        process.stdin.flush()
        port = process.stdout.readline()
        if not port:
            raise RuntimeError(f"a server for {settings.role} did not start: exit status {process.wait()}")
        return process, int(port)

    def _watch(self) -> None:
        while True:
            self._process.wait()
            time.sleep(PAUSE)
            with self._starting:
                if self._closed:
                    return
                with suppress(OSError, RuntimeError):  # try again
                    self._process, _ = self._start(replace(self._settings, port=self.port))
                    self.restarts += 1

    @property
    def pid(self) -> int:
        """The id of the current process."""
        return self._process.pid

    def close(self) -> None:
        """End the process without restarting it."""
        with self._starting:
            self._closed, process = True, self._process
        if process.stdin:
            process.stdin.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:  # the process is stopped, or hangs
            process.kill()
        self._thread.join()


def own_address(host: str) -> str:
    """Return this node's Ray address, as a numeric address to listen at. Raise OSError if it is not this machine's."""
    try:
        with socket.socket() as trial:
            trial.bind((host, 0))
            return str(trial.getsockname()[0])
    except OSError:
        raise OSError(
            "the Ray address of a node with data must be an address of its own machine, so that its shard's servers "
            f"can listen, got {host}: pass a different one to ray start --node-ip-address"
        ) from None


class Shard:
    """Supervises the servers of one host's shared buffer. Runs as a Ray actor.

    If it dies, its servers end, and the next shard of the same buffer on this host takes over its rows and its number.
    """

    def __init__(self, buffer: str, number: int, host: str, node: str, layout: Layout, keys: Keys) -> None:
        self._closed = threading.Event()
        own = own_address(host)
        self.buffer, self._name, number = kept.take_over(buffer, host) or kept.make(buffer, host, number, layout)
        self._keeper = kept.Keeper(self._name)
        columns = drawn = wire.columns_of(self.buffer.get_all_transitions())
        if sequences := layout.options.get("sequences"):
            drawn = columns_of_sequences(columns, sequences)
        settings = {role: ServerSettings(role, self._name, own, 0, columns, keys) for role in (DRAWING, STORING)}
        self.servers = {role: Server(each) for role, each in settings.items()}
        drawing, storing = (self.servers[role].port for role in (DRAWING, STORING))
        self.address = Address(number, host, drawing, storing, self._name, node, drawn)

    def get_servers(self) -> dict[str, int]:
        """Return the process ids of the servers."""
        return {role: server.pid for role, server in self.servers.items()}

    def get_address(self) -> Address:
        """Return the address at which other processes find this shard."""
        return self.address

    def wait(self) -> None:
        """Return when the shard is closed. In this way, a remote caller notices when the shard is lost."""
        self._closed.wait()

    def save(self) -> Iterator[bytes]:
        """Yield the file that `save_transitions` writes, in pieces.

        If rows are added during this time, saving starts over. Raises RuntimeError if rows are still being added after
        `SAVE_SECONDS`.
        """
        end = time.monotonic() + SAVE_SECONDS
        with tempfile.TemporaryFile() as file:
            while True:
                try:
                    self.buffer.save_transitions(file)
                    break
                except RuntimeError:
                    if time.monotonic() > end:
                        raise
                    file.seek(0)
                    file.truncate()
            file.seek(0)
            while piece := file.read(PIECE_BYTES):
                yield piece

    def begin_to_load(self) -> None:
        """Discard what `take_piece` received before."""
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (`load` closes it)

    def take_piece(self, piece: bytes) -> None:
        """Receive the next piece of a file."""
        self._file.write(piece)

    def load(self, part: int, parts: int) -> None:
        """Append one of several equal parts of the received file. Raises the exceptions of `load_transitions`."""
        with self._file as file:
            file.seek(0)
            self.buffer._load_part(file, part, parts)

    def close(self) -> None:
        """End the servers and release the memory."""
        self._closed.set()
        kept.remove(self._name)
        self._keeper.close()
        for server in self.servers.values():
            server.close()
        self.buffer.close()
