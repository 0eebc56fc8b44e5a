"""Buffers shared by many processes: all state, including locks, is in one segment of shared memory.

A buffer is passed as an ordinary argument to children started by fork, spawn or forkserver. Explorers call `add`, and
one or several learners call `sample`; `lock` selects how they are synchronised:

"none"
    There are no locks: no process waits for another, not even for a stopped one.
"critical"
    Explorers hold a lock only while they claim rows, and write concurrently; a gate separates them from the learner.
"buffer"
    One lock around every call, as in a simple Ape-X implementation.

In each case, a sample never contains a torn or unwritten row. A process that dies inside a call loses only the
rows that it was writing and blocks no other process, as docs/protocol.md explains. The locks add no safety.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Mapping
from os import PathLike
from typing import Any, Self, TypeVar

from cpprb_impl._native import PrioritizedRing
from cpprb_impl.buffers.autoreset import Autoreset, AutoresetBuffer
from cpprb_impl.buffers.description import Description, attach_errors, description_of
from cpprb_impl.buffers.single import EnvDict, Names, Stacks, check_exponent, check_normalize
from cpprb_impl.layout.fields import (
    NativeField,
    field_names,
    flag,
    integer,
    native_fields,
    next_fields,
    parse_seed,
    parse_size,
    path_prefix,
    stack_axes,
)
from cpprb_impl.layout.free_memory import warn_if_too_large
from cpprb_impl.layout.siblings import ignore_siblings
from cpprb_impl.processes.host import Host, check_host, this_host
from cpprb_impl.processes.manager import try_start
from cpprb_impl.processes.watchdog import watch
from cpprb_impl.ring.hooks import IN_SHARED, refuse, refuse_overridden
from cpprb_impl.ring.nstep import read_options
from cpprb_impl.ring.order import harm_of, watch_order

LOCKS = ("none", "critical", "buffer")
BACKENDS = ("sharedctypes", "SharedMemory")

# Objects that are still referenced when the interpreter exits are never collected, so their segments' names would stay.
_open: weakref.WeakSet[_SharedBuffer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for buffer in list(_open):
        buffer.close()


class _SharedBuffer(AutoresetBuffer):
    """What both MP classes have in common: attaching to the segment, and being passed to other processes."""

    _recipe: Description

    def _build(
        self,
        size: int,
        fields: list[NativeField],
        next_of: Names,
        stack_compress: Stacks,
        nstep: Mapping[str, Any] | None,
        mmap_prefix: str | PathLike[str] | None,
        lock: str,
        backend: str,
        *,
        seed: int | None,
        ctx: Any,
        n_envs: int = 1,
        autoreset: str | None = None,
        **native: Any,
    ) -> None:
        """Create a buffer from its constructor's arguments."""
        try_start(ctx)
        if lock not in LOCKS:
            raise ValueError(f"lock must be one of {', '.join(LOCKS)}, got {lock!r}")
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
        following, stacked = field_names("next_of", next_of), stack_axes(stack_compress, fields)
        if nstep:  # next_* comes from N rows later, so it is stored like any other field
            fields = fields + next_fields(fields, following)
            stacked |= {f"next_{name}": stacked[name] for name in following if name in stacked}
            following = []
        known = {f"next_{name}" for name in following}
        fields = [field for field in fields if field[0] not in known]
        native |= {"next_of": following, "stack_compress": stacked}
        if (environments := integer("n_envs", n_envs)) != 1:
            native["n_envs"] = environments
        if autoreset is not None:
            native["autoreset"] = autoreset
        prioritized = isinstance(self, PrioritizedRing)
        prefix, capacity = path_prefix(mmap_prefix), parse_size(size)
        if prefix:
            native["mmap_prefix"] = os.path.join(os.getcwd(), prefix)  # so that processes in other folders find it
            warn_if_too_large(capacity, fields + next_fields(fields, following), {}, prefix=prefix)
        else:
            warn_if_too_large(capacity, fields, stacked, shared=True)
        steps = read_options(nstep, fields) if nstep else None
        self._make(Description(capacity, fields, {"lock": lock, **native}, prioritized, steps), seed)

    def _make(self, recipe: Description, seed: int | None, segment: str | None = None) -> None:
        """Create a segment, or attach to the one named `segment`."""
        refuse_overridden(type(self))
        refuse(type(self), _SharedBuffer, IN_SHARED)
        number = parse_seed(seed)
        if segment is None:
            watch()
        options = dict(recipe.options)
        if (mode := options.pop("autoreset", None)) is not None:
            given = recipe.fields + next_fields(recipe.fields, options["next_of"])
            self._autoreset = Autoreset(mode, given, recipe.nstep, options.get("n_envs", 1))
            options["add_through_python"] = True
        super().__init__(
            recipe.size,
            recipe.fields,
            seed=number,
            segment=segment,
            description=recipe.text(),
            nstep=recipe.nstep,
            **options,
        )
        following, stacked = options.get("next_of") or (), options.get("stack_compress") or ()
        given = recipe.fields + next_fields(recipe.fields, following)
        harm, starts = harm_of(recipe.nstep, following, stacked), mode is None and options.get("n_envs", 1) != 1
        watch_order(self, given, recipe.nstep, harm, starts=starts)
        self._recipe = recipe
        _open.add(self)

    @classmethod
    def attach(cls, segment: str, *, seed: int | None = None) -> Self:
        """Attach to a buffer that a process of the same user on this machine has made, given the buffer's `segment`.

        Any number of processes may attach, until the maker closes the buffer or ends; attached processes can use it
        even after that. Fields and options are those of the maker; `seed` applies to this process. `__init__` is not
        called.

        Raises
        ------
        FileNotFoundError
            If the segment is gone.
        PermissionError
            If it belongs to another user.
        ValueError
            If it is not a segment, is unfinished or truncated, belongs to another class, or has an invalid description.
        RuntimeError
            If another version of this library made the segment, its header was changed, or its files of `mmap_prefix`
            were replaced.
        OSError
            If those files cannot be opened.
        """
        parse_seed(seed)
        segment, text = description_of(segment)
        recipe = Description.read(text, segment)
        if recipe.prioritized != issubclass(cls, PrioritizedRing):
            of = "MPPrioritizedReplayBuffer" if recipe.prioritized else "MPReplayBuffer"
            raise ValueError(f"shared segment {segment} holds an {of}: attach with that class, not with {cls.__name__}")
        with attach_errors(segment):
            for name in ("alpha", "eps") if recipe.prioritized else ():
                check_exponent(name, recipe.options[name])
            return _attach(cls, recipe, segment, seed)

    def __reduce__(self) -> tuple[Any, ...]:
        return _find, (type(self), self._recipe, self.segment, this_host()), self.__getstate__()

    def _options(self) -> Mapping[str, Any]:
        return self._recipe.options

    def _steps(self) -> Mapping[str, Any] | None:
        steps = self._recipe.nstep
        return steps if steps is None or self.n_envs == 1 else {**steps, "n_envs": self.n_envs}

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
    """Attach to the segment of a pickled buffer."""
    check_host(host)
    if description_of(segment)[1] != recipe.text():
        raise RuntimeError(f"shared segment {segment} does not have the layout of the buffer that was pickled")
    return _attach(kind, recipe, segment)


