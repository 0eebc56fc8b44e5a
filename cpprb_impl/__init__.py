"""A native replay buffer for reinforcement learning: a drop-in replacement for cpprb."""

import sys

if "t" in sys.abiflags:
    raise ImportError(
        "cpprb_impl needs a Python with the global interpreter lock, got a free-threaded build; "
        f"install python{sys.version_info.major}.{sys.version_info.minor} without the suffix t"
    )

from cpprb_impl import (
    built,  # noqa: F401 - first, since the others import the native part
    moved,  # noqa: F401
)

# isort: split
from cpprb_impl import HER, LaBER, PyReplayBuffer, multiprocessing, util  # noqa: F401 - as in cpprb
from cpprb_impl.buffers.shared import MPPrioritizedReplayBuffer, MPReplayBuffer
from cpprb_impl.buffers.single import PrioritizedReplayBuffer, ReplayBuffer, create_buffer
from cpprb_impl.layout.spaces import create_before_add_func, create_env_dict
from cpprb_impl.strategies.hindsight import HindsightReplayBuffer
from cpprb_impl.strategies.large_batch import LaBERlazy, LaBERmax, LaBERmean
from cpprb_impl.strategies.reverse import ReverseReplayBuffer
from cpprb_impl.strategies.selective import SelectiveReplayBuffer
from cpprb_impl.strategies.training import train

__all__ = [
    "HindsightReplayBuffer",
    "LaBERlazy",
    "LaBERmax",
    "LaBERmean",
    "MPPrioritizedReplayBuffer",
    "MPReplayBuffer",
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
    "ReverseReplayBuffer",
    "SelectiveReplayBuffer",
    "create_before_add_func",
    "create_buffer",
    "create_env_dict",
    "train",
]


def __getattr__(name: str) -> str:
    """Return `__version__`, looked up on demand: reading package metadata takes longer than all other imports."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("cpprb-impl")
