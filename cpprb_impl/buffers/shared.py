"""Buffers shared by many processes: all state, including locks, is in one segment of shared memory.

A buffer is passed as an ordinary argument to children started by fork, spawn or forkserver. Explorers call `add`, and
one or several learners call `sample`; `lock` selects how they are synchronised:

"none"
    There are no locks: no process waits for another, not even for one that is stopped.
"critical"
    Explorers hold a lock only while they claim rows, and write concurrently; a gate separates them from the learner.
"buffer"
    One lock around every call, as in a simple Ape-X implementation.

In each case, a sample never contains a torn or unwritten row. A process that dies inside a call loses only the
rows that it was writing and blocks no other process, as docs/protocol.md explains. The locks add no safety.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Mapping
from typing import Any, Self, Unpack

from cpprb_impl._native import PrioritizedRing
from cpprb_impl.buffers.attaching import attach_errors, description_of
from cpprb_impl.buffers.transformed import TransformedBuffer
from cpprb_impl.layout.fields import native_fields, parse_seed
from cpprb_impl.layout.free_memory import warn_if_too_large
from cpprb_impl.layout.layout import Layout
from cpprb_impl.layout.options import EnvDict, SharedOptions, SharedPrioritizedOptions, known, read, shows
from cpprb_impl.processes.host import Host, check_host, this_host
from cpprb_impl.processes.manager import try_start
from cpprb_impl.processes.watchdog import watch
from cpprb_impl.ring.hooks import IN_SHARED, refuse, refuse_overridden

SHARED = known(SharedOptions)
SHARED_PRIORITIZED = known(SharedPrioritizedOptions, check_for_update=True)

# Objects that are still referenced when the interpreter exits are never collected, so their segments' names would stay.
_open: weakref.WeakSet[_SharedBuffer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for buffer in list(_open):
        buffer.close()


def layout_of(
    of: str, takes: Mapping[str, Any], size: int, env_dict: EnvDict | None, options: Mapping[str, Any]
) -> tuple[Layout, dict[str, Any]]:
    """Return a shared buffer's layout, and all options of its constructor.

    `takes` maps the options of the class named `of` to their defaults.
    """
    if "check_for_update" in takes:
        options = {**options, "check_for_update": True}  # always, as in cpprb
    chosen = read(of, takes, options)
    fields = native_fields(env_dict, chosen["default_dtype"])
    return Layout.of(size, fields, chosen, prioritized="alpha" in takes).layout, chosen


class _SharedBuffer(TransformedBuffer):
    """The common part of both MP classes: attaching to the segment, and pickling for other processes."""

    def _build(self, size: int, env_dict: EnvDict | None, takes: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        """Create a buffer from its constructor's arguments."""
        layout, chosen = layout_of(type(self).__name__, takes, size, env_dict, options)
        try_start(chosen["ctx"])
        if prefix := layout.options.get("mmap_prefix"):
            warn_if_too_large(layout.size, layout.added, {}, prefix=prefix)
        else:
            warn_if_too_large(layout.size, layout.fields, layout.options["stack_compress"], shared=True)
        self._begin(layout, parse_seed(chosen["seed"]))

    def _make(self, layout: Layout, seed: int | None = None, segment: str | None = None) -> None:
        """Create a segment, or attach to the one named `segment`."""
        refuse_overridden(type(self))
        refuse(type(self), _SharedBuffer, IN_SHARED)
        if segment is None:
            watch()
        super()._make(layout, seed, segment)
        _open.add(self)

    @classmethod
    def attach(cls, segment: str, *, seed: int | None = None) -> Self:
        """Attach to a buffer that a process of the same user on this machine has created, given the buffer's `segment`.

        Any number of processes may attach, until the buffer's creator closes it or exits; attached processes can use it
        even after that. Fields and options are the creator's; `seed` applies to this process. `__init__` is not called.

        Raises
        ------
        FileNotFoundError
            If the segment is gone.
        PermissionError
            If the segment belongs to another user.
        ValueError
            If the file is not a segment, is unfinished or truncated, belongs to a different class, or has an invalid
            description.
        RuntimeError
            If a different version of this library created the segment, its header was changed, or its `mmap_prefix`
            files were replaced.
        OSError
            If the `mmap_prefix` files cannot be opened.
        """
        number = parse_seed(seed)
        segment, text = description_of(segment)
        with attach_errors(segment):
            layout = Layout.read(text)
        if layout.prioritized != issubclass(cls, PrioritizedRing):
            of = "MPPrioritizedReplayBuffer" if layout.prioritized else "MPReplayBuffer"
            raise ValueError(f"shared segment {segment} holds an {of}: attach with that class, not with {cls.__name__}")
        with attach_errors(segment):
            return cls._of(layout, number, segment)

    def __reduce__(self) -> tuple[Any, ...]:
        return _find, (type(self), self._layout, self.segment, this_host()), self.__getstate__()

    def __copy__(self) -> None:
        raise TypeError("a shared buffer cannot be copied; pickle it to use the same buffer in another process")

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        self.__copy__()


