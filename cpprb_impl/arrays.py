"""Convert a caller's numbers to an array."""

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
