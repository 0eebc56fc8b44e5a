"""Worker processes on the hosts of a `Lan`. Calls and results are lines of JSON on the standard streams.

A worker calls `obey` with the object whose methods can be called. It ends when its standard input is closed.
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
    """The worker died, raised an exception, or does not answer."""


class Silent(WorkerLost):
    """The worker does not answer in time."""


class HostProcess:
    """A worker on a host, as seen by the process that started it."""

    def __init__(self, lan: Lan, host: int, module: str, arguments: Sequence[object], env: Mapping[str, str]) -> None:
        self.name = f"{module} on host {host}"
        command: list[str | Path] = [sys.executable, "-m", module, *map(str, arguments)]
        self.process = lan.start(host, command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tell(self, method: str, /, **arguments: Any) -> None:
        """Call `method` in the worker, without waiting for its result. Raises `WorkerLost`."""
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps([method, arguments]).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerLost(f"{self.name} died") from None

    def hear(self, limit: float = ANSWER_SECONDS) -> Any:
        """Return the worker's next result, waiting at most `limit` seconds. Raises `WorkerLost`."""
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
        """Call `method` in the worker and return its result, waiting at most `limit` seconds. Raises `WorkerLost`."""
        self.tell(method, **arguments)
        return self.hear(limit)

    def close(self) -> None:
        """End the worker."""
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def obey(worker: object) -> None:
    """In the worker: carry out calls until the standard input is closed."""
    answers, sys.stdout = sys.stdout, sys.stderr  # so that other output is not mistaken for an answer
    for line in sys.stdin:
        method, arguments = json.loads(line)
        try:
            answer = getattr(worker, method)(**arguments)
        except Exception as error:
            print(json.dumps([None, f"{type(error).__name__}: {error}"]), file=answers, flush=True)
            raise
        print(json.dumps([answer, None]), file=answers, flush=True)
