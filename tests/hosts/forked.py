"""Servers of shards, forked from a process that has imported what they need, since starting Python takes far longer.

python -m tests.hosts.forked FD    # that process; FD is a socket, from which it reads the servers' pipes
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from typing import IO

from cpprb_impl.hosts import server


class Forked:
    """The part of `Popen` that a shard uses, for a forked server."""

    def __init__(self, pid: int, stdin: IO[str], stdout: IO[str]) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self._ended = os.pidfd_open(pid)  # becomes readable when the process ends

    def wait(self, timeout: float | None = None) -> None:
        if not select.select([self._ended], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a forked server", timeout or 0.0)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._ended, signal.SIGKILL)

    def __del__(self) -> None:
        os.close(self._ended)


class Parent:
    """The process from which servers are forked, as seen from the process of the tests."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._owner, self._turn = os.getpid(), threading.Lock()
        command = [sys.executable, "-m", "tests.hosts.forked", str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()

    def start(self, command: list[str], **pipes: object) -> Forked | subprocess.Popen:
        """Start a server. Forked children of the tests' process start it as a new Python process, as a shard does."""
        if os.getpid() != self._owner:
            return subprocess.Popen(command, **pipes)
        (reads, stdin), (stdout, writes) = os.pipe(), os.pipe()
        with self._turn:
            socket.send_fds(self._socket, [b"s"], [reads, writes])
            os.close(reads)
            os.close(writes)
            pid = int.from_bytes(self._socket.recv(8), "little")
        return Forked(pid, open(stdin, "w"), open(stdout))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def serve(requests: socket.socket) -> None:
    """Fork a server for each request, until the socket is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    while True:
        request, pipes, *_ = socket.recv_fds(requests, 1, 2)
        if not request:
            return
        if pid := os.fork():
            for pipe in pipes:
                os.close(pipe)
            requests.sendall(pid.to_bytes(8, "little"))
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        requests.close()
        for pipe, standard in zip(pipes, (0, 1), strict=True):
            os.dup2(pipe, standard)
            os.close(pipe)
        with open(0) as sys.stdin, open(1, "w") as sys.stdout:
            server.main()
        os._exit(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