class MPReplayBuffer(_SharedBuffer):
    """`ReplayBuffer` in shared memory.

    Parameters
    ----------
    size, env_dict, default_dtype
        As for `ReplayBuffer`, but without dtype object.
    next_of, stack_compress : optional
        As for `ReplayBuffer`: each frame is stored once if a process's own transitions follow each other. Rows that
        other processes add in between make no difference. Memory for frames is allocated as needed.
    Nstep : dict, optional
        As for `ReplayBuffer`. Each process has its own window, initially empty, for the steps of its own episode:
        `on_episode_end` and `clear` do not affect other processes' windows. Threads of a process share its window, so
        only one of them may add steps. Pending steps are lost when their process ends.
    n_envs, autoreset
        As for `ReplayBuffer`, for the environments of each process. `size` need not be a multiple. Frames are stored
        once only if consecutive rows continue each other, which those of several environments do not.
    mmap_prefix : str or path, optional
        As for `ReplayBuffer`: files hold the fields. Every process maps them, so all must be able to open them. The
        segment then holds only the bookkeeping of rows. Fields of `next_of` and `stack_compress` are stored whole.
        Existing files of these names are replaced when the buffer is created, not when a process attaches. They remain
        after the buffer is gone.
    lock : {"none", "critical", "buffer"}
        How explorers and learners are synchronised. "none": no process waits for another (docs/protocol.md); "buffer":
        one lock around every call; "critical": explorers hold a lock only while they claim rows, and a gate separates
        them from the learner. The two locks exist for comparison: they add no safety.
    prefault : bool
        Map all pages of the segment immediately, in the process that creates the buffer and in each that attaches,
        instead of page by page on first access. The constructor then takes as long as writing the whole segment, and no
        later `add` or `sample` waits for the system. A forked child shares the memory but has no pages mapped: its
        first call of any method maps them, which takes some tenths of a second per GiB. Frames of `next_of` and
        `stack_compress` are mapped as they are stored.
    seed : int, optional
        Applies to the process that creates the buffer; every other process draws numbers of its own.
    ctx : multiprocessing context or SyncManager, optional
        A SyncManager that has not been started is started, as in cpprb. It is not used otherwise: a buffer needs
        neither a context nor a manager, and does not change the start method.
    backend, logger
        Accepted for compatibility with cpprb: there is only one backend.
    **others
        As for `ReplayBuffer`.

    Raises
    ------
    TypeError, OverflowError, ValueError, KeyError
        If a size, field or option is invalid.
    multiprocessing.ProcessError
        If `ctx` is a manager that has been shut down.
    OSError
        ENOSPC if /dev/shm has too little room; nothing is left behind. Also raised if the files cannot be created or
        found. With `next_of` or `stack_compress`, `add` raises it as well if there is no room for more frames; the
        buffer is then unchanged and remains usable.

    Warns
    -----
    UserWarning
        As `ReplayBuffer`, and if the full buffer, with its frames, would exceed /dev/shm.
    """

    def __init__(
        self,
        size: int,
        env_dict: EnvDict | None = None,
        *,
        next_of: Names = None,
        stack_compress: Stacks = None,
        default_dtype: Any = None,
        Nstep: Mapping[str, Any] | None = None,  # noqa: N803 - cpprb's own name
        n_envs: int = 1,
        autoreset: str | None = None,
        mmap_prefix: str | PathLike[str] | None = None,
        lock: str = "none",
        prefault: bool = False,
        seed: int | None = None,
        logger: Any = None,
        ctx: Any = None,
        backend: str = "sharedctypes",
        **others: Any,
    ) -> None:
        ignore_siblings(type(self).__name__, others)
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
            n_envs=n_envs,
            autoreset=autoreset,
            prefault=flag("prefault", prefault),
        )


