"""The protocol of buffers whose rows are on other hosts than the processes that use them.

The learner's process makes the adapter, once each data host serves. Explorers are further processes, on any host, which
join with the learner's handle. Both then call the same methods as on one host.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Self

from adapters.base import Adapter, Spec

RAY_PORT = 6399


@dataclass(frozen=True)
class Place:
    """What a process knows of the hosts."""

    here: str  # address of its own host
    head: str  # address of the host of Ray's head node
    data: Sequence[str]  # what `serving` yielded on each data host


class HostsAdapter(Adapter):
    """One buffer over several hosts. Its other processes get it by `handle` and `joined`."""

    #: whether it needs a Ray cluster over all hosts, with its head's port at `RAY_PORT`
    on_ray: ClassVar[bool] = False
    #: part of the command line of the processes that serve rows on a data host; None: the process that calls `serving`
    victim: ClassVar[str | None] = None

    @classmethod
    @contextmanager
    def serving(cls, _spec: Spec, here: str) -> Iterator[str]:
        """Serve on a data host, which has the address `here`, and yield what clients need to know of it."""
        yield here

    @abstractmethod
    def __init__(self, spec: Spec, place: Place) -> None: ...

    def handle(self) -> bytes:
        """Return what explorers need, besides the place, to join."""
        return b""

    @classmethod
    @abstractmethod
    def joined(cls, spec: Spec, place: Place, handle: bytes) -> Self:
        """Return the adapter of an explorer's process."""
