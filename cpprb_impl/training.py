"""A small training loop, as `cpprb.train`."""

from cpprb_impl.strategies.training import train

__all__ = ["train"]
