"""Buffers that many processes share: all state, locks included, in one segment of shared memory.

A buffer is passed to fork, spawn and forkserver children as a plain argument. Explorers `add`, one or
several learners sample; `lock` says how they are synchronised:

"none"
    Without locks: no process waits for another, not even for one that is stopped.
"critical"
    Explorers lock only the claiming of rows and write side by side; a gate keeps the learner apart.
"buffer"
    One lock around every call, as a first Ape-X does.

Under all of them a sample never contains a torn or unwritten row, and a process that dies inside a call loses the rows
that it was writing and blocks no other: docs/protocol.md explains how. The locks add no safety to it.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Mapping
from os import PathLike
from typing import Any, Self, TypeVar

from cpprb_impl._native import PrioritizedRing
from cpprb_impl.buffer_base import BufferBase
from cpprb_impl.buffers import EnvDict, Names, check_exponent
from cpprb_impl.description import Description, description_of, refusing
from cpprb_impl.fields import NativeField, field_names, native_fields, next_fields, path_prefix, whole_seed, whole_size
from cpprb_impl.host import Host, check_host, this_host
from cpprb_impl.multiprocessing import try_start
from cpprb_impl.nstep import read_options
from cpprb_impl.watchdog import watch

LOCKS = ("none", "critical", "buffer")
BACKENDS = ("sharedctypes", "SharedMemory")

# Whatever is still referred to at the interpreter's end is never collected: its segment's name would stay.
_open: weakref.WeakSet[_SharedBuffer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for buffer in list(_open):
        buffer.close()


class _SharedBuffer(BufferBase):
    """What both MP classes share: they find the segment, and can be passed to other processes."""

    def _build(
        self,
        size: int,
        fields: list[NativeField],
        next_of: Names,
        stack_compress: Names,
        nstep: Mapping[str, Any] | None,
        mmap_prefix: str | PathLike[str] | None,
        lock: str,
        backend: str,
        *,
        seed: int | None,
        ctx: Any,
        **native: Any,
    ) -> None:
        """Make a buffer from its constructor's arguments."""
        try_start(ctx)
        if lock not in LOCKS:
            raise ValueError(f"lock must be one of {', '.join(LOCKS)}, got {lock!r}")
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
        following, stacked = field_names("next_of", next_of), field_names("stack_compress", stack_compress)
        if nstep:  # the next_* of an n-step transition is N rows later: it is stored like any other field
            fields = fields + next_fields(fields, following)
            stacked += [f"next_{name}" for name in following if name in stacked]
            following = []
        known = {f"next_{name}" for name in following}
        fields = [field for field in fields if field[0] not in known]
        native |= {"next_of": following, "stack_compress": stacked}
        prioritized = isinstance(self, PrioritizedRing)
        if prefix := path_prefix(mmap_prefix):  # found again from another folder too
            native["mmap_prefix"] = os.path.join(os.getcwd(), prefix)
        steps = read_options(nstep, fields) if nstep else None
        self._make(Description(whole_size(size), fields, {"lock": lock, **native}, prioritized, steps), seed)

    def _make(self, recipe: Description, seed: int | None, segment: str | None = None) -> None:
        """Make the segment, or attach to the one named."""
        number = whole_seed(seed)
        if segment is None:
            watch()
        super().__init__(
            recipe.size,
            recipe.fields,
            seed=number,
            segment=segment,
            description=recipe.text(),
            nstep=recipe.nstep,
            **recipe.options,
        )
        self._recipe = recipe
        _open.add(self)

    @classmethod
    def attach(cls, segment: str, *, seed: int | None = None) -> Self:
        """The buffer that a process of the same user on this machine has made, by the name of its `segment`.

        Any number of processes may, at any time until the maker closes it or ends; what they attached to stays usable
        after that. Fields and options are the maker's; `seed` is for this process. `__init__` is not called.

        Raises
        ------
        FileNotFoundError
            If the segment is gone.
        PermissionError
            If it is another user's.
        ValueError
            If it is no segment, is not finished, was cut short, is of another class, or its description is invalid.
        RuntimeError
            If another version of this library made the segment, its header was changed, or its files of `mmap_prefix`
            were replaced.
        OSError
            If those files can't be opened.
        """
        whole_seed(seed)
        segment, text = description_of(segment)
        recipe = Description.read(text, segment)
        if recipe.prioritized != issubclass(cls, PrioritizedRing):
            of = "MPPrioritizedReplayBuffer" if recipe.prioritized else "MPReplayBuffer"
            raise ValueError(f"shared segment {segment} holds an {of}: attach with that class, not with {cls.__name__}")
        with refusing(segment):
            for name in ("alpha", "eps") if recipe.prioritized else ():
                check_exponent(name, recipe.options[name])
            return _attach(cls, recipe, segment, seed)

    def __reduce__(self) -> tuple[Any, ...]:
        return _find, (type(self), self._recipe, self.segment, this_host()), self.__getstate__()

    def __copy__(self) -> None:
        raise TypeError("a shared buffer cannot be copied; pickle it to use the same buffer in another process")

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        self.__copy__()


Buffer = TypeVar("Buffer", bound=_SharedBuffer)


def _attach(kind: type[Buffer], recipe: Description, segment: str, seed: int | None = None) -> Buffer:
    buffer = kind.__new__(kind)
    buffer._make(recipe, seed, segment)
    return buffer


