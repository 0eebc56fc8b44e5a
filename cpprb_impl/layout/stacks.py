"""The axis along which an observation's frames are stacked: given by the user, or inferred from its shape and dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cpprb_impl.layout.fields import integer

StackAxis = int | Mapping[Any, int | None] | None  # keys are names, or TorchRL's nested keys


def found_axis(shape: tuple[int, ...], dtype: Any) -> int | None:
    """Return the frame axis of one or several images of bytes; None if it is uncertain.

    The frame axis is the first axis of (C, H, W) and of four-dimensional shapes, and the last axis of (H, W, C) with
    four channels or more. Three channels are more likely a single image, which takes longer to draw if its channels
    are stored separately.
    """
    if dtype != np.uint8:
        return None
    if len(shape) == 4 or (len(shape) == 3 and shape[0] == min(shape)):
        return 0
    return -1 if len(shape) == 3 and shape[2] == min(shape) and shape[2] > 3 else None


def axes_of_stacks(kinds: Mapping[str, tuple[tuple[int, ...], Any]], given: StackAxis) -> dict[str, int]:
    """Return the axis of the frames of each stack.

    Parameters
    ----------
    kinds : mapping from name to (shape, dtype)
        The observations whose frames can be stored once.
    given : int, or mapping from name to int or None, optional
        The option `stack_axis`: for the only observation, or for some observations, where None marks one that is not a
        stack. For the others, the axis is inferred.

    Raises
    ------
    TypeError, ValueError
        If an axis is not an int or not an axis of the observation, or a name is not the name of an observation.
    """
    if given is None:
        given = {}
    elif not isinstance(given, Mapping):
        one = integer("stack_axis", given)
        if len(kinds) != 1:
            raise ValueError(f"stack_axis must be a dict with an axis for each of {_names(kinds)}, got {one}")
        given = dict.fromkeys(kinds, one)
    for name in given:
        if name not in kinds:
            raise ValueError(f"stack_axis must have no keys but {_names(kinds)}, got {name!r}")
    axes = {}
    for name, (shape, dtype) in kinds.items():
        axis = _checked(given[name], shape) if name in given else found_axis(shape, dtype)
        if axis is not None:
            axes[name] = axis
    return axes


def _checked(given: Any, shape: tuple[int, ...]) -> int | None:
    if given is None:
        return None
    axis = integer("stack_axis", given)
    if not -len(shape) <= axis < len(shape):
        axes = f"from {-len(shape)} to {len(shape) - 1}"
        raise ValueError(f"stack_axis must be an axis of the shape {shape}, {axes}, got {axis}")
    return axis


def _names(kinds: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in kinds) or "the observations that can be stored once (none)"
