"""Drop-in replacements for Stable-Baselines3's four replay buffers, which store their steps in our buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common import buffers as theirs
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize
from stable_baselines3.her import her_replay_buffer as hindsight

from cpprb_impl.integrations.step_buffer import StepBuffer, of_each_part
from cpprb_impl.integrations.steps import WHOLE
from cpprb_impl.layout.fields import integer, positive_integer
from cpprb_impl.layout.stacks import StackAxis
from cpprb_impl.sb3.loading import check_model

# These get names here, since a program may replace them in Stable-Baselines3's modules with our classes.
THEIRS, THEIRS_OF_PARTS = theirs.ReplayBuffer, theirs.DictReplayBuffer
ALWAYS_EXACT = {"exact": "n-step and hindsight buffers always draw Stable-Baselines3's rows"}


def check_steps(name: str, value: Any) -> int:
    """Return `value` as an int of at least 1. Raises TypeError or ValueError naming it."""
    return positive_integer(name, integer(name, value))


class ReplayBuffer(StepBuffer, theirs.ReplayBuffer):
    """Steps of `n_envs` environments, stored in one of our buffers.

    `observations`, `rewards` and the other arrays of Stable-Baselines3's buffers are views of our buffer's memory, so
    that methods inherited from those buffers work. If an observation's frames are stored once, there is no such view,
    only an object that is read as `observations[steps, environments]`.

    Parameters
    ----------
    buffer_size, observation_space, action_space, device, n_envs, handle_timeout_termination
        As for Stable-Baselines3's buffer.
    optimize_memory_usage : bool
        Whether to store an observation only once, although it is also the previous step's next observation. Each frame
        of a stack is also stored only once.
    exact : bool
        Whether to draw the rows that Stable-Baselines3's own buffer would draw, with NumPy's global generator. A
        training run then has bit-identical results, and `optimize_memory_usage` does not change them. Otherwise, the
        buffer has its own generator, whose seed is drawn from NumPy's.
    stack_axis : int, or dict from parts of the observation to int or None, optional
        With `optimize_memory_usage`, the axis of an observation along which frames are stacked, newest last; a colour
        image may be several frames. Frames that consecutive steps have in common are stored once. By default, the axis
        is inferred for unsigned bytes: the first axis of (C, H, W) and of four-dimensional observations, and the last
        axis of (H, W, C) with four channels or more. In a dict, None marks a part that is not a stack.
    compress : "lz4", optional
        Whether to compress these frames, with `optimize_memory_usage`.

    Raises
    ------
    NotImplementedError
        If a space is of an unsupported kind.
    TypeError, ValueError
        If a number is not positive, `stack_axis` is not an axis of the observation, or `stack_axis` or `compress` is
        given although no frames are stored once.
    """

    draws_exactly: ClassVar[bool] = False  # whatever `exact` is

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        exact: bool = False,
        stack_axis: StackAxis = None,
        compress: str | None = None,
    ) -> None:
        # Not the constructor of their ReplayBuffer, which allocates its arrays.
        theirs.BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs=n_envs)
        self.handle_timeout_termination = handle_timeout_termination
        self.optimize_memory_usage = False  # NStepReplayBuffer and HerReplayBuffer would expect their layout
        self.exact = exact or self.draws_exactly
        self._make_ring(
            buffer_size,
            observation_space,
            action_space,
            n_envs,
            frames_once=optimize_memory_usage,
            stack_axis=stack_axis,
            compress=compress,
            priorities=self._priorities(),
            sequences=self._sequences(),
            exact=self.exact,
        )

    def _priorities(self) -> dict[str, Any] | None:
        return None

    def _sequences(self) -> dict[str, Any] | None:
        return None

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        super().__setstate__(state)
        check_model(self)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """Return uniformly drawn steps as tensors: `ReplayBufferSamples`, or `DictReplayBufferSamples`.

        With `env`, observations and rewards are normalized. If a method that Stable-Baselines3's `sample` calls is
        overridden, it is called in the same way, and NumPy's generator draws the rows. Raises ValueError if no step is
        stored.
        """
        if self._own_draws:
            return self._tensors(self._ring.sample(batch_size), env)
        return theirs.BaseBuffer.sample(self, batch_size, env)

    def _get_samples(self, batch_inds: np.ndarray, env: VecNormalize | None = None) -> Any:
        if not self._overridden <= {"_get_samples"}:
            original = THEIRS if WHOLE in self._fields else THEIRS_OF_PARTS
            return original._get_samples(self, batch_inds, env)
        return self._tensors(self._ring.get(self._indexes(batch_inds)), env)

    def _indexes(self, steps: np.ndarray) -> np.ndarray:
        """Return the row indexes of these steps (n,) of environments that NumPy's generator draws."""
        return steps * self.n_envs + np.random.randint(0, high=self.n_envs, size=(len(steps),))

    def _tensors(self, rows: Mapping[str, np.ndarray], env: VecNormalize | None) -> Any:
        obs, actions, next_obs, dones, rewards = self._arrays(rows)
        tensor = self.to_torch if "to_torch" in self._overridden else self._tensor
        obs, next_obs = (of_each_part(tensor, self._normalize_obs(value, env)) for value in (obs, next_obs))
        return (DictReplayBufferSamples if isinstance(obs, dict) else ReplayBufferSamples)(
            observations=obs,
            actions=tensor(actions),
            next_observations=next_obs,
            dones=tensor(dones),
            rewards=tensor(self._normalize_reward(rewards, env)),
        )

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        # Not `to_torch`, which is slower. A batch consists of new arrays, so none is copied on the CPU.
        return torch.from_numpy(array).to(self.device)


