"""`cpprb.HER` by its own name."""  # noqa: N999 - cpprb's own name

from cpprb_impl.hindsight import HindsightReplayBuffer

__all__ = ["HindsightReplayBuffer"]
