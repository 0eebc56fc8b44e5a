"""A process that uses a shared buffer step by step, on commands from a pipe."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from typing import Any

import numpy as np

context = multiprocessing.get_context("fork")


def serve(pipe: Any, buffer: Any) -> None:
    """Serve requests until the pipe is closed. Each is a method of the buffer or of `_Also`, with its arguments."""
    also = _Also(buffer)
    while True:
        try:
            name, args, kwargs = pipe.recv()
        except EOFError:
            return
        try:
            method = getattr(also, name, None) or getattr(also.buffer, name)
            answer = method(*args, **kwargs)
        except Exception as error:
            answer = error
        pipe.send(answer)


class _Also:
    """What a process can do with its buffer besides calling its methods."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer
        self._indexes: np.ndarray | None = None  # indexes of the last sample

    def sample(self, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
        batch = self.buffer.sample(*args, **kwargs)
        self._indexes = batch.get("indexes")
        return batch

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        """Update with the array that the last sample filled, since a copy of it may refer to an older sample."""
        assert np.array_equal(indexes, self._indexes)
        self.buffer.update_priorities(self._indexes, priorities)

    def dumps(self) -> bytes:
        return pickle.dumps(self.buffer)

    def attach(self, pickled: bytes) -> None:
        """Attach, in addition to the handle that it had or in place of a closed one."""
        self.buffer = pickle.loads(pickled)

    def add_in_a_fork(self, **rows: Any) -> int:
        """Add rows in a forked child, which then exits; return its exit status."""
        pid = os.fork()
        if pid == 0:
            try:
                self.buffer.add(**rows)
                os._exit(0)
            finally:
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Worker:
    """The coordinator's side of a process: `worker.sample(4)` calls `buffer.sample(4)` there."""

    PATIENCE = 60  # time limit in seconds for one step

    def __init__(self, buffer: Any) -> None:
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=self._serve, args=(theirs, buffer), daemon=True)
        self._process.start()
        theirs.close()

    def _serve(self, pipe: Any, buffer: Any) -> None:
        self._pipe.close()
        serve(pipe, buffer)

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._pipe.send((name, args, kwargs))
            assert self._pipe.poll(self.PATIENCE), f"{name} hangs"
            answer = self._pipe.recv()
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()