class DictReplayBuffer(ReplayBuffer, theirs.DictReplayBuffer):
    """`ReplayBuffer` for dict observations, under Stable-Baselines3's name."""


class NStepReplayBuffer(theirs.NStepReplayBuffer, ReplayBuffer):
    """`ReplayBuffer` with n-step returns, computed by Stable-Baselines3 when a step is sampled.

    Parameters
    ----------
    n_steps : int
    gamma : float
        Discount per step.
    *args, **options
        As for `ReplayBuffer`, except `exact`: the buffer always draws the rows that Stable-Baselines3's own would draw.

    Raises
    ------
    TypeError, ValueError
        If `exact` is given, or `n_steps` is not a positive integer.
    NotImplementedError
        If observations are dicts: Stable-Baselines3 has no n-step returns for them.
    """

    draws_exactly = True
    _fixed: ClassVar[Mapping[str, str]] = {**ReplayBuffer._fixed, **ALWAYS_EXACT}
    _checks: ClassVar = {"n_steps": check_steps}
    sample = theirs.BaseBuffer.sample

    def __init__(
        self, buffer_size: int, observation_space: spaces.Space[Any], *args: Any, n_steps: int = 3, **options: Any
    ) -> None:
        if "exact" in options:
            raise TypeError("exact must not be given: an NStepReplayBuffer always draws Stable-Baselines3's rows")
        if isinstance(observation_space, spaces.Dict):
            raise NotImplementedError(
                f"observation_space must not be a Dict with n-step returns, got {observation_space}"
            )
        options["n_steps"] = check_steps("n_steps", n_steps)
        super().__init__(buffer_size, observation_space, *args, **options)


class HerReplayBuffer(hindsight.HerReplayBuffer, DictReplayBuffer):
    """`DictReplayBuffer` with hindsight goals (Andrychowicz et al. 2017), chosen by Stable-Baselines3.

    The parameters are those of Stable-Baselines3's `HerReplayBuffer`, and this buffer always draws the same rows.
    """

    draws_exactly = True
    _fixed: ClassVar[Mapping[str, str]] = {**ReplayBuffer._fixed, **ALWAYS_EXACT}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in DictReplayBuffer.__getstate__(self).items() if name != "env"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.env = None  # as in Stable-Baselines3, `set_env` sets it again
        DictReplayBuffer.__setstate__(self, state)
