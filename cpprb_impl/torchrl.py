"""Replay buffers of TensorDicts, with the methods that TorchRL programs call. Needs PyTorch and tensordict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase, is_leaf_nontensor

from cpprb_impl.buffers.single import PrioritizedReplayBuffer as PrioritizedRing
from cpprb_impl.buffers.single import ReplayBuffer as Ring
from cpprb_impl.integrations.overrides import attributes, overridden
from cpprb_impl.integrations.torchrl_names import METHODS, OPTIONS, refuse_attribute, refuse_methods, refuse_options
from cpprb_impl.integrations.torchrl_sequences import IS_FIRST, NEXT, Key, Sequences
from cpprb_impl.layout.arrays import array_of
from cpprb_impl.layout.fields import flag, parse_seed, positive_integer
from cpprb_impl.layout.options import check_exponent, check_normalize
from cpprb_impl.layout.stacks import StackAxis, axes_of_stacks
from cpprb_impl.ring.own_random import this_process

INDEX, WEIGHT = "index", "priority_weight"
OF_UNIFORM = "td_error"  # the key for which TorchRL's uniform buffer calls update_priority
# Methods that add and extend call if a subclass overrides them, as in TorchRL.
HOOKS = ("update_priority", "update_tensordict_priority")
FIXED = frozenset(
    {
        "max_size",
        "optimize_memory_usage",
        "stack_axis",
        "compress",
        "n_envs",
        "sequences",
        "seed",
        "alpha",
        "eps",
        "normalize",
        "check_for_update",
    }
)


class TensorDictReplayBuffer:
    """Rows of TensorDicts, sampled uniformly with replacement.

    The first TensorDict decides which keys are stored, and their shapes and dtypes, as with TorchRL's
    `LazyTensorStorage`. Later TensorDicts must have these keys; other keys are ignored.

    Parameters
    ----------
    max_size : int
        Capacity in rows. When the buffer is full, the oldest row is overwritten.
    batch_size : int, optional
        Number of rows in a sample if `sample` is called without an argument.
    optimize_memory_usage : bool
        Whether to store a value of more than 8 bytes only once if it equals the previous row's value under "next". Each
        frame of a stack is also stored only once. Samples contain what was added.
    stack_axis : int, or dict from keys to int or None, optional
        With `optimize_memory_usage`, the axis of a value along which frames are stacked, newest last; a colour image
        may be several frames. An int is allowed if only one value is stored once. By default, the axis is inferred for
        unsigned bytes: the first axis of (C, H, W) and of four-dimensional values, and the last axis of (H, W, C) with
        four channels or more. In a dict, None marks a value that is not a stack. `extend` raises ValueError if a value
        does not have the axis, or is not stored once.
    compress : "lz4", optional
        Whether to compress these frames, with `optimize_memory_usage`. `extend` raises ValueError if there are no such
        frames.
    n_envs : int, optional
        The number of environments whose steps are added together, as TensorDicts (n_envs, steps) like those of
        TorchRL's collectors. `max_size` must be a multiple of it. By default, `extend` takes TensorDicts (steps,).
    sequences : dict, optional
        Draw sequences of consecutive steps, for recurrent networks: a sample has the batch size (sequences, steps). The
        options are those of `cpprb_impl.ReplayBuffer`, except that "done" and "state" are a key, such as
        "recurrent_state_h", or a list of keys; `extend` raises KeyError if the first TensorDict lacks one. "done" is by
        default "done", "terminated" and "truncated" under "next", as far as they exist. The value of a "state" is that
        of the first step, and zero for later ones, as in the result of TorchRL's `BurnInTransform`.
    seed : int, optional
        From 0 to 2**64 - 1. By default, the seed is drawn from PyTorch's global generator.

    Raises
    ------
    TypeError, ValueError
        If a number is invalid, an option exists only in TorchRL, or a subclass overrides one of its private methods.

    Notes
    -----
    `batch_size`, and `beta` and `priority_key` of a prioritized buffer, may be assigned to. Assigning to other options,
    or to attributes that only TorchRL's buffers have, raises AttributeError.
    """

    priority_key: str | None = None
    n_envs: int | None = None
    sequences: Mapping[str, Any] | None = None
    _sequences: Sequences | None = None
    _replaced: frozenset[str] = frozenset()  # names in HOOKS
    _adds_by_extend: bool = False

    def __init__(
        self,
        max_size: int,
        *,
        batch_size: int | None = None,
        optimize_memory_usage: bool = False,
        stack_axis: StackAxis = None,
        compress: str | None = None,
        n_envs: int | None = None,
        sequences: Mapping[str, Any] | None = None,
        seed: int | None = None,
        **others: Any,
    ) -> None:
        refuse_options(type(self), others)
        refuse_methods(type(self))
        self._replaced = overridden(self, self._hooks())
        # A subclass that overrides only `extend` also changes rows that are added singly.
        self._adds_by_extend = overridden(self, attributes(TensorDictReplayBuffer, ("add", "extend"))) == {"extend"}
        self.max_size = positive_integer("max_size", max_size)
        self.batch_size = batch_size
        if stack_axis is not None and not optimize_memory_usage:
            raise ValueError(f"stack_axis must be None without optimize_memory_usage, got {stack_axis!r}")
        self._frames_once, self._stack_axis = flag("optimize_memory_usage", optimize_memory_usage), stack_axis
        self._compress = compress
        self.n_envs = None if n_envs is None else positive_integer("n_envs", n_envs)
        if self.max_size % (self.n_envs or 1):
            raise ValueError(f"max_size must be a multiple of n_envs={self.n_envs}, got {self.max_size}")
        self.sequences = sequences
        if sequences is not None:
            prioritized = self.priority_key is not None
            self._sequences = Sequences(sequences, self.max_size, self.n_envs or 1, prioritized=prioritized)
        self._seed = _seed(seed)
        self._seeded_in = this_process()
        self._ring: Ring | None = None
        self._fields: dict[Key, str] = {}  # each key of a row, and its name in the ring
        self._shapes: dict[Key, torch.Size] = {}  # of one row

    @classmethod
    def _hooks(cls) -> dict[str, Any]:
        """Return our own methods by the names in HOOKS."""
        return attributes(TensorDictReplayBuffer, HOOKS)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in CHECKS:
            value = CHECKS[name](value)
        elif name in FIXED and (name in vars(self) or type(self).__module__ == __name__) and self._is_made():
            raise AttributeError(f"{name} must be given when the buffer is created: it cannot be changed later")
        elif name in OPTIONS or name in METHODS:
            refuse_attribute(type(self), name)
        super().__setattr__(name, value)
        if name in HOOKS:
            super().__setattr__("_replaced", self._replaced | {name})

    def _is_made(self) -> bool:
        return "_shapes" in vars(self)

    @property
    def buffer(self) -> Ring:
        """The native buffer that holds the rows, for example to save them. Raises RuntimeError before the first row."""
        if self._ring is None:
            raise RuntimeError("the buffer must contain a row: its layout is that of the first TensorDict")
        return self._ring

    def __len__(self) -> int:
        return self._ring.get_stored_size() if self._ring else 0

    def __getitem__(self, index: Any) -> TensorDict:
        """Return copies of stored rows, by the indexes that `add` and `extend` return.

        `index` is anything that can index a tensor (len(buffer),): an int returns a TensorDict of one row with an empty
        batch size; a slice, ints or a mask return one with the shape of the result. Raises IndexError for a row that is
        not stored.
        """
        places = torch.arange(len(self))[index]
        rows = TensorDictReplayBuffer._tensordict(self, self.buffer.get(places.reshape(-1).numpy()))
        return rows.reshape(places.shape) if places.ndim else rows[0]

    def empty(self) -> None:
        """Remove all rows. Their layout stays that of the first TensorDict."""
        if self._ring is not None:
            self._ring.clear()
        if self._sequences is not None:
            self._sequences.restart()

    def add(self, data: TensorDictBase) -> int | torch.Tensor:
        """Store one row, a TensorDict with an empty batch size; return its index. Raises the exceptions of `extend`.

        With `n_envs`, store one row of each environment: a TensorDict of batch size (n_envs,); return a tensor of their
        indexes. If a subclass overrides `update_tensordict_priority` or `update_priority`, it is called as in TorchRL,
        with the index in `data`.
        """
        rows = data.unsqueeze(-1)
        if self._adds_by_extend:
            return self._index(self.extend(rows))
        index = self._index(self._store(rows, with_priorities=not self._replaced))
        if self._replaced:
            data.set(INDEX, torch.as_tensor(index))
            self.update_tensordict_priority(data)
        return index

    def _index(self, indexes: torch.Tensor) -> int | torch.Tensor:
        return int(indexes) if self.n_envs is None else indexes.squeeze(-1)

    def extend(self, data: TensorDictBase) -> torch.Tensor:
        """Store the rows of a TensorDict.

        Parameters
        ----------
        data : TensorDict of batch size (n,), or (n_envs, n) with `n_envs`
            On any device. The keys "index" and "priority_weight" are not stored. With `sequences`, the rows are the
            next steps of their environments, in order. If "is_init" or TorchRL's numbers of trajectories show that a
            collector has reset all environments since, their last episodes end there.

        Returns
        -------
        tensor of int64 of the batch size
            The index of each row.

        Raises
        ------
        ValueError, TypeError, KeyError
            If `data` has the wrong batch size, or if a value is missing, has a dtype that NumPy lacks, or differs in
            shape from the first TensorDict's; or if, with `sequences`, an episode begins where none has ended. Nothing
            is stored then.
        """
        calls = "update_priority" in self._replaced
        indexes = self._store(data, with_priorities=not calls)
        given = data.get(self.priority_key or OF_UNIFORM, None) if calls else None
        if given is not None:
            self.update_priority(indexes.reshape(-1), given if self.n_envs is None else given.reshape(-1))
        return indexes

    def update_tensordict_priority(self, data: TensorDictBase) -> None:
        """Do nothing, as in TorchRL: rows are drawn uniformly."""

    def update_priority(self, index: torch.Tensor, priority: torch.Tensor) -> None:
        """Do nothing, as in TorchRL: rows are drawn uniformly."""

    def _store(self, data: TensorDictBase, *, with_priorities: bool) -> torch.Tensor:
        given, n_envs = data, self.n_envs or 1
        if self.n_envs is None:
            if data.ndim != 1:
                raise ValueError(f"data must have one batch dimension, got batch_size={tuple(data.batch_size)}")
        else:
            if data.ndim != 2 or len(data) != n_envs:
                raise ValueError(f"data must have the batch size ({n_envs}, n), got {tuple(data.batch_size)}")
            data = data.transpose(0, 1).reshape(-1)
        if not len(data):
            return torch.empty(given.shape, dtype=torch.int64)
        fields = self._fields if self._ring else self._layout(data)
        rows = {name: _array(key, data[key]) for key, name in fields.items()}
        for key, shape in self._shapes.items():  # the ring takes any order of axes, and several rows for one
            if data[key].shape[1:] != shape:
                raise ValueError(
                    f"{'/'.join(key)} must have the shape {(len(data), *shape)}, got {(*data[key].shape,)}"
                )
        ring = self._ring or self._make_ring(rows, fields)
        steps = given if self.n_envs else given.unsqueeze(0)
        if self._sequences is not None:
            self._sequences.begin(steps, ring)
        first = ring.get_next_index()
        ring.add(**rows, **(self._priorities(data) if with_priorities else {}))
        if self._sequences is not None:
            self._sequences.added(steps)
        if self._ring is None:
            self._ring, self._fields = ring, fields
            self._shapes = {key: data[key].shape[1:] for key in fields}
        indexes = torch.arange(first, first + len(data)) % self.max_size
        return indexes if self.n_envs is None else indexes.reshape(-1, n_envs).t()

    def reseed(self, seed: int | None = None) -> None:
        """Reseed the generator that draws rows, as in a buffer created with this `seed`.

        None draws a seed, as in the constructor. Raises TypeError or ValueError, and changes nothing, if `seed` is not
        an int from 0 to 2**64 - 1.
        """
        self._seed, self._seeded_in = _seed(seed), this_process()
        if self._ring is not None:
            self._ring.reseed(self._seed)

    def _layout(self, data: TensorDictBase) -> dict[Key, str]:
        keys = [
            (key,) if isinstance(key, str) else key
            for key in data.keys(include_nested=True, leaves_only=True, is_leaf=is_leaf_nontensor)
        ]
        stored = [key for key in keys if key not in ((INDEX,), (WEIGHT,), (self.priority_key,))]
        shared = {(NEXT, *key) for key in stored if self._frames_once and key[0] != NEXT and _is_shared(data, key)}
        # The slash keeps names apart from what the ring itself returns, such as "weights".
        fields = {key: f"next_/{'/'.join(key[1:])}" if key in shared else f"/{'/'.join(key)}" for key in stored}
        if len(set(fields.values())) < len(fields):
            raise ValueError(f"keys must differ when they are joined by slashes, got {stored}")
        return fields

    def _make_ring(self, rows: dict[str, np.ndarray], fields: Mapping[Key, str]) -> Ring:
        own = {name: column for name, column in rows.items() if not name.startswith("next_/")}
        shared = [name for name in own if f"next_{name}" in rows]
        env_dict = {name: {"shape": column.shape[1:], "dtype": column.dtype} for name, column in own.items()}
        kinds = {name.removeprefix("/"): (own[name].shape[1:], own[name].dtype) for name in shared}
        given = self._stack_axis
        if isinstance(given, Mapping):
            given = {key if isinstance(key, str) else "/".join(key): axis for key, axis in given.items()}
        stacks = {f"/{name}": axis for name, axis in axes_of_stacks(kinds, given).items()}
        seed = self._seed if self._seeded_in == this_process() else None  # not a seed that other processes use as well
        options: dict[str, Any] = {"n_envs": self.n_envs or 1, "seed": seed}
        options |= {"next_of": shared, "stack_compress": stacks, "compress": self._compress}
        if self._sequences is None:
            return self._ring_of(env_dict, options)
        ring = self._ring_of(env_dict, {**options, "sequences": self._sequences.option(fields)})
        self._sequences.watch(ring)
        return ring

    def _ring_of(self, env_dict: dict[str, dict[str, Any]], options: dict[str, Any]) -> Ring:
        return Ring(self.max_size, env_dict, **options)

    def _priorities(self, data: TensorDictBase) -> dict[str, np.ndarray]:
        return {}

    def sample(self, batch_size: int | None = None) -> TensorDict:
        """Return drawn rows as a new TensorDict on the CPU.

        The batch size is (batch_size,), and the keys are those that were added. A prioritized buffer also sets "index"
        and "priority_weight". Raises RuntimeError if no row is stored, TypeError if no batch size is known.

        With `sequences`, the batch size is (batch_size, steps). "is_init" (batch_size, steps, 1) marks the first step
        of each episode, also if it was not added. If steps may be padded, "mask" (batch_size, steps) is false for those
        that are. Raises ValueError if no sequence can be drawn.
        """
        n_rows = self.batch_size if batch_size is None else batch_size
        if n_rows is None:
            raise TypeError("batch_size must be an argument of sample or of the constructor")
        return self._tensordict(self._drawn(n_rows))

    def _drawn(self, batch_size: int) -> dict[str, np.ndarray]:
        return self.buffer.sample(batch_size) if self._sequences is None else self.buffer.sample_sequences(batch_size)

    def _tensordict(self, rows: dict[str, np.ndarray]) -> TensorDict:
        sequences = self._sequences if IS_FIRST in rows else None  # the rows of `__getitem__` are single ones
        if sequences is not None:
            rows = sequences.complete(rows)
        tree: dict[str, Any] = {}
        for (*parents, last), name in self._fields.items():
            branch = tree
            for parent in parents:
                branch = branch.setdefault(parent, {})
            branch[last] = torch.from_numpy(rows[name])
        if sequences is None:
            return TensorDict(tree, batch_size=[len(rows[name])])
        data = TensorDict(tree, batch_size=rows[IS_FIRST].shape)
        sequences.mark(data, rows)
        return data


class TensorDictPrioritizedReplayBuffer(TensorDictReplayBuffer):
    """Rows of TensorDicts, drawn by priority (Schaul et al. 2015).

    Parameters
    ----------
    max_size, **options
        As for `TensorDictReplayBuffer`.
    alpha : float
        Exponent of the priorities.
    beta : float
        Exponent of the importance weights; the attribute `beta` may be changed.
    eps : float
        Added to each priority.
    normalize : {"buffer", "batch", None}
        As for `cpprb_impl.PrioritizedReplayBuffer`. The default is TorchRL's.
    priority_key : str
        The key of priorities in TensorDicts. If `extend` finds it, it sets the new rows' priorities; otherwise, they
        get the largest priority so far.
    check_for_update : bool
        As for `cpprb_impl.PrioritizedReplayBuffer`.

    Raises
    ------
    TypeError, ValueError
        If a number is invalid.
    """

    def __init__(
        self,
        max_size: int,
        *,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        normalize: str | None = "buffer",
        priority_key: str = "td_error",
        check_for_update: bool = False,
        **options: Any,
    ) -> None:
        self.alpha, self.eps = check_exponent("alpha", alpha), check_exponent("eps", eps)
        self.check_for_update = flag("check_for_update", check_for_update)
        self.normalize = check_normalize(normalize)
        self.beta, self.priority_key = beta, priority_key
        super().__init__(max_size, **options)

    @classmethod
    def _hooks(cls) -> dict[str, Any]:
        return attributes(TensorDictPrioritizedReplayBuffer, HOOKS)

    def _ring_of(self, env_dict: dict[str, dict[str, Any]], options: dict[str, Any]) -> Ring:
        kept: dict[str, Any] = {"alpha": self.alpha, "eps": self.eps, "normalize": self.normalize}
        return PrioritizedRing(self.max_size, env_dict, check_for_update=self.check_for_update, **kept, **options)

    def _priorities(self, data: TensorDictBase) -> dict[str, np.ndarray]:
        given = data.get(self.priority_key, None)
        return {} if given is None else {"priorities": array_of("priorities", given).reshape(-1)}

    def _drawn(self, batch_size: int) -> dict[str, np.ndarray]:
        ring: PrioritizedRing = self.buffer  # type: ignore[assignment]
        draw = ring.sample if self._sequences is None else ring.sample_sequences
        return draw(batch_size, self.beta)

    def _tensordict(self, rows: dict[str, np.ndarray]) -> TensorDict:
        data = super()._tensordict(rows)
        for key, values in ((INDEX, rows["indexes"].astype(np.int64)), (WEIGHT, rows["weights"])):
            # Each step of a sequence has those of the sequence.
            data[key] = torch.from_numpy(values if data.ndim == 1 else values.repeat(data.shape[1]).reshape(data.shape))
        return data

    def update_tensordict_priority(self, data: TensorDictBase) -> None:
        """Set the priorities of sampled rows: the key `priority_key` of a sample, of shape (n,) or (n, 1).

        Of sequences, the key has the errors of all steps, or of those after the burn-in, from which `cpprb_impl`
        computes the priority of each sequence. A single row of batch size () without that key gets the largest priority
        so far. Raises KeyError for any other TensorDict without the key, ValueError if a priority is negative or not
        finite.
        """
        ring: PrioritizedRing = self.buffer  # type: ignore[assignment]
        priority = data.get(self.priority_key, None) if not data.ndim else data[self.priority_key]
        if priority is None:
            priority = torch.tensor(ring.get_max_priority())
        self.update_priority(data[INDEX], priority)

    def update_priority(self, index: torch.Tensor, priority: torch.Tensor) -> None:
        """Set the priorities (n,) of rows, or of sequences.

        The `index` of sequences is (n,) or, as in a sample, (n, steps). Their `priority` may also be the errors of all
        steps, or of those after the burn-in.

        Raises ValueError if the number of priorities is wrong, or a priority is negative or not finite, and
        RuntimeError before the first row.
        """
        ring: PrioritizedRing = self.buffer  # type: ignore[assignment]
        indexes, priorities = array_of("index", index), array_of("priority", priority)
        if self._sequences is not None:
            ring.update_priorities(*self._sequences.of_each(indexes, priorities))
        else:
            ring.update_priorities(indexes.reshape(-1), priorities.reshape(-1))


CHECKS: dict[str, Callable[[Any], Any]] = {
    "batch_size": lambda value: None if value is None else positive_integer("batch_size", value),
    "beta": lambda value: check_exponent("beta", value),
}


def _seed(given: int | None) -> int | None:
    return int(torch.randint(2**63 - 1, ())) if given is None else parse_seed(given)


def _is_shared(data: TensorDictBase, key: Key) -> bool:
    following = data.get((NEXT, *key), None)
    if not isinstance(following, torch.Tensor):
        return False
    value = data.get(key)
    same = (value.shape, value.dtype) == (following.shape, following.dtype)
    return same and value[0].nbytes > 8  # the reference to a shared value itself takes up to 8 bytes


def _array(key: Key, value: Any) -> np.ndarray:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{'/'.join(key)} must be a tensor, got {type(value).__name__}")
    try:
        array: np.ndarray = value.numpy(force=True)
    except TypeError:
        raise TypeError(f"{'/'.join(key)} must have a dtype that NumPy has, got {value.dtype}") from None
    return array
