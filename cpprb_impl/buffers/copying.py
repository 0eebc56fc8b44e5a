"""Copies and pickles of single-process buffers."""

from __future__ import annotations

import copy
from typing import Any

from cpprb_impl.contents.pieces import Filling, PickledRows
from cpprb_impl.ring.base import BufferBase
from cpprb_impl.ring.own_random import this_task


class CopyableBuffer(BufferBase):
    """A buffer that can be copied, deep-copied and pickled.

    A copy holds the same transitions in the same slots with the same priorities, and is independent of the original. It
    draws the random numbers that the original would draw next; but in a different process or Ray task, its generator is
    seeded by the operating system, so that workers do not draw the same batches. `__init__` is not called for a copy.
    Attributes are copied, using `__getstate__` and `__setstate__` if a subclass defines them, and every copy has its
    own `_parts`.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        if "mmap_prefix" in self._layout.options:
            raise TypeError(
                "a buffer with mmap_prefix cannot be copied, since its data is in files; use save_transitions"
            )
        # Copy the attributes, whatever their type, because the copy must not share their contents.
        parts = {name: copy.copy(getattr(self, name)) for name in self._parts if name in vars(self)}
        return _finished, (PickledRows(self, self._layout, parts), this_task()), self.__getstate__()


def _finished(source: Filling | PickledRows, task: tuple[str, int, str | None]) -> BufferBase:
    """Return a copy of a buffer; `source` is either the filled copy or the original's rows, which are copied here."""
    filling = source if isinstance(source, Filling) else source.copied(source.parts())
    buffer = filling.finish()
    if task != this_task():
        buffer._reseed(None)  # not `reseed`, since an override may need attributes that are not set yet
    return buffer
