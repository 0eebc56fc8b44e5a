"""Counterpart of `cpprb.PyReplayBuffer`: the buffers that cpprb compiles, without its internals."""  # noqa: N999

from cpprb_impl.buffers.shared import MPPrioritizedReplayBuffer, MPReplayBuffer
from cpprb_impl.buffers.single import PrioritizedReplayBuffer, ReplayBuffer, create_buffer
from cpprb_impl.strategies.reverse import ReverseReplayBuffer
from cpprb_impl.strategies.selective import SelectiveReplayBuffer
from cpprb_impl.strategies.training import train

__all__ = [
    "MPPrioritizedReplayBuffer",
    "MPReplayBuffer",
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
    "ReverseReplayBuffer",
    "SelectiveReplayBuffer",
    "create_buffer",
    "train",
]
