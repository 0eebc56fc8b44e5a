"""Processes on the hosts of a `Lan` that obey orders, which are lines of JSON on the standard streams.

The process calls `obey` with an object, whose methods the orders name. It ends when its standard input closes.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suites.lan import Lan

ANSWER_SECONDS = 60.0


class WorkerLost(RuntimeError):  # noqa: N818 (says what happened)
    """The process died, raised an exception, or does not answer."""


class Silent(WorkerLost):
    """The process does not answer in time."""


class HostProcess:
    """A process on a host, as seen by the process that started it."""

    def __init__(self, lan: Lan, host: int, module: str, arguments: Sequence[object], env: Mapping[str, str]) -> None:
        self.name = f"{module} on host {host}"
        command: list[str | Path] = [sys.executable, "-m", module, *map(str, arguments)]
        self.process = lan.start(host, command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tell(self, method: str, /, **arguments: Any) -> None:
        """Give an order, without waiting. Raises `WorkerLost`."""
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps([method, arguments]).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerLost(f"{self.name} died") from None

    def hear(self, limit: float = ANSWER_SECONDS) -> Any:
        """Return the result of the next order. Raises `WorkerLost`."""
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], limit)[0]:
            raise Silent(f"{self.name} did not answer within {limit:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise WorkerLost(f"{self.name} died with exit code {self.process.wait()}")
        answer, raised = json.loads(line)
        if raised:
            raise WorkerLost(f"{self.name} raised {raised}")
        return answer

    def do(self, method: str, /, *, limit: float = ANSWER_SECONDS, **arguments: Any) -> Any:
        """Give an order and wait at most `limit` seconds for its result. Raises `WorkerLost`."""
        self.tell(method, **arguments)
        return self.hear(limit)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def obey(worker: object) -> None:
    """In the process: carry out orders until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr  # so that other output is not mistaken for an answer
    for line in sys.stdin:
        method, arguments = json.loads(line)
        try:
            answer = getattr(worker, method)(**arguments)
        except Exception as error:
            print(json.dumps([None, f"{type(error).__name__}: {error}"]), file=answers, flush=True)
            raise
        print(json.dumps([answer, None]), file=answers, flush=True)
