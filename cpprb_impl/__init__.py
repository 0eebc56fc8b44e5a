"""A native replay buffer for reinforcement learning, a drop-in for cpprb."""

from cpprb_impl.buffers import PrioritizedReplayBuffer, ReplayBuffer, create_buffer
from cpprb_impl.shared import MPPrioritizedReplayBuffer, MPReplayBuffer

__all__ = [
    "MPPrioritizedReplayBuffer",
    "MPReplayBuffer",
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
    "create_buffer",
]