def _find(kind: type[_SharedBuffer], recipe: Description, segment: str, host: Host) -> _SharedBuffer:
    """A buffer that was pickled."""
    check_host(host)
    if description_of(segment)[1] != recipe.text():
        raise RuntimeError(f"shared segment {segment} has another layout than the buffer that was pickled")
    return _attach(kind, recipe, segment)


class MPReplayBuffer(_SharedBuffer):
    """`ReplayBuffer` in shared memory.

    Parameters
    ----------
    size, env_dict, default_dtype
        As for `ReplayBuffer`, but no dtype object.
    next_of, stack_compress : str or sequence of str, optional
        As for `ReplayBuffer`: each frame is stored once, where a process's transitions follow each other. What
        other processes add in between does not matter. Memory for frames is allocated as it is needed.
    Nstep : dict, optional
        As for `ReplayBuffer`. Each process has a window of its own, empty at first, whose steps are of its own episode:
        `on_episode_end` and `clear` empty no other's. Threads of a process share it, so that only one of them may
        play. Steps that wait in a process that ends are lost.
    mmap_prefix : str or path, optional
        As for `ReplayBuffer`: files hold the fields, and every process maps them, so that all must be able to open
        them; only what says which rows are there is in the segment. Fields of `next_of` and `stack_compress` are stored
        whole. Files of these names are replaced when the buffer is made, not when a process attaches. They stay when
        the buffer is gone.
    lock : {"none", "critical", "buffer"}
        How explorers and learners are synchronised. "none": no process waits for another (docs/protocol.md);
        "buffer": one lock around every call; "critical": explorers lock only the claiming of rows, and a gate keeps
        the learner apart. The two locks are for comparison: they add no safety.
    prefault : bool
        Bring all of the segment in now, in the process that makes the buffer and in each that attaches, instead of page
        by page as it is first touched: the constructor takes as long as writing all of it does, and no `add` or
        `sample` waits for the system later. A forked child shares the memory but has none of its pages at hand; its
        first call of any method brings them in, which takes some tenths of a second a GiB. Frames of `next_of` and
        `stack_compress` come in as they are stored.
    seed : int, optional
        For the process that makes the buffer; every other one draws its own numbers.
    ctx : multiprocessing context or SyncManager, optional
        A SyncManager that has not been started is started, as in cpprb. Nothing else is done with it: a buffer needs
        neither, and no start method is touched.
    backend, logger
        Accepted for compatibility with cpprb: there is one backend here.

    Raises
    ------
    TypeError, OverflowError, ValueError, KeyError
        If a size, field or option is invalid.
    multiprocessing.ProcessError
        When `ctx` is a manager that has shut down.
    OSError
        ENOSPC when /dev/shm has too little room; nothing is left behind. When the files can't be made, or found. With
        `next_of` or `stack_compress` also from `add`, when there is no room for more frames; the buffer is then
        unchanged, and goes on.
    """

    def __init__(
        self,
        size: int,
        env_dict: EnvDict | None = None,
        *,
        next_of: Names = None,
        stack_compress: Names = None,
        default_dtype: Any = None,
        Nstep: Mapping[str, Any] | None = None,  # noqa: N803 - cpprb's own name
        mmap_prefix: str | PathLike[str] | None = None,
        lock: str = "none",
        prefault: bool = False,
        seed: int | None = None,
        logger: Any = None,
        ctx: Any = None,
        backend: str = "sharedctypes",
    ) -> None:
        fields = native_fields(env_dict, default_dtype)
        self._build(
            size,
            fields,
            next_of,
            stack_compress,
            Nstep,
            mmap_prefix,
            lock,
            backend,
            seed=seed,
            ctx=ctx,
            prefault=bool(prefault),
        )


class MPPrioritizedReplayBuffer(PrioritizedRing, MPReplayBuffer):
    """`PrioritizedReplayBuffer` in shared memory.

    `update_priorities` is for the process that sampled. The array "indexes" of a sample refers to the transitions that
    were sampled, until 16 more samples have been drawn: those that were overwritten meanwhile are skipped. A copy of
    the array does as well, except where samples with the very same indexes had different transitions: there it changes
    nothing. Other indexes mean the transitions that were there when this process last sampled; if it never has, nothing
    changes.

    Parameters
    ----------
    size, env_dict, default_dtype, alpha, eps
        As for `PrioritizedReplayBuffer`.
    check_for_update
        Accepted for compatibility with cpprb: as there, a shared buffer always checks.
    next_of, stack_compress, Nstep, mmap_prefix, lock, prefault, seed, backend, ctx, logger
        As for `MPReplayBuffer`, and raising likewise.
    """

    def __init__(
        self,
        size: int,
        env_dict: EnvDict | None = None,
        *,
        alpha: float = 0.6,
        eps: float = 1e-4,
        check_for_update: bool = True,
        next_of: Names = None,
        stack_compress: Names = None,
        default_dtype: Any = None,
        Nstep: Mapping[str, Any] | None = None,  # noqa: N803 - cpprb's own name
        mmap_prefix: str | PathLike[str] | None = None,
        lock: str = "none",
        prefault: bool = False,
        seed: int | None = None,
        logger: Any = None,
        ctx: Any = None,
        backend: str = "sharedctypes",
    ) -> None:
        self._build(
            size,
            native_fields(env_dict, default_dtype),
            next_of,
            stack_compress,
            Nstep,
            mmap_prefix,
            lock,
            backend,
            seed=seed,
            ctx=ctx,
            prefault=bool(prefault),
            check_for_update=True,
            alpha=check_exponent("alpha", alpha),
            eps=check_exponent("eps", eps),
        )
