"""Counterpart of the module `cpprb.HER`."""  # noqa: N999 - cpprb's own name

from cpprb_impl.strategies.hindsight import HindsightReplayBuffer

__all__ = ["HindsightReplayBuffer"]
