"""A replay buffer for CleanRL's scripts, in place of `cleanrl_utils.buffers.ReplayBuffer`. Needs PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cpprb_impl.integrations.step_buffer import StepBuffer, of_each_part
from cpprb_impl.integrations.steps import WHOLE
from cpprb_impl.layout.stacks import StackAxis

if TYPE_CHECKING:
    import torch


class ReplayBufferSamples(NamedTuple):
    """Tensors of drawn steps. An observation with several parts is a dict of tensors."""

    observations: Any  # (batch_size, *shape)
    actions: torch.Tensor  # (batch_size, elements of an action)
    next_observations: Any  # (batch_size, *shape)
    dones: torch.Tensor  # (batch_size, 1), float32
    rewards: torch.Tensor  # (batch_size, 1), float32


class ReplayBuffer(StepBuffer):
    """Steps of `n_envs` environments, with the methods of CleanRL's buffer.

    Parameters
    ----------
    buffer_size : int
        Capacity in steps of all environments together.
    observation_space : Box, Discrete, MultiDiscrete, MultiBinary, or Dict of these
        From Gymnasium or Gym.
    action_space : Box, Discrete, MultiDiscrete or MultiBinary
    device : str or torch.device
        The device of sampled tensors; "auto" selects the GPU if there is one. Steps are stored in main memory.
    n_envs : int
    optimize_memory_usage : bool
        Whether to store an observation only once, although it is also the previous step's next observation. Each frame
        of a stack is also stored only once. Next observations are always those that were added, and
        `handle_timeout_termination` may be true as well.
    handle_timeout_termination : bool
        Whether a step whose info has a true "TimeLimit.truncated" is sampled as not done.
    exact : bool
        Whether to draw the rows that CleanRL's own buffer would draw, with NumPy's global generator. Otherwise, the
        buffer has its own generator, whose seed is drawn from NumPy's.
    stack_axis : int, or dict from parts of the observation to int or None, optional
        With `optimize_memory_usage`, the axis of an observation along which frames are stacked, newest last; a colour
        image may count as several frames. Frames that consecutive steps have in common are stored once. By default, the
        axis is inferred for unsigned bytes: the first axis of (C, H, W) and of four-dimensional observations, and the
        last axis of (H, W, C) with four channels or more. In a dict, None marks a part that is not a stack.
    compress : "lz4", optional
        Whether to compress these frames, with `optimize_memory_usage`.

    Raises
    ------
    NotImplementedError
        If a space is of an unsupported kind.
    TypeError, ValueError
        If a number is not positive, `stack_axis` is not an axis of the observation, or `stack_axis` or `compress` is
        given without `optimize_memory_usage`, or `compress` without a stack of frames.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: Any,
        action_space: Any,
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        exact: bool = False,
        stack_axis: StackAxis = None,
        compress: str | None = None,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.device = _device(device)
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        self.exact = exact
        self._make_ring(
            buffer_size,
            observation_space,
            action_space,
            n_envs,
            frames_once=optimize_memory_usage,
            stack_axis=stack_axis,
            compress=compress,
            exact=exact,
        )
        shapes = {name: shape[1:] or (1,) for name, shape in self._shapes.items()}
        self.obs_shape = shapes.get(WHOLE, shapes)
        self.action_dim = self._views["actions"].shape[-1]

    def extend(self, *args: Any) -> None:
        """Store several steps: each argument is a sequence of values that `add` takes."""
        for step in zip(*args, strict=True):
            self.add(*step)

    def sample(self, batch_size: int) -> ReplayBufferSamples:
        """Return uniformly drawn steps, with replacement.

        If `_get_samples` or `to_torch` is overridden, it is called as in CleanRL's buffer, and NumPy's generator draws
        the steps. Raises ValueError if no step is stored.
        """
        if self._own_draws or self._ring.get_stored_size() == 0:
            return self._samples(self._ring.sample(batch_size))
        if self.optimize_memory_usage and self.full:
            # In CleanRL's buffer, the newest next observation has replaced the oldest observation, which is not drawn.
            drawn = (np.random.randint(1, self.buffer_size, size=batch_size) + self.pos) % self.buffer_size
        else:
            drawn = np.random.randint(0, self.buffer_size if self.full else self.pos, size=batch_size)
        return self._get_samples(drawn)

    def _get_samples(self, batch_inds: np.ndarray, env: None = None) -> ReplayBufferSamples:
        """Return the steps `batch_inds` (n,), each of an environment drawn by NumPy's generator. `env` is ignored."""
        environments = np.random.randint(0, self.n_envs, size=len(batch_inds))
        return self._samples(self._ring.get(batch_inds * self.n_envs + environments))

    def _samples(self, rows: Mapping[str, np.ndarray]) -> ReplayBufferSamples:
        tensor = self.to_torch if "to_torch" in self._overridden else self._tensor
        return ReplayBufferSamples(*(of_each_part(tensor, arrays) for arrays in self._arrays(rows)))

    def to_torch(self, array: np.ndarray, copy: bool = True) -> torch.Tensor:
        """Return an array as a tensor on the buffer's device: a copy or, without `copy`, a view if possible."""
        import torch

        return torch.tensor(array, device=self.device) if copy else torch.as_tensor(array, device=self.device)

    @staticmethod
    def _maybe_cast_dtype(dtype: Any) -> Any:
        """Return the dtype in which actions of `dtype` are stored."""
        return np.float32 if dtype == np.float64 else dtype

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        import torch

        return torch.as_tensor(array, device=self.device)  # on the CPU without a copy: a batch consists of new arrays


def _device(name: torch.device | str) -> torch.device:
    import torch

    device = torch.device("cuda" if name == "auto" else name)
    # As in CleanRL, fall back to the CPU if there is no GPU.
    return device if device.type != "cuda" or torch.cuda.is_available() else torch.device("cpu")
