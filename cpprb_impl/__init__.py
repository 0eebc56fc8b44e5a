"""A native replay buffer for reinforcement learning: a drop-in replacement for cpprb."""

import sys

if "t" in sys.abiflags:
    raise ImportError(
        "cpprb_impl needs a Python with the global interpreter lock, got a free-threaded build; "
        f"install python{sys.version_info.major}.{sys.version_info.minor} without the suffix t"
    )

from cpprb_impl import built  # noqa: F401 - first, since the others import the native part

# isort: split
from cpprb_impl import HER, LaBER, PyReplayBuffer, multiprocessing, util  # noqa: F401 - as in cpprb
from cpprb_impl.buffers import PrioritizedReplayBuffer, ReplayBuffer, create_buffer
from cpprb_impl.environments import create_before_add_func, create_env_dict
from cpprb_impl.hindsight import HindsightReplayBuffer
from cpprb_impl.large_batch import LaBERlazy, LaBERmax, LaBERmean
from cpprb_impl.reverse import ReverseReplayBuffer
from cpprb_impl.selective import SelectiveReplayBuffer
from cpprb_impl.shared import MPPrioritizedReplayBuffer, MPReplayBuffer
from cpprb_impl.training import train

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
