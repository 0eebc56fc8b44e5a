"""Replay buffers for Stable-Baselines3's argument `replay_buffer_class`. Needs the extra `cpprb-impl[sb3]`.

Each class has the constructor, methods and attributes of the buffer that it replaces. With
`optimize_memory_usage=True`, observations and frames are stored once, and time limits are still handled.
"""

from cpprb_impl.sb3.buffers import DictReplayBuffer, HerReplayBuffer, NStepReplayBuffer, ReplayBuffer
from cpprb_impl.sb3.prioritized import PrioritizedDQN, PrioritizedReplayBuffer, PrioritizedSamples
from cpprb_impl.sb3.sequences import SequenceReplayBuffer, SequenceSamples

__all__ = [
    "DictReplayBuffer",
    "HerReplayBuffer",
    "NStepReplayBuffer",
    "PrioritizedDQN",
    "PrioritizedReplayBuffer",
    "PrioritizedSamples",
    "ReplayBuffer",
    "SequenceReplayBuffer",
    "SequenceSamples",
]
