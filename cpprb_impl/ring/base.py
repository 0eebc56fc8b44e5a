"""Base class of all buffers: the native ring, cpprb's `_encode_sample`, and pickling of a subclass's attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cpprb_impl._native import Ring
from cpprb_impl.layout.fields import parse_seed
from cpprb_impl.layout.layout import Layout
from cpprb_impl.ring.hooks import FIXED, check_assigned, refuse_overridden
from cpprb_impl.ring.some_environments import chosen_rows


class BufferBase(Ring):
    """A native ring whose Python attributes are pickled with it, as for any other object.

    Attributes named in `_parts` are not pickled; the buffer's constructor creates them again.
    """

    _parts: tuple[str, ...] = ()
    _layout: Layout  # not pickled with the attributes either
    _written: int = 0  # slots before this one may contain data that copies keep, even if their rows are not stored

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED:
            check_assigned(self, name)
        super().__setattr__(name, value)

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        if isinstance(state, tuple):  # a subclass has __slots__
            return (self._attributes(state[0]), *state[1:])
        return self._attributes(state)

    def _attributes(self, values: dict[str, Any] | None) -> dict[str, Any] | None:
        return values and {name: value for name, value in values.items() if name not in ("_layout", *self._parts)}

    def _make(self, layout: Layout, seed: int | None = None, segment: str | None = None) -> None:
        """Create the native ring, or attach to the shared one named `segment`."""
        refuse_overridden(type(self))
        super().__init__(
            layout,
            seed=seed,
            segment=segment,
            description=layout.text() if "lock" in layout.options else "",
            add_through_python=not layout.options.keys().isdisjoint(("objects", "autoreset")),
            batch_through_python="objects" in layout.options or self._encodes(),
        )
        self._layout = layout

    @classmethod
    def _encodes(cls) -> bool:
        """Return whether a subclass overrides `_encode_sample`, which its samples then pass through."""
        return False

    def reseed(self, seed: int | None = None) -> None:
        """Restart this process's random numbers, as in a buffer created with this `seed`.

        `seed` is an int from 0 to 2**64 - 1, or None for a seed from the operating system. For any other value, raises
        TypeError or ValueError and changes nothing.
        """
        self._reseed(parse_seed(seed))

    def _add_some(self, env_ids: Any, **rows: Any) -> int | None:
        """Implement `add` with env_ids."""
        elements = {name: math.prod(column.shape[1:]) for name, column in self.get([]).items()} | {"priorities": 1}
        environments, chosen = chosen_rows(env_ids, rows, self.n_envs, elements)
        return self._add_of(environments, **chosen) if len(environments) else None

    def _encode_sample(self, idx: Any) -> dict[str, np.ndarray]:
        """Return the transitions at `idx` as a dict of fresh arrays (*idx.shape, *shape).

        `idx` may be anything that NumPy accepts as an index array for a ring of `get_buffer_size()` transitions: ints
        of any shape, negative ones counting from the ring's end, or a mask of bools. A single int is treated as a
        sequence of one. Raises IndexError for any other value, or if an index refers to a slot without a transition.
        """
        index = np.atleast_1d(np.asarray(idx))
        capacity = self.get_buffer_size()
        if index.dtype == bool and index.shape == (capacity,):
            index = np.flatnonzero(index)
        elif index.dtype.kind not in "iu" and index.size:
            raise IndexError(f"idx must be ints, or {capacity} bools, got {index.dtype} of shape {index.shape}")
        batch = self.get(index)
        if index.ndim == 1:
            return batch
        return {name: column.reshape(*index.shape, *column.shape[1:]) for name, column in batch.items()}

    def _exponents(self) -> tuple[float, float]:
        """Return alpha and eps of a prioritized buffer."""
        options = self._layout.options
        return options["alpha"], options["eps"]

    def _steps(self) -> Mapping[str, Any] | None:
        """Return the n-step options in JSON form; None without n-step transitions."""
        return self._layout.steps

    # Subclasses with state beyond the native ring's override these methods.

    def _own_state(self) -> dict[str, np.ndarray]:
        """Return additional state to save, as arrays by name."""
        return {}

    def _read_own_state(self, state: dict[str, np.ndarray]) -> dict[str, Any]:
        """Return the attributes for what `_own_state` returned; raises ValueError if `state` is invalid."""
        return {}
