"""Counterpart of the module `cpprb.util`."""

from cpprb_impl.layout.spaces import create_before_add_func, create_env_dict, from_space

__all__ = ["create_before_add_func", "create_env_dict", "from_space"]