def _find(kind: type[_SharedBuffer], layout: Layout, segment: str, host: Host) -> _SharedBuffer:
    """Attach to a pickled buffer's segment."""
    check_host(host)
    if description_of(segment)[1] != layout.text():
        raise RuntimeError(f"shared segment {segment} does not have the layout of the buffer that was pickled")
    return kind._of(layout, segment=segment)


class MPReplayBuffer(_SharedBuffer):
    """`ReplayBuffer` in shared memory.

    Parameters
    ----------
    size, env_dict, default_dtype
        As for `ReplayBuffer`, but without dtype object.
    next_of, stack_compress : optional
        As for `ReplayBuffer`: each frame is stored once if consecutive transitions of a process continue each other,
        whether or not other processes add rows in between. Memory for frames is allocated as needed.
    compress : None
        Must be None: frames in shared memory have a fixed size.
    Nstep : dict, optional
        As for `ReplayBuffer`. Each process has its own window, initially empty, for the steps of its own episode:
        `on_episode_end` and `clear` do not affect other processes' windows. Threads of a process share its window, so
        only one of them may add steps. Pending steps are lost when their process ends.
    sequences : dict, optional
        As for `ReplayBuffer`. Each process adds the steps of environments of its own, in the order in which they were
        taken; threads of a process wait for each other in `add`. A sequence begins anew with the first step that a
        process adds, also in a forked child, after a call of `add` that failed, and after a step whose slot a stopped
        process held. `on_episode_end` raises ValueError unless the last step of each environment ended its episode
        when it was added. Needs 8 bytes of memory per transition, and about 5 per transition in each process that
        draws sequences, twice that if it draws episodes as well. Sequences that have just lost their first step count
        in the weights until they are drawn.
    n_envs, autoreset
        As for `ReplayBuffer`, for the environments of each process. `size` need not be a multiple of `n_envs`. With
        several environments, consecutive rows do not continue each other, so frames are not stored once.
    mmap_prefix : str or path, optional
        As for `ReplayBuffer`: files hold the fields. Every process maps them, so all must be able to open them. The
        segment then holds only metadata of the rows. Fields of `next_of` and `stack_compress` are stored whole.
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
        first method call maps them, which takes some tenths of a second per GiB. Frames of `next_of` and
        `stack_compress` are mapped as they are stored.
    seed : int, optional
        Applies to the process that creates the buffer; every other process has its own random numbers.
    ctx : multiprocessing context or SyncManager, optional
        As in cpprb, a SyncManager is started if it has not been. Otherwise `ctx` is ignored: a buffer needs neither a
        context nor a manager, and does not change the start method.
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
        ENOSPC if /dev/shm has too little room; nothing is left behind. Also if the files cannot be created or found.
        With `next_of` or `stack_compress`, `add` raises it as well if there is no room for more frames; the buffer is
        then unchanged and remains usable.

    Warns
    -----
    UserWarning
        As `ReplayBuffer`, and if the full buffer, with its frames, would exceed /dev/shm.
    """

    @shows(SHARED)
    def __init__(self, size: int, env_dict: EnvDict | None = None, **options: Unpack[SharedOptions]) -> None:
        self._build(size, env_dict, SHARED, options)


class MPPrioritizedReplayBuffer(PrioritizedRing, MPReplayBuffer):
    """`PrioritizedReplayBuffer` in shared memory.

    Only the process that sampled should call `update_priorities`. A sample's array "indexes" identifies the sampled
    transitions until 16 more samples have been drawn; those overwritten meanwhile are skipped. A copy of the array
    works as well, unless several samples had the same indexes with different transitions; those transitions are then
    not changed. A part of such an array, or a concatenation of several, changes a transition only if each of the 16
    newest samples that contain its index contains that transition. An index in none of these samples refers to the
    transition that was stored when this process last sampled; if the process has never sampled, nothing changes.

    Parameters
    ----------
    size, env_dict, default_dtype, alpha, eps, normalize
        As for `PrioritizedReplayBuffer`.
    check_for_update
        Accepted for compatibility: as in cpprb, a shared buffer always checks.
    next_of, stack_compress, compress, Nstep, sequences, n_envs, autoreset, mmap_prefix, lock, prefault, seed, \
    backend, ctx, logger, **others
        As for `MPReplayBuffer`, with the same exceptions.
    """

    @shows(SHARED_PRIORITIZED)
    def __init__(self, size: int, env_dict: EnvDict | None = None, **options: Unpack[SharedPrioritizedOptions]) -> None:
        self._build(size, env_dict, SHARED_PRIORITIZED, options)
