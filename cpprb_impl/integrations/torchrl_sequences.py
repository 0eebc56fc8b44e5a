"""Sequences of steps in TensorDicts (sequences, steps), as TorchRL's recurrent modules take them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from cpprb_impl.buffers.single import ReplayBuffer as Ring
from cpprb_impl.layout.sequences import ENDS, read_sequences
from cpprb_impl.ring.order import SEQUENCES, watch_order

Key = tuple[str, ...]
NEXT = "next"
IS_INIT, MASK = "is_init", "mask"
TRAJECTORIES = ("collector", "traj_ids")  # TorchRL's collectors number the episodes of all environments
KEYS = ("done", "state")  # options that name keys
IS_FIRST = "is_first"  # an array of the ring's batches


class Sequences:
    """The option `sequences` of a buffer of TensorDicts, and where the streams of its environments have got to.

    Parameters
    ----------
    given : mapping
        The option, as for `TensorDictReplayBuffer`.
    max_size, n_envs : int
    prioritized : bool

    Raises
    ------
    TypeError, KeyError, ValueError
        If an option does not exist, or has a value that does not fit the buffer.
    """

    def __init__(self, given: Mapping[str, Any], max_size: int, n_envs: int, *, prioritized: bool) -> None:
        numbers = {name: given[name] for name in given if name not in KEYS} if isinstance(given, Mapping) else given
        read = read_sequences(numbers, [], max_size, n_envs, prioritized=prioritized)
        self._given, self._n_envs = {**given}, n_envs
        self._size, self._burn_in = read["size"], read["burn_in"]
        self._done: list[Key] = []
        self._states: list[str] = []  # names of fields
        self.restart()

    def restart(self) -> None:
        """Record that the next step of each environment begins an episode."""
        self._ended = torch.ones(self._n_envs, dtype=torch.bool)
        self._trajectories: torch.Tensor | None = None  # of the newest step of each environment

    def option(self, fields: Mapping[Key, str]) -> dict[str, Any]:
        """Return the ring's option. Raises KeyError if a key in it is not among those of the first TensorDict."""
        done = _keys("done", self._given.get("done"), fields) or [
            key for key in ((NEXT, name) for name in ENDS) if key in fields
        ]
        if not done:
            raise KeyError("sequences needs the end of episodes: add next/done, or name the key with done")
        if (MASK,) in fields:
            raise ValueError("mask must be renamed: samples of sequences contain their own mask")
        states = [fields[key] for key in _keys("state", self._given.get("state"), fields)]
        self._done, self._states = done, states
        return {**self._given, "done": [fields[key] for key in done], "state": states}

    def watch(self, ring: Ring) -> None:
        """Have the ring warn if no step begins where the one before ended; it compares fields that are stored once."""
        kinds = {name: (dtype, shape) for name, dtype, shape in ring._layout.fields}
        pairs = [(name, f"/next{name}") for name in kinds if kinds.get(f"/next{name}") == kinds[name]]
        if pairs and not ring._watches_order():
            watch_order(ring, ring._layout.fields, None, SEQUENCES, starts=False, pairs=pairs)

    def begin(self, data: TensorDictBase, ring: Ring) -> None:
        """Check that the steps (n_envs, steps) continue those that are stored, before they are added.

        If the collector has reset all environments since, their last episodes end. Raises ValueError if any other step
        begins an episode although the one before did not end one.
        """
        begins = self._begins(data)
        if begins is None:
            return
        before = torch.cat([self._ended.unsqueeze(1), self._ends(data)[:, :-1]], dim=1)
        unexpected = begins & ~before
        if not unexpected.any():
            return
        if unexpected[:, 1:].any() or not (begins | before)[:, 0].all():
            environment, step = unexpected.nonzero()[0].tolist()
            raise ValueError(
                "data must be consecutive steps of each environment, but step "
                f"{step} of environment {environment} begins an episode, and the step before it does not end one"
            )
        ring.on_episode_end()
        self.restart()

    def added(self, data: TensorDictBase) -> None:
        """Remember the newest of the steps (n_envs, steps) that were added."""
        self._ended = self._ends(data)[:, -1].clone()
        trajectories = _numbers(data, TRAJECTORIES)
        self._trajectories = None if trajectories is None else trajectories[:, -1].clone()

    def _ends(self, data: TensorDictBase) -> torch.Tensor:
        return torch.stack([_flags(data, key) for key in self._done]).any(dim=0)

    def _begins(self, data: TensorDictBase) -> torch.Tensor | None:
        """Return which steps are the first of an episode, as far as `data` says so."""
        begins = None if data.get(IS_INIT, None) is None else _flags(data, (IS_INIT,))
        numbers = _numbers(data, TRAJECTORIES)
        if numbers is not None:
            before = numbers[:, 0] if self._trajectories is None else self._trajectories
            changed = numbers != torch.cat([before.unsqueeze(1), numbers[:, :-1]], dim=1)
            begins = changed if begins is None else begins | changed
        return begins

    def complete(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the batch with a value of each state for each step: zeros after the first."""
        completed = dict(batch)
        for name in self._states:
            completed[name] = np.zeros((*batch[IS_FIRST].shape, *batch[name].shape[1:]), batch[name].dtype)
            completed[name][:, 0] = batch[name]
        return completed

    def mark(self, data: TensorDictBase, batch: Mapping[str, np.ndarray]) -> None:
        """Set "is_init" of sequences, unless it was stored, and "mask" if steps may be padded."""
        if data.get(IS_INIT, None) is None:
            data[IS_INIT] = torch.from_numpy(batch[IS_FIRST]).unsqueeze(-1)
            data[NEXT, IS_INIT] = torch.zeros_like(data[IS_INIT])  # TorchRL's value estimators need both
        if MASK in batch:
            data[MASK] = torch.from_numpy(batch[MASK])

    def of_each(self, indexes: np.ndarray, priorities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the index of each sequence, and its priority or the errors of all its steps, burn-in included.

        Raises ValueError if a row of `indexes` has several values.
        """
        if indexes.ndim > 1:
            indexes = indexes.reshape(len(indexes), -1)
            if (indexes != indexes[:, :1]).any():
                raise ValueError("index must have one value for all steps of a sequence, as in a sample")
            indexes = indexes[:, 0]
        if priorities.ndim > 1:
            priorities = priorities.reshape(len(priorities), -1)
            if priorities.shape[1] == self._size:  # without the burn-in, which has no influence
                priorities = np.pad(priorities, ((0, 0), (self._burn_in, 0)))
            elif priorities.shape[1] == 1:
                priorities = priorities[:, 0]
        return indexes.reshape(-1), priorities if priorities.ndim else priorities.reshape(-1)


def _keys(option: str, given: Any, fields: Iterable[Key]) -> list[Key]:
    keys = [] if given is None else given if isinstance(given, list) else [given]
    found = [(key,) if isinstance(key, str) else tuple(key) for key in keys]
    for key in found:
        if key not in fields:
            raise KeyError(f"sequences: {option} must name keys of the TensorDicts, got {'/'.join(map(str, key))}")
    return found


def _flags(data: TensorDictBase, key: Key) -> torch.Tensor:
    return data[key].cpu().reshape(*data.shape, -1).bool().any(dim=-1)


def _numbers(data: TensorDictBase, key: Key) -> torch.Tensor | None:
    """Return the numbers of episodes (n_envs, steps); None if there are none."""
    numbers = data.get(key, None)
    return None if numbers is None else numbers.cpu().reshape(*data.shape, -1)[..., 0]
