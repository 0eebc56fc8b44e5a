"""Convert a caller's values to arrays."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np


def array_of(name: str, value: Any) -> np.ndarray:
    """Return `value` as an array, which may share memory with `value`.

    PyTorch tensors may require gradients, or be on a GPU. A tensor with a dtype that NumPy lacks, such as bfloat16,
    becomes a float64 array. Raises TypeError or ValueError, naming `name`, if `value` cannot be converted, or is
    masked.
    """
    if isinstance(value, np.ma.MaskedArray) and np.any(value.mask):
        raise ValueError(f"{name} must not be masked, got {value!r}")
    try:
        if not hasattr(value, "detach"):
            return np.asarray(value)
        tensor = value.detach().cpu()
        with contextlib.suppress(TypeError):
            return np.asarray(tensor)
        return np.asarray(tensor.double())
    except (TypeError, ValueError, RuntimeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {error}") from None


def members_of(value: Any, dtype: np.dtype) -> list[tuple[Any, np.dtype, int]]:
    """Return each member's values, dtype and dtype size, for structs that are to be converted to `dtype`.

    NumPy assigns members by position. A value that is not a struct is treated as a struct of objects, which changes
    nothing.
    """
    names = dtype.names or ()
    if not isinstance(value, np.ndarray | np.void) or value.dtype.names is None:
        value = np.array(value, [(name, object, dtype[name].shape) for name in names])
    kinds = [dtype[name].base for name in names]
    return [(value[given], kind, kind.itemsize) for given, kind in zip(value.dtype.names, kinds, strict=False)]
