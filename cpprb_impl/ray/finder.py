"""Asking a buffer's directory where the shards are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayError

from cpprb_impl.hosts.shard import Address
from cpprb_impl.ray.directory import ClosedBufferError

FIND_SECONDS = 0.5  # time between two requests to the directory
FIRST_SECONDS = 60.0  # time for the first answer


def check_ray() -> None:
    """Raise RuntimeError unless Ray is initialized: otherwise its calls would start a cluster."""
    if not ray.is_initialized():
        raise RuntimeError("Ray is not initialized: call ray.init(), or ray.init(address='auto') to use a cluster")


@contextmanager
def asking() -> Iterator[None]:
    """Convert Ray's exceptions for a directory that has ended for good to ConnectionError."""
    check_ray()
    try:
        yield
    except (ActorDiedError, ClosedBufferError):
        raise ConnectionError("the process that created the buffer has closed it or exited") from None
    except Exception as error:
        if type(error) is Exception:  # raised by Ray for an actor of a cluster that was shut down
            raise ConnectionError("the buffer's cluster was shut down") from None
        raise


class Finder:
    """The addresses of the shards, as the directory last reported them. Never waits, except for the first report."""

    def __init__(self, directory: Any) -> None:
        self._directory = directory
        with asking():
            self._known: Sequence[Address] = ray.get(directory.find.remote(), timeout=FIRST_SECONDS)
        self._asked: Any = None
        self._due = time.monotonic() + FIND_SECONDS

    def __call__(self) -> Sequence[Address]:
        """Return the addresses known now, and ask the directory again from time to time.

        Raises ConnectionError if the buffer was closed.
        """
        if self._asked is not None or time.monotonic() >= self._due:
            with asking():
                self._ask()
        return self._known

    def _ask(self) -> None:
        if self._asked is None:
            self._asked = self._directory.find.remote()
            return
        ready, _ = ray.wait([self._asked], timeout=0)
        if not ready:
            return
        try:
            self._known = ray.get(self._asked)
        except (ActorDiedError, ClosedBufferError):
            raise
        except RayError:  # the directory will be restarted; until then, continue with the known shards
            pass
        self._asked, self._due = None, time.monotonic() + FIND_SECONDS
