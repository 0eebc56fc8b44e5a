"""The protocol of buffers whose rows are on different hosts from the processes that use them.

The learner's process makes the adapter once every data host is serving. Explorers are separate processes, on any host,
that join with the learner's handle. Learner and explorers then call the same methods as on one host.
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
    """What a process knows about the hosts."""

    here: str  # address of its own host
    head: str  # address of the host of Ray's head node
    data: Sequence[str]  # what `serving` yielded on each data host


class HostsAdapter(Adapter):
    """One buffer over several hosts. Processes other than the learner get access through `handle` and `joined`."""

    #: whether the buffer needs a Ray cluster over all hosts, with the head listening on `RAY_PORT`
    on_ray: ClassVar[bool] = False
    #: text in the command lines of the processes that serve rows on a data host; None: the process that calls `serving`
    #: serves them
    victim: ClassVar[str | None] = None

    @classmethod
    @contextmanager
    def serving(cls, _spec: Spec, here: str) -> Iterator[str]:
        """Serve on the data host with the address `here`, and yield what clients need to know about this host."""
        yield here

    @abstractmethod
    def __init__(self, spec: Spec, place: Place) -> None: ...

    def handle(self) -> bytes:
        """Return what explorers need in addition to a `Place` in order to join."""
        return b""

    @classmethod
    @abstractmethod
    def joined(cls, spec: Spec, place: Place, handle: bytes) -> Self:
        """Return the adapter for an explorer's process."""
