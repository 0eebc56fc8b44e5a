"""N-step transitions: pending steps from files, and the window for buffers with fields of Python objects.

One transition is stored for the steps t, t+1, ..., t+N-1: step t's own fields, the discounted sum of their rewards
r_t + gamma r_(t+1) + ... and the last step's next_*. A learner bootstraps from it with gamma^N (1 - done): the
multi-step target of Hessel et al. 2018, "Rainbow", arXiv:1710.02298, section "Multi-step learning".

All other buffers use the window in native code (core/steps/nstep.hpp), which is about fifty times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cpprb_impl.layout.fields import NativeField
from cpprb_impl.processes.fork_safety import ForkSafe
from cpprb_impl.ring.base import BufferBase
from cpprb_impl.ring.row_reader import Columns, RowReader

Store = Callable[[Columns, BufferBase], int]  # stores transitions, and returns the index of the first


def fitting_steps(
    steps: Mapping[str, np.ndarray], like: Mapping[str, np.ndarray], options: Mapping[str, Any] | None
) -> Columns:
    """Return the columns of `steps`, read from a file, in the dtypes of `like`, for a buffer with the n-step `options`.

    Raises ValueError, KeyError or TypeError if the steps cannot have been pending in such a buffer.
    """
    fitting = {}
    for name, wanted in like.items():
        if name == "env_ids":
            continue
        column = steps[name]
        if column.dtype != wanted.dtype and column.dtype.kind == "V":  # a file stores some dtypes as raw bytes
            column = column.view(wanted.dtype)
        fitting[name] = column.astype(wanted.dtype)
        if column.shape[1:] != wanted.shape[1:] or column.ndim != wanted.ndim:
            shape = ", ".join(["steps", *map(str, wanted.shape[1:])])
            raise ValueError(f"{name} must have shape ({shape}), got {column.shape}")
    counts = {len(column) for column in fitting.values()}
    most = 0 if options is None else options["size"] * options.get("n_envs", 1)
    if options is not None and like and (len(counts) != 1 or max(counts) >= most):
        raise ValueError(
            f"Nstep: fewer than {most} steps must be pending, equally many per field, got {sorted(counts)}"
        )
    if options is not None and "env_ids" in steps:
        fitting["env_ids"] = _fitting_environments(steps["env_ids"], counts, options)
    return fitting


def _fitting_environments(given: np.ndarray, counts: set[int], options: Mapping[str, Any]) -> np.ndarray:
    environments = options.get("n_envs", 1)
    if given.dtype.kind not in "iu" or given.ndim != 1 or {len(given)} != counts:
        raise ValueError(f"Nstep: env_ids must be one int per pending step, got {given.dtype} of shape {given.shape}")
    if len(given) and not 0 <= given.min() <= given.max() < environments:
        raise ValueError(f"Nstep: env_ids must be from 0 to {environments - 1}, got {given.min()} to {given.max()}")
    if len(given) and np.bincount(given).max() >= options["size"]:
        raise ValueError(f"Nstep: fewer than {options['size']} steps of each environment must be pending")
    return given.astype(np.int64)


class NstepWindow(ForkSafe):
    """A window of at most N - 1 steps, each waiting until the steps that follow it are known.

    A step leaves the window as an n-step transition once the next N - 1 steps are known, or on `flush`. A transition
    ends early at its first step that is done: later rewards are not counted, next_* is taken from that step, and done
    is 1. If `flush` ends it, next_* is taken from the last step available.

    Parameters
    ----------
    options : dict
        As returned by `read_options`.
    fields : sequence of (name, dtype, shape)
        The fields of a transition.
    prioritized : dict, optional
        As for `RowReader`. A transition gets its first step's priority.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        fields: Sequence[NativeField],
        prioritized: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.options, self.size, self.gamma = options, options["size"], options["gamma"]
        dtypes = {name: np.dtype(dtype) for name, dtype, _ in fields}
        self._done_dtype, self._next = dtypes["done"], options["next"]
        self._rewards = {name: dtypes[name] for name in options["rew"]}
        # Rewards are read and stored in the precision in which they are summed.
        exact = [(name, np.result_type(d, float) if name in self._rewards else d, s) for name, d, s in fields]
        self.reader = RowReader(exact, prioritized)
        self._steps = self.reader.empty()

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_read" in state:  # the attribute's name in pickles of version 0.1
            state["reader"] = state.pop("_read")
        super().__setstate__(state)

    def __len__(self) -> int:
        return len(self._steps["done"])

    def push(self, new: Columns, buffer: BufferBase, store: Store) -> int | None:
        """Append the steps that `reader` read, and store the completed transitions in `buffer`.

        Returns the first transition's index, or None if no transition is complete yet. Raises the exceptions of
        `store`; the window is then unchanged.
        """
        with self._lock:
            steps = {name: np.concatenate((waiting, new[name])) for name, waiting in self._steps.items()}
            count = max(0, len(steps["done"]) - self.size + 1)
            if count == 0:
                self._steps = steps
                return None
            rest = {name: column[count:].copy() for name, column in steps.items()}
            return self._store(self._complete(steps, count), rest, buffer, store)

    def flush(self, buffer: BufferBase, store: Store) -> int | None:
        """Store a transition for each pending step, from the available steps. Returns the same as `push`."""
        with self._lock:
            if len(self) == 0:
                return None
            return self._store(self._complete(self._steps, len(self)), self.reader.empty(), buffer, store)

    def _store(self, transitions: Columns, rest: Columns, buffer: BufferBase, store: Store) -> int:
        def keep_rest() -> None:
            self._steps = rest

        return self._add_then(buffer, lambda: store(transitions, buffer), keep_rest)

    def clear(self) -> None:
        """Remove the pending steps."""
        with self._lock:
            self._steps = self.reader.empty()

    def _complete(self, steps: Columns, count: int) -> Columns:
        """Return the n-step transitions that begin with the first `count` of `steps`."""
        done = steps["done"].reshape(-1) != 0
        step = np.arange(len(done))
        # For each step: the first step from there on that is done, or else the last step.
        end = np.minimum.accumulate(np.where(done, step, len(done) - 1)[::-1])[::-1]
        first = step[:count]
        last = np.minimum(end[:count], first + self.size - 1)
        rows = {name: column[:count] for name, column in steps.items()}
        rows["done"] = done[last].astype(self._done_dtype).reshape(rows["done"].shape)
        for name in self._next:
            rows[name] = steps[name][last]
        if self._rewards:
            ahead = np.arange(min(self.size, len(done)))
            at = first[:, None] + ahead
            outside = at > last[:, None]
            at[outside] = 0
            for name in self._rewards:
                rewards = steps[name][at]
                rewards[outside] = 0  # assigned, not multiplied by 0, so that a NaN beyond the end does not count
                rows[name] = _sums(rewards, self.gamma, outside)
        return rows


def _sums(rewards: np.ndarray, gamma: float, outside: np.ndarray) -> np.ndarray:
    """Return the discounted sums over the second axis, excluding steps outside each window.

    The sums are in double precision, or wider if that makes them finite: the ring converts them to the field's dtype,
    and warns of sums that become infinite. It cannot warn for longdouble, since no dtype is wider.
    """

    def discounted(dtype: type[np.floating]) -> np.ndarray:
        discounts = np.where(outside, dtype(0), dtype(gamma) ** np.arange(outside.shape[1]))
        sums: np.ndarray = np.einsum("rs...,rs->r...", rewards, discounts)
        return sums

    with np.errstate(over="ignore"):
        sums = discounted(np.float64)
        finite = np.isfinite(sums)
        return sums if finite.all() else np.where(finite, sums, discounted(np.longdouble))
