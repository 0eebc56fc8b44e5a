"""Buffers that many processes share: all state, locks included, in one segment of shared memory.

A buffer goes to fork, spawn and forkserver children as a plain argument. Explorers `add`, the
learner samples; `lock` says how they are kept apart (`core/turns.cpp` tells how each works):

"buffer"
    One lock around every call, as a first Ape-X does.
"critical"
    Explorers lock only the claiming of rows and write side by side; a gate keeps the learner apart.

Under both a sample never holds a torn or unwritten row, and a process that dies inside a call costs
the rows it was writing and blocks nobody.
"""

from __future__ import annotations

import atexit
import weakref
from typing import Any, Self

from cpprb_impl._native import PrioritizedRing, Ring
from cpprb_impl.buffers import EnvDict, check_exponent, check_options
from cpprb_impl.description import Description, description_of
from cpprb_impl.fields import native_fields, whole_size
from cpprb_impl.machine import Machine, check_machine, this_machine
from cpprb_impl.state import Attributes
from cpprb_impl.watchdog import watch

LOCKS = ("none", "critical", "buffer")
BACKENDS = ("sharedctypes", "SharedMemory")

# Whatever is still referred to at the interpreter's end is never collected: its segment's name would stay.
_open: weakref.WeakSet[_Shared] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for buffer in list(_open):
        buffer.close()


class _Shared(Attributes, Ring):
    """What both MP classes do alike: reach the segment, and be passed to other processes."""

    def _make(self, recipe: Description, seed: int | None, segment: str | None = None) -> None:
        """Make the segment, or attach to the one named."""
        if segment is None:
            watch()
        text = recipe.text()
        super().__init__(recipe.size, recipe.fields, seed=seed, segment=segment, description=text, **recipe.options)
        self._recipe = recipe
        _open.add(self)

    @classmethod
    def attach(cls, segment: str, *, seed: int | None = None) -> Self:
        """The buffer that a process of the same user on this machine has made, by the name of its `segment`.

        Any number of processes may, at any time until the maker closes it or ends; what they attached to stays usable
        after that. `__init__` is not called.

        Raises
        ------
        FileNotFoundError
            When the segment is gone.
        PermissionError
            When it is another user's.
        ValueError
            For what is no segment, or was cut short, or is of another class.
        RuntimeError
            For a segment that another version of this library made.
        """
        segment, text = description_of(segment)
        recipe = Description.read(text, segment)
        if recipe.prioritized != issubclass(cls, PrioritizedRing):
            of = "MPPrioritizedReplayBuffer" if recipe.prioritized else "MPReplayBuffer"
            raise ValueError(f"shared segment {segment} is of an {of}, to which {cls.__name__} can't attach")
        return _attach(cls, recipe, segment, seed)

    def __reduce__(self) -> tuple:
        return _find, (type(self), self._recipe, self.segment, this_machine()), self.__getstate__()

    def __copy__(self) -> None:
        raise TypeError("a shared buffer can't be copied: pickled, it is the same one in another process")

    def __deepcopy__(self, memo: dict) -> None:
        self.__copy__()

    def is_Nstep(self) -> bool:  # noqa: N802 - cpprb's own name
        """Whether N-step transitions are stored: never, in a shared buffer."""
        return False


def _attach(kind: type[_Shared], recipe: Description, segment: str, seed: int | None = None) -> _Shared:
    buffer = kind.__new__(kind)
    buffer._make(recipe, seed, segment)
    return buffer


def _find(kind: type[_Shared], recipe: Description, segment: str, machine: Machine) -> _Shared:
    """A buffer that was pickled."""
    check_machine(machine)
    if description_of(segment)[1] != recipe.text():
        raise RuntimeError(f"shared segment {segment} is laid out otherwise than the buffer that was pickled")
    return _attach(kind, recipe, segment)


def _check_options(buffer: Ring, lock: str, backend: str, options: dict[str, Any]) -> None:
    if lock not in LOCKS:
        raise ValueError(f"lock must be one of {', '.join(LOCKS)}, not {lock!r}")
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
    check_options(buffer, options)


class MPReplayBuffer(_Shared):
    """`ReplayBuffer` in shared memory.

    Parameters
    ----------
    size, env_dict, default_dtype
        As for `ReplayBuffer`.
    lock : {"critical", "buffer"}
        How explorers and learner are kept apart: "buffer" is one lock around every call; with "critical" explorers
        lock only the claiming of rows, and a gate keeps the learner apart.
    seed : int, optional
        For the process that makes the buffer; every other one draws its own numbers.
    backend, ctx, logger
        Taken for cpprb's sake: there is one backend here, and no start method is touched.

    Raises
    ------
    OSError
        ENOSPC when /dev/shm has too little room; nothing is left behind.
    """

    def __init__(
        self,
        size: int,
        env_dict: EnvDict | None = None,
        *,
        default_dtype: Any = None,
        lock: str = "critical",
        seed: int | None = None,
        logger: Any = None,
        ctx: Any = None,
        backend: str = "sharedctypes",
        **options: Any,
    ) -> None:
        _check_options(self, lock, backend, options)
        self._make(Description(whole_size(size), native_fields(env_dict, default_dtype), {"lock": lock}, False), seed)


class MPPrioritizedReplayBuffer(PrioritizedRing, MPReplayBuffer):
    """`PrioritizedReplayBuffer` in shared memory.

    `update_priorities` leaves transitions alone that were written since this process last sampled.

    Parameters
    ----------
    size, env_dict, default_dtype, alpha, eps
        As for `PrioritizedReplayBuffer`.
    lock, seed, backend, ctx, logger
        As for `MPReplayBuffer`, and raising likewise.
    """

    def __init__(
        self,
        size: int,
        env_dict: EnvDict | None = None,
        *,
        alpha: float = 0.6,
        eps: float = 1e-4,
        default_dtype: Any = None,
        lock: str = "critical",
        seed: int | None = None,
        logger: Any = None,
        ctx: Any = None,
        backend: str = "sharedctypes",
        **options: Any,
    ) -> None:
        _check_options(self, lock, backend, options)
        priorities = {"alpha": check_exponent("alpha", alpha), "eps": check_exponent("eps", eps)}
        native = {"lock": lock, "check_for_update": True, **priorities}
        self._make(Description(whole_size(size), native_fields(env_dict, default_dtype), native, True), seed)
