"""Forks launches from a process that has already imported their modules. A fresh process mostly imports modules.

What a launch leaves behind becomes a child of the server, its subreaper (prctl(2)). A mark in the environment would not
find all of it: for a forked process, /proc shows the environment of its parent.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

LAUNCHES = ("apex", "conformance", "integrity", "latency", "sharing", "startup", "throughput")
RUN = ("suites.runner.driver", "suites.runner.command_line", "suites.runner.resuming")
OTHERS = ("faulty_peers", "pytest", "pytest_benchmark.plugin", "xdist.plugin", "hypothesis", "_hypothesis_pytestplugin")
PR_SET_CHILD_SUBREAPER = 36
WATCHDOGS_END = 10.0  # time limit in seconds for watchdogs to end after the processes of the buffers


class ForkServer:
    """The server, as seen by a test."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.socket, there = socket.socketpair()
        command = [sys.executable, __file__, str(there.fileno())]
        self.process = subprocess.Popen(command, cwd=folder, env=variables, pass_fds=[there.fileno()])
        there.close()

    def run(self, arguments: Sequence[str], variables: Mapping[str, str], seconds: float) -> tuple[int, str, str]:
        """Return the status of `python ARGUMENTS`, and its output. Returns only when no process can write any more."""
        request, (reads, writes) = json.dumps([arguments, dict(variables)]).encode(), os.pipe()
        with os.fdopen(reads) as output, tempfile.TemporaryFile("w+") as errors:
            socket.send_fds(self.socket, [len(request).to_bytes(4)], [writes, errors.fileno()])
            self.socket.sendall(request)
            os.close(writes)
            said: list[str] = []
            reader = threading.Thread(target=lambda: said.append(output.read()))
            reader.start()
            reader.join(seconds)
            if reader.is_alive():
                self.close()
                reader.join()
                raise subprocess.TimeoutExpired(list(arguments), seconds)
            status = int.from_bytes(self.socket.recv(4), signed=True)
            errors.seek(0)
            return status, *said, errors.read()

    def left(self) -> list[psutil.Process]:
        """Return the processes that launches have left behind, after the watchdogs of buffers had time to end."""
        until = time.monotonic() + WATCHDOGS_END
        while True:
            found = alive(psutil.Process(self.process.pid))
            if time.monotonic() > until or not any(is_watchdog(each) for each in found):
                return found
            time.sleep(0.02)

    def close(self) -> None:
        """End the server and all processes that it has forked."""
        for each in self.left():
            each.kill()
        self.socket.close()
        self.process.wait()


def is_watchdog(process: psutil.Process) -> bool:
    """Return whether a process removes the segments of a process that has ended (cpprb_impl/processes/watchdog.py)."""
    with suppress(psutil.NoSuchProcess):
        return any(each.startswith("/cpprb_impl-") for each in process.cmdline())
    return False


def alive(parent: psutil.Process) -> list[psutil.Process]:
    """Return the descendants that have not ended."""
    found = []
    for each in parent.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            found += [each] * (each.status() != psutil.STATUS_ZOMBIE)
    return found


def serve(requests: socket.socket) -> list[str]:
    """Fork a process for each request. Returns only in the forks, with the arguments of Python."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    for module in (*(f"suites.{each}.measure" for each in LAUNCHES), *RUN, *OTHERS):
        importlib.import_module(module)
    gc.freeze()
    while True:
        size, files, _, _ = socket.recv_fds(requests, 4, 2)
        if not size:
            sys.exit()
        arguments, variables = json.loads(requests.recv(int.from_bytes(size), socket.MSG_WAITALL))
        for left in alive(psutil.Process()):  # left by a test that failed
            left.kill()
        if not (launch := os.fork()):
            for number, file in enumerate(files, 1):
                os.dup2(file, number)
                os.close(file)
            requests.close()
            os.environ.clear()
            os.environ.update(variables)
            return arguments
        for file in files:
            os.close(file)
        _, status = os.waitpid(launch, 0)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        requests.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, signed=True))


if __name__ == "__main__":
    how, what, *options = serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = [what if how == "-m" else how, *options]
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(what, {"__name__": "__main__"})
