"""A small training loop, like `cpprb.train`."""

from cpprb_impl.strategies.training import train

__all__ = ["train"]
