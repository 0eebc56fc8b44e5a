"""What one key of a transition looks like."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """Shape and dtype of one key of a transition. A scalar has shape ()."""

    shape: tuple[int, ...]
    dtype: str
