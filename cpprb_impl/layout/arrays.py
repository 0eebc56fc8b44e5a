"""Convert a caller's values to arrays."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np


def array_of(name: str, value: Any) -> np.ndarray:
    """Return `value` as an array, which may share its memory.

    PyTorch's tensors may need gradients, or be on a GPU. One of a dtype that NumPy lacks, such as bfloat16, becomes an
    array of float64. Raises TypeError or ValueError, naming `value` by `name`, if it cannot be an array, or is masked.
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
    """Return the values, the dtype and its size of each member of structs that are to be converted to `dtype`.

    NumPy assigns members by position. Those of anything that is no struct are objects, which change nothing.
    """
    names = dtype.names or ()
    if not isinstance(value, np.ndarray | np.void) or value.dtype.names is None:
        value = np.array(value, [(name, object, dtype[name].shape) for name in names])
    kinds = [dtype[name].base for name in names]
    return [(value[given], kind, kind.itemsize) for given, kind in zip(value.dtype.names, kinds, strict=False)]
