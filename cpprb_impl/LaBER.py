"""Counterpart of the module `cpprb.LaBER`."""  # noqa: N999 - cpprb's own name

from cpprb_impl.strategies.large_batch import LaBER, LaBERlazy, LaBERmax, LaBERmean

__all__ = ["LaBER", "LaBERlazy", "LaBERmax", "LaBERmean"]
