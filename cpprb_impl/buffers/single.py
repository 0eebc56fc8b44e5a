"""Buffers for a single process: a thin Python layer over the native rings.

`add`, `sample`, `update_priorities` and the size methods are the native methods themselves, since a Python wrapper
would cost more than the call. `add` runs Python code only for fields of Python objects and with `autoreset`. Batches
pass through Python only for fields of Python objects, and if a class overrides `_encode_sample`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from cpprb_impl._native import PrioritizedRing
from cpprb_impl.buffers.copying import CopyableBuffer
from cpprb_impl.buffers.transformed import TransformedBuffer
from cpprb_impl.layout.fields import flag, native_fields, parse_seed
from cpprb_impl.layout.free_memory import warn_if_too_large
from cpprb_impl.layout.layout import Layout
from cpprb_impl.layout.options import OF_PRIORITIES, BufferOptions, EnvDict, PrioritizedOptions, known, read, shows
from cpprb_impl.ring.base import BufferBase
from cpprb_impl.ring.object_transform import ObjectTransform

OF_SAMPLE = ("weights", "indexes")  # columns of prioritized samples in addition to the fields
BEFORE_ENV_DICT = ("obs_dim", "obs_shape", "act_dim", "rew_dim", "is_discrete_action")
PRIVATE, PRIORITIZED = known(BufferOptions), known(PrioritizedOptions)


class ReplayBuffer(TransformedBuffer, CopyableBuffer):
    """Ring of transitions, sampled uniformly with replacement.

    Threads may share a buffer. A forked child gets its own copy. If another thread of the parent was inside a call at
    the time of the fork, the copy contains either all of that call's rows or none.

    Parameters
    ----------
    size : int
        Capacity in transitions; a float is truncated. When the buffer is full, the oldest transition is overwritten.
    env_dict : dict of dict
        "shape" (int or sequence, default 1) and "dtype" of each field of a transition. With dtype object, a field holds
        references to Python objects until they are overwritten; this is slower, and not possible in shared buffers.
    next_of : str or sequence of str, optional
        For each field x named here, `add` also takes next_x, and samples contain it. If one transition's next_x equals
        the x of the following transition, it is stored only once.
    stack_compress : str, sequence of str or mapping of str to int, optional
        Fields whose last axis is a sliding window of frames, newest last; to use a different axis, such as 0, pass a
        mapping from names to axes. If a value's window has advanced by fewer frames than it holds, only the new frames
        are stored; the channels of a colour image count as frames. Both `next_of` and `stack_compress` compare the
        data, so samples always contain what was added, whether or not `on_episode_end` is called.
    default_dtype : numpy dtype, optional
        Dtype of fields that do not specify one. Default float32.
    mmap_prefix : str or path, optional
        Keep the data in files, {mmap_prefix}_{field}.dat, for buffers larger than memory. Existing files with these
        names are replaced, and the files remain after the buffer is gone. A forked child can read them, but its `add`
        raises RuntimeError. Frames of `next_of` and `stack_compress` fields are kept in the files too; frame numbers
        and priorities stay in memory. Two buffers created at the same time with the same prefix never share a file, but
        either buffer's file may end up under each name. Disk space is reserved when the buffer is created, or, for
        frames, as they are stored. For each file, one mapping reserves address space for the largest size that the file
        can reach. For frames, that is twice the size of rows that share no frames: 100 GB of Atari frames with both
        options reserve 1.6 TB of the 128 TB available to a process. An address space limit (ulimit -v) must allow for
        that.
    Nstep : dict, optional
        Store n-step transitions: "size" is N; "rew" names the rewards to sum and "next" the fields to take from the
        last of the N steps (str or sequence of str); "gamma" is the discount (default 0.99). The field "done" is
        required. `add` then returns None until a transition is complete. Call `on_episode_end` at the end of every
        episode: it completes the pending transitions. A transition ends at its first step that is done: later rewards
        are not counted, next_* is taken from that step, and done is 1. "truncated" may name a field that marks the
        last step of an episode that was cut off: a transition ends there as well, with done 0. "discount" may name a
        field of floating dtype, which `add` does not take: the buffer sets it to gamma^n for the n steps summed, the
        factor by which a learner multiplies the value of next_*.
    sequences : dict, optional
        Also draw sequences of consecutive steps, with `sample_sequences`, for agents that learn from them, such as R2D2
        (Kapturowski et al. 2019). "size" is the number of steps to learn from; "burn_in" (default 0) is the number of
        steps before them, on which a recurrent network warms up. Sequences begin at every "period"-th step of an
        episode (default 1). "ends" determines what happens at the end of an episode: with "stop" (the default), a
        sequence has steps of one episode only, and if the last step of an episode would be in no sequence, one more
        sequence ends there; with "pad", the sequence that passes the end is padded instead; with "cross", sequences
        continue into the next episode. Missing burn-in steps at the beginning of an episode are padded. "done" names
        the fields that mark the last step of an episode (str or sequence of str; default: whichever of "done",
        "terminated" and "truncated" exist); calling `on_episode_end` marks it as well. "state" names fields, such as
        the state of an LSTM, for which a sample contains only the value at the sequence's first step; sequences then
        begin with a stored step, so that no burn-in is padded. Needs 8 bytes of memory per transition, and 4 per
        sequence. No sequence contains steps of two environments, or overwritten steps. After `clear`, the next step
        of each environment counts as the first of an episode. After a pause in which all steps of an environment were
        overwritten, its sequences begin anew at its next step. If a file is appended, rather than restored exactly into
        an empty buffer, sequences contain only the steps that were loaded. Not available with `Nstep` or Python
        objects.
    compress : "lz4", optional
        Compress each frame of the fields in `stack_compress` with LZ4; not available with `mmap_prefix`. Samples
        contain the same values, but take longer.
    n_envs : int
        The number of environments whose steps are added together: each call of `add` passes one row per environment, in
        order, or several such groups. Each environment has its own n-step window, and frames are shared only between
        steps of the same environment. With "truncated", `on_episode_end` is not needed. `size` must be a multiple of
        `n_envs`. `add(env_ids=...)` adds rows of only some environments: numbers (rows,), or a mask (n_envs,) of bools.
    autoreset : "next_step", optional
        How the vector environment begins new episodes, if `add` receives all of its steps: with Gymnasium's
        AutoresetMode.NEXT_STEP, the step after an episode's end only resets the environment, and is not stored. An
        episode ends where "done", "terminated", "truncated" or Nstep's "truncated" field is true. `add` is slower.
    seed : int, optional
        From 0 to 2**64 - 1; makes sampling reproducible. By default, the seed comes from the operating system, and
        every forked child gets a new one.
    **others
        Options of cpprb's other classes are ignored with a warning, since programs pass one dict to several classes.

    Raises
    ------
    TypeError, OverflowError, ValueError, KeyError
        If a size, field or option is invalid.
    MemoryError, OSError
        If the operating system refuses the address space or the files.
    RuntimeError
        If `compress` is given, but the system has no LZ4 library.

    Warns
    -----
    UserWarning
        If the full buffer would exceed the machine's memory or the process's control group limit, or, with
        `mmap_prefix`, the free disk space. Memory is allocated as rows are added. `add` warns once if none of the first
        32 steps begins where the previous step ended, although an option relies on the order of steps; or if each
        episode of several environments begins where the previous one ended (Gymnasium's NEXT_STEP without `autoreset`).
    """

    @shows(PRIVATE)
    def __init__(self, size: int, env_dict: EnvDict | None = None, **options: Unpack[BufferOptions]) -> None:
        self._build(size, env_dict, PRIVATE, options)

    def _build(self, size: int, env_dict: EnvDict | None, takes: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        """Create the native ring and, for fields of Python objects and autoreset, a transform."""
        chosen = read(type(self).__name__, takes, options)
        fields = native_fields(env_dict, chosen["default_dtype"])
        given = Layout.of(size, fields, chosen, prioritized=isinstance(self, PrioritizedRing))
        layout = given.layout
        stacked, prefix = layout.options["stack_compress"], layout.options.get("mmap_prefix")
        compressed = "compress" in layout.options
        warn_if_too_large(layout.size, given.stored, stacked, compressed=compressed, prefix=prefix)
        if "objects" in layout.options:
            self._transform = ObjectTransform.of(given)
        self._begin(layout, parse_seed(chosen["seed"]))

    def _batch_through(self, batch: dict[str, np.ndarray], indexes: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Return what a method's caller receives for `batch`; `indexes` is None unless the batch is a sample."""
        if indexes is None or not self._encodes():
            return batch if self._transform is None else self._transform.fill(batch)
        encoded = self._encode_sample(indexes)
        for name in OF_SAMPLE if isinstance(self, PrioritizedRing) else ():
            if name in batch:
                encoded[name] = batch[name]
        return encoded

    @classmethod
    def _encodes(cls) -> bool:
        """Return whether a subclass overrides `_encode_sample`, which its samples then pass through."""
        return cls._encode_sample is not BufferBase._encode_sample

    def is_Nstep(self) -> bool:  # noqa: N802 - cpprb's own name
        """Return whether N-step transitions are stored."""
        return self._layout.nstep is not None


class PrioritizedReplayBuffer(PrioritizedRing, ReplayBuffer):
    """Proportional prioritized replay (Schaul et al. 2015).

    Transition i is drawn with probability P(i) = (p_i + eps)^alpha / sum. `sample` also returns importance weights, and
    the indexes to pass to `update_priorities`. `add(priorities=...)` sets the priorities of new transitions: an array
    (rows,). The default is the largest priority of any stored transition, but at least 1.

    Parameters
    ----------
    size, env_dict, next_of, stack_compress, compress, default_dtype, Nstep, n_envs, autoreset, mmap_prefix, seed
        As for `ReplayBuffer`. An n-step transition gets the priority with which its first step was added.
    sequences : dict, optional
        As for `ReplayBuffer`. `sample_sequences` then draws by priority, and `sample` raises TypeError. The priority of
        a sequence is that of its last step; `update_priorities` accepts this priority, or the errors of all steps, (n,
        burn-in + size), which it combines: eta times their largest magnitude plus (1 - eta) times their mean magnitude,
        excluding burn-in and padded steps (Kapturowski et al. 2019, section 2.3). The option "eta" defaults to 0.9. A
        sequence that was overwritten is skipped. Weights are computed over all sequences that can be drawn. The option
        "overlap" determines which priorities change: with "own" (the default), those of the drawn sequences; with
        "all", those of all sequences with a step whose error was given, computed from the newest error of each step. A
        step without one counts with the priority with which it was added. With "all", `update_priorities` requires the
        errors of all steps, and each transition needs 4 more bytes, or 8 if `add` has received `env_ids`.
    alpha : float
        Exponent of the priorities: 0 is uniform, 1 fully proportional. Must not be negative.
    eps : float
        Added to each priority, so that none is 0. Must not be negative. It bounds the priorities from below: with
        `normalize="buffer"`, a tiny `eps` makes almost every weight tiny once a single TD error is 0.
    normalize : {"buffer", "batch", None}
        The divisor of the importance weights (N P(i))^-beta, for N stored transitions. "buffer": the largest weight of
        any stored transition, as in cpprb, which is the same for each batch, but can make all weights, and therefore
        the gradients, small. "batch": the largest weight in the batch, as in Schaul et al. None: weights are not
        divided; their mean is then about 1, but single weights may be much larger.
    check_for_update : bool
        If true, `update_priorities` skips transitions that have overwritten sampled ones, as in
        `MPPrioritizedReplayBuffer`: a sample's array "indexes", or a copy of it, identifies the sampled transitions
        until 16 more samples have been drawn, so that a learner may draw batches ahead. If a part of such an array is
        passed, or several arrays concatenated, the priority at an index is set only if the index, wherever it occurs in
        the 16 newest samples, refers to the transition that is stored there now. An index that occurs in none of them
        refers to the transition that was stored at the last `sample`.
    **others
        As for `ReplayBuffer`.
    """

    @shows(PRIORITIZED)
    def __init__(self, size: int, env_dict: EnvDict | None = None, **options: Unpack[PrioritizedOptions]) -> None:
        self._build(size, env_dict, PRIORITIZED, options)


def create_buffer(
    size: int, env_dict: EnvDict | None = None, *, prioritized: bool = False, **options: Any
) -> ReplayBuffer:
    """Return a `PrioritizedReplayBuffer` if `prioritized`, else a `ReplayBuffer`.

    `size`, `env_dict` and the options are those of the returned class. Options that concern priorities (alpha, eps,
    normalize, check_for_update) are accepted in either case. obs_dim, obs_shape, act_dim, rew_dim and
    is_discrete_action, which cpprb used before `env_dict`, only cause a DeprecationWarning; as in cpprb 11, they are
    otherwise ignored.
    """
    if old := [name for name in BEFORE_ENV_DICT if name in options]:
        text = f"create_buffer: {', '.join(old)} have no effect, as in cpprb; describe the fields in env_dict"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        options = {name: value for name, value in options.items() if name not in old}
    if flag("prioritized", prioritized):
        return PrioritizedReplayBuffer(size, env_dict, **options)
    return ReplayBuffer(size, env_dict, **{name: value for name, value in options.items() if name not in OF_PRIORITIES})
