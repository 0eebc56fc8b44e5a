"""Forked children that use a buffer while the probe looks on, and may hang, raise or be killed."""

from __future__ import annotations

import os
import pickle
import random
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from adapters.child_process import exit_with_parent
from suites.check.probes.probing import said

HANGS = "hangs"


class Child:
    """A forked process that calls `work`, and reports what it returned."""

    def __init__(self, work: Callable[[], Any], seed: int) -> None:
        self._reads, writes = os.pipe()
        parent, self.pid = os.getpid(), os.fork()
        if not self.pid:
            answer: object = None
            try:
                exit_with_parent(parent)  # which a user may interrupt while this one works without end
                seed_everything(seed)
                answer = work()
            except BaseException as error:
                answer = said(error)
            finally:
                os.write(writes, pickle.dumps(answer))
                os._exit(0)
        os.close(writes)

    def answer(self, patience: float) -> Any:
        """Return what the work returned, or as a text what it raised, or `HANGS`. Ends the child."""
        try:
            if not select.select([self._reads], [], [], patience)[0]:
                return HANGS
            data = b""
            while part := os.read(self._reads, 1 << 16):
                data += part
            return pickle.loads(data) if data else "ended without an answer"
        finally:
            self.kill()

    @property
    def has_ended(self) -> bool:
        """Return whether the work returned or raised."""
        return bool(select.select([self._reads], [], [], 0)[0])

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        with suppress(OSError):
            os.close(self._reads)


def seed_everything(seed: int) -> None:
    """Seed the global generators, which a buffer without one of its own draws from."""
    random.seed(seed)
    np.random.seed(seed)
    with suppress(KeyError):
        sys.modules["torch"].manual_seed(seed)
