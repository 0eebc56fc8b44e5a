"""Sequences of steps for algorithms written in the style of Stable-Baselines3, which has no such buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from stable_baselines3.common.vec_env import VecNormalize

from cpprb_impl.integrations import steps
from cpprb_impl.integrations.overrides import replaces
from cpprb_impl.integrations.steps import WHOLE
from cpprb_impl.sb3.buffers import ReplayBuffer

SET_BY_ADD = {
    "done": "the arguments done and infos of add mark the last step of an episode",
    "state": "add takes no states of a network: pass burn_in, or use cpprb_impl.ReplayBuffer",
}
IN_ORDER = "sequences consist of steps that were added one after the other: call add, or reset to remove all steps"
SAMPLE_ENV = (
    "sample must be called without env: the algorithms of Stable-Baselines3, which pass it, learn from single steps. "
    "The train method of an algorithm that learns from sequences passes vec_normalize instead"
)
NOT_GIVEN: Any = object()


class SequenceSamples(NamedTuple):
    """`ReplayBufferSamples` of sequences: each tensor begins with the axes (batch_size, steps), except `lengths`."""

    observations: Any
    actions: torch.Tensor
    next_observations: Any
    dones: torch.Tensor  # (batch_size, steps, 1), like the next three
    rewards: torch.Tensor
    is_first: torch.Tensor  # bool: the first step of an episode
    mask: torch.Tensor  # bool: a stored step, not a padded one
    lengths: torch.Tensor  # (batch_size,), the number of stored steps


class SequenceReplayBuffer(ReplayBuffer):
    """Sequences of consecutive steps of one environment, for recurrent networks and models of the world.

    The algorithms of Stable-Baselines3 cannot learn from them: `sample` raises TypeError if one of them calls it.

    Parameters
    ----------
    *args, **options
        As for `ReplayBuffer`, except `exact`. Observations may be dicts.
    sequences : dict
        "size", "burn_in", "period" and "ends", as for `cpprb_impl.ReplayBuffer`. An episode ends with a step that is
        done, or truncated according to `infos`.

    Raises
    ------
    TypeError, KeyError, ValueError
        If `exact` is given, or an option is invalid.

    Notes
    -----
    If all environments have been reset since the last step, as `learn` does when it is called again, their episodes end
    there. This is recognized by observations that differ from the next observations of the steps before, unless they
    always do. Writing to the array `dones` of earlier steps does not change where episodes end.
    """

    _fixed: ClassVar[Mapping[str, str]] = {
        **ReplayBuffer._fixed,
        "exact": "Stable-Baselines3 has no such buffer",
        "sequences": "pass it to the constructor of a new buffer",
    }
    _has_continued = False  # whether any step has begun where the one before ended

    def __init__(self, *args: Any, sequences: Mapping[str, Any], **options: Any) -> None:
        if "exact" in options:
            raise TypeError("SequenceReplayBuffer has no option exact: Stable-Baselines3 has no such buffer")
        if not isinstance(sequences, Mapping):
            raise TypeError(f"sequences must be a dict with 'size', got {sequences!r}")
        for name in SET_BY_ADD:
            if name in sequences:
                raise TypeError(f"sequences must not have {name!r}: {SET_BY_ADD[name]}")
        self.sequences = {**sequences}
        super().__init__(*args, **options)

    def _sequences(self) -> dict[str, Any]:
        return {**self.sequences, "done": [steps.DONE, steps.TIMEOUT]}

    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: np.ndarray,
        reward: np.ndarray,
        done: np.ndarray,
        infos: Sequence[Mapping[str, Any]],
    ) -> None:
        """Store one step of each environment, like `ReplayBuffer.add`."""
        if self._were_reset(obs):
            self._ring.on_episode_end()
        super().add(obs, next_obs, action, reward, done, infos)

    def _were_reset(self, obs: Any) -> bool:
        """Return whether all environments have been reset within an episode since the last step."""
        if self._ring.get_stored_size() == 0:
            return False
        first = self._ring.get_next_index() - self.n_envs
        newest = self._ring.get((first + np.arange(self.n_envs)) % self._ring.get_buffer_size())
        continues = np.ones(self.n_envs, bool)
        for name, (_, next_field) in self._fields.items():
            try:
                seen = self._fit("obs", name, obs if name == WHOLE else obs[name])
            except (KeyError, IndexError, TypeError, ValueError):
                return False  # `add` raises an error that says why
            continues &= _equal(newest[next_field], seen)
        ended = np.asarray(self._ring._get_streams()) % 2 == 1
        self._has_continued |= bool((continues & ~ended).any())
        return self._has_continued and bool((ended | ~continues).all() and not ended.all())

    def sample(self, batch_size: int, env: Any = NOT_GIVEN, *, vec_normalize: VecNormalize | None = None) -> Any:
        """Return sequences, drawn uniformly, as `SequenceSamples`.

        With `vec_normalize`, observations and rewards are normalized, also in padded steps, which are zeros otherwise.
        Raises TypeError if `env` is given, as by the algorithms of Stable-Baselines3, which learn from single steps,
        and ValueError if no sequence can be drawn.
        """
        if env is not NOT_GIVEN:
            raise TypeError(SAMPLE_ENV)
        rows = self._ring.sample_sequences(batch_size)
        is_first = rows["is_first"][..., np.newaxis]
        count, length, _ = is_first.shape
        samples = self._tensors(rows, vec_normalize)
        return SequenceSamples(
            observations=samples.observations,
            actions=samples.actions,
            next_observations=samples.next_observations,
            dones=samples.dones.reshape(is_first.shape),
            rewards=samples.rewards.reshape(is_first.shape),
            is_first=self._tensor(is_first),
            mask=self._tensor(rows.get("mask", np.ones((count, length), bool))[..., np.newaxis]),
            lengths=self._tensor(rows.get("lengths", np.full(count, length, np.int64))),
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("dones", "timeouts") and self._is_made():
            raise AttributeError(f"{name} cannot be assigned: {IN_ORDER}")
        super().__setattr__(name, value)

    def _choose_path(self, hooks: frozenset[str]) -> None:
        if "_get_samples" in hooks:
            raise TypeError(
                "_get_samples must not be overridden, since sequences are not drawn with it: override sample"
            )
        super()._choose_path(hooks)

    def _draws_from_ring(self) -> bool:
        return not replaces(self, "sample", self._ours)  # whatever other methods are overridden

    def _hold(self, name: str, pos: int, full: bool) -> None:
        if (pos, full) != (self.pos, self.full):
            raise AttributeError(f"{name} cannot be assigned: {IN_ORDER}")


def _equal(stored: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Return which of the `given` values are stored, with the same bytes."""
    with np.errstate(all="ignore"):
        converted = np.ascontiguousarray(given, stored.dtype)
    same = stored.reshape(len(stored), -1).view(np.uint8) == converted.reshape(len(stored), -1).view(np.uint8)
    return np.asarray(same.all(axis=1))
