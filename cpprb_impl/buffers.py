"""Buffers of one process: the thin Python face of the native rings.

`add`, `sample`, `update_priorities` and the sizes are the native methods themselves: a Python
function around them would cost more than they do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cpprb_impl._native import PrioritizedRing, Ring
from cpprb_impl.fields import native_fields, whole_size
from cpprb_impl.files import Saved

EnvDict = Mapping[str, Mapping[str, Any]]


UNBUILT = ("next_of", "stack_compress", "Nstep", "mmap_prefix")


def check_options(buffer: Ring, options: Mapping[str, Any]) -> None:
    """Refuse what `buffer` would have to ignore: cpprb's options that are not built yet, and typing errors."""
    for name, value in options.items():
        if name not in UNBUILT:
            raise TypeError(f"{type(buffer).__name__} has no option {name!r}")
        if value:
            raise NotImplementedError(f"{name} is not built yet")


def check_exponent(name: str, value: float) -> float:
    if not (np.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be finite and not negative, but is {value!r}")
    return float(value)


class ReplayBuffer(Saved, Ring):
    """Ring of transitions, sampled uniformly with replacement.

    Parameters
    ----------
    size : int
        Capacity in transitions; a float is cut. The oldest transition is overwritten when full.
    env_dict : dict of dict
        For each field of a transition its "shape" (int or sequence, default 1) and "dtype".
    default_dtype : numpy dtype, optional
        For fields without one. Default float32.
    seed : int, optional
        Makes sampling reproducible. Default: from the system, and anew in every forked child.

    Raises
    ------
    TypeError, OverflowError, ValueError
        For a size or a field that can't be.
    MemoryError
        When the system refuses the address space.
    """

    def __init__(
        self,
        size: int,
        env_dict: EnvDict | None = None,
        *,
        default_dtype: Any = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        check_options(self, options)
        self._make(whole_size(size), native_fields(env_dict, default_dtype), seed=seed)

    def is_Nstep(self) -> bool:  # noqa: N802 - cpprb's own name
        """Whether N-step transitions are stored."""
        return False

    def _encode_sample(self, idx: Any) -> dict[str, np.ndarray]:
        """The transitions at `idx` (int, or sequence of ints) as a dict of fresh arrays.

        Raises IndexError where nothing is stored.
        """
        indexes = np.asarray(idx)
        rows = self._gather(indexes)
        return {name: column[0] for name, column in rows.items()} if indexes.ndim == 0 else rows


class PrioritizedReplayBuffer(PrioritizedRing, ReplayBuffer):
    """Proportional prioritized replay (Schaul et al. 2015).

    Transition i is drawn with P(i) = (p_i + eps)^alpha / sum; `sample` adds importance weights and
    indexes, which `update_priorities` takes back. `add(priorities=...)` gives new transitions their
    priorities, (rows,); without it they get the largest seen.

    Parameters
    ----------
    size, env_dict, default_dtype, seed
        As for `ReplayBuffer`.
    alpha : float
        0 is uniform, 1 fully proportional. Not negative.
    eps : float
        Added to each priority, so that none is 0. Not negative.
    check_for_update : bool
        Leave transitions alone in `update_priorities` that were written since the last `sample`.
    """

    def __init__(
        self,
        size: int,
        env_dict: EnvDict | None = None,
        *,
        alpha: float = 0.6,
        eps: float = 1e-4,
        check_for_update: bool = False,
        default_dtype: Any = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        check_options(self, options)
        self._make(
            whole_size(size),
            native_fields(env_dict, default_dtype),
            alpha=check_exponent("alpha", alpha),
            eps=check_exponent("eps", eps),
            check_for_update=check_for_update,
            seed=seed,
        )


def create_buffer(
    size: int, env_dict: EnvDict | None = None, *, prioritized: bool = False, **options: Any
) -> ReplayBuffer:
    """A `PrioritizedReplayBuffer` if `prioritized`, else a `ReplayBuffer`."""
    return (PrioritizedReplayBuffer if prioritized else ReplayBuffer)(size, env_dict, **options)
