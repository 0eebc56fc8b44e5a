"""Counterpart of `cpprb.multiprocessing`, without its shared arrays, since here one segment holds all shared state."""

from cpprb_impl.processes.manager import try_start

__all__ = ["try_start"]