class MPPrioritizedReplayBuffer(PrioritizedRing, MPReplayBuffer):
    """`PrioritizedReplayBuffer` in shared memory.

    Only the process that sampled should call `update_priorities`. The array "indexes" of a sample identifies the
    sampled transitions until 16 more samples have been drawn; those overwritten meanwhile are skipped. A copy of the
    array works as well, unless several samples had the same indexes with different transitions; those transitions are
    then not changed. A part of such an array, or several of them in one, changes a transition only if each of the 16
    newest samples that contains its index contains that transition. An index in none of these refers to the transition
    that was stored when this process last sampled; if it has never sampled, nothing changes.

    Parameters
    ----------
    size, env_dict, default_dtype, alpha, eps, normalize
        As for `PrioritizedReplayBuffer`.
    check_for_update
        Accepted for compatibility with cpprb: as there, a shared buffer always checks.
    next_of, stack_compress, Nstep, n_envs, autoreset, mmap_prefix, lock, prefault, seed, backend, ctx, logger, **others
        As for `MPReplayBuffer`, with the same exceptions.
    """

    def __init__(
        self,
        size: int,
        env_dict: EnvDict | None = None,
        *,
        alpha: float = 0.6,
        eps: float = 1e-4,
        normalize: str | None = "buffer",
        check_for_update: bool = True,
        next_of: Names = None,
        stack_compress: Stacks = None,
        default_dtype: Any = None,
        Nstep: Mapping[str, Any] | None = None,  # noqa: N803 - cpprb's own name
        n_envs: int = 1,
        autoreset: str | None = None,
        mmap_prefix: str | PathLike[str] | None = None,
        lock: str = "none",
        prefault: bool = False,
        seed: int | None = None,
        logger: Any = None,
        ctx: Any = None,
        backend: str = "sharedctypes",
        **others: Any,
    ) -> None:
        ignore_siblings(type(self).__name__, others)
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
            n_envs=n_envs,
            autoreset=autoreset,
            prefault=flag("prefault", prefault),
            check_for_update=True,
            alpha=check_exponent("alpha", alpha),
            eps=check_exponent("eps", eps),
            normalize=check_normalize(normalize),
        )
