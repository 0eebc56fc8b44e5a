"""The buffers of one process and of many."""

from cpprb_impl.buffers.single import PrioritizedReplayBuffer, ReplayBuffer, create_buffer

__all__ = ["PrioritizedReplayBuffer", "ReplayBuffer", "create_buffer"]
