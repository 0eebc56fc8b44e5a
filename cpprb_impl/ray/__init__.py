"""A prioritized replay buffer over the hosts of a Ray cluster: see `PrioritizedReplayBuffer`."""

from cpprb_impl.hosts.learner import ShardsLost
from cpprb_impl.ray.buffer import PrioritizedReplayBuffer

__all__ = ["PrioritizedReplayBuffer", "ShardsLost"]
