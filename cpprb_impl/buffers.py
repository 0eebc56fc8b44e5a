"""Buffers of one process: the thin Python face of the native rings.

`add`, `sample`, `update_priorities` and the sizes are the native methods themselves: a Python
function around them would cost more than they do. Only with `Nstep`, or with fields of Python objects,
do `add` and what is sampled go through Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cpprb_impl._native import PrioritizedRing, Ring
from cpprb_impl.fields import native_fields, next_fields, whole_size
from cpprb_impl.nstep import NstepWindow
from cpprb_impl.objects import ObjectColumns, object_shapes, without_objects
from cpprb_impl.row_reader import RowReader

EnvDict = Mapping[str, Mapping[str, Any]]


UNBUILT = ("next_of", "stack_compress", "mmap_prefix")


def check_options(buffer: Ring, options: Mapping[str, Any]) -> None:
    """Refuse what `buffer` would have to ignore: cpprb's options that it has not, and typing errors."""
    for name, value in options.items():
        if name not in UNBUILT and name != "Nstep":
            raise TypeError(f"{type(buffer).__name__} has no option {name!r}")
        if value:
            reason = "is for buffers of one process" if name == "Nstep" else "is not built yet"
            raise NotImplementedError(f"{type(buffer).__name__}: {name} {reason}")


def check_exponent(name: str, value: float) -> float:
    if not (np.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be finite and not negative, but is {value!r}")
    return float(value)


class ReplayBuffer(Ring):
    """Ring of transitions, sampled uniformly with replacement.

    Parameters
    ----------
    size : int
        Capacity in transitions; a float is cut. The oldest transition is overwritten when full.
    env_dict : dict of dict
        For each field of a transition its "shape" (int or sequence, default 1) and "dtype". With dtype object any
        Python objects are kept, by reference, until they are overwritten: slower, and not in shared buffers.
    default_dtype : numpy dtype, optional
        For fields without one. Default float32.
    Nstep : dict, optional
        Store n-step transitions: "size" is N; "rew" names the rewards to sum and "next" the fields to take from the
        last of the N steps (str or sequence of str); "gamma" is the discount (0.99). Needs the field "done". `add`
        then returns None until a transition is complete, and `on_episode_end` completes those that wait: call it
        whenever an episode ends. `NstepWindow` says which steps a transition is made of.
    seed : int, optional
        Makes sampling reproducible. Default: from the system, and anew in every forked child.

    Raises
    ------
    TypeError, OverflowError, ValueError, KeyError
        For a size, a field or an option that can't be.
    MemoryError
        When the system refuses the address space.
    """

    _read: RowReader | None = None
    _window: NstepWindow | None = None
    _objects: ObjectColumns | None = None

    def __init__(
        self,
        size: int,
        env_dict: EnvDict | None = None,
        *,
        default_dtype: Any = None,
        Nstep: Mapping[str, Any] | None = None,  # noqa: N803 - cpprb's own name
        seed: int | None = None,
        **options: Any,
    ) -> None:
        native = self._prepare(size, env_dict, default_dtype, Nstep, options)
        super().__init__(**native, seed=seed)

    def _prepare(
        self,
        size: Any,
        env_dict: EnvDict | None,
        default_dtype: Any,
        nstep: Mapping[str, Any] | None,
        options: dict[str, Any],
        prioritized: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Check the options and make what stands before the ring; returns arguments for the ring's constructor."""
        capacity, fields = whole_size(size), native_fields(env_dict, default_dtype)
        has_objects = bool(object_shapes(fields))
        if nstep or has_objects:
            # The next_* of an n-step transition lies N rows on, or at an episode's end, and objects are not shared by
            # rows: it is a field of its own.
            fields += next_fields(fields, options.pop("next_of", None))
        native = without_objects(fields)
        if nstep:
            self._window = NstepWindow(nstep, fields, prioritized)
        if has_objects:
            self._read = RowReader(fields, prioritized)
            self._objects = ObjectColumns(fields, capacity)
        check_options(self, options)
        through = {"add_through_python": bool(nstep) or has_objects, "batch_through_python": has_objects}
        return {"capacity": capacity, "fields": native, **through}

    def _add_through(self, **rows: Any) -> int | None:
        if self._window is not None:
            return self._window.push(rows, self._add_read)
        return self._add_read(**self._read(rows))

    def _add_read(self, **rows: np.ndarray) -> int:
        """Store rows that a `RowReader` has read."""
        return self._add_rows(**rows) if self._objects is None else self._objects.add(rows, self._add_rows)

    def _batch_through(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self._objects.fill(batch)

    def on_episode_end(self) -> None:
        """The next `add` begins an episode; n-step transitions that wait are completed with the steps there are."""
        if self._window is not None:
            self._window.flush(self._add_read)
        super().on_episode_end()

    def clear(self) -> None:
        """Forget every transition, those that wait for further steps included."""
        super().clear()
        for part in (self._window, self._objects):
            if part is not None:
                part.clear()

    def is_Nstep(self) -> bool:  # noqa: N802 - cpprb's own name
        """Whether N-step transitions are stored."""
        return self._window is not None

    def _encode_sample(self, idx: Any) -> dict[str, np.ndarray]:
        """The transitions at `idx` (sequence of ints, or int for one) as a dict of fresh arrays (len(idx), *shape).

        Raises IndexError where nothing is stored.
        """
        return self._gather(np.atleast_1d(idx))


class PrioritizedReplayBuffer(PrioritizedRing, ReplayBuffer):
    """Proportional prioritized replay (Schaul et al. 2015).

    Transition i is drawn with P(i) = (p_i + eps)^alpha / sum; `sample` adds importance weights and
    indexes, which `update_priorities` takes back. `add(priorities=...)` gives new transitions their
    priorities, (rows,); without it they get the largest seen.

    Parameters
    ----------
    size, env_dict, default_dtype, Nstep, seed
        As for `ReplayBuffer`. An n-step transition gets the priority that its first step was added with.
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
        Nstep: Mapping[str, Any] | None = None,  # noqa: N803 - cpprb's own name
        seed: int | None = None,
        **options: Any,
    ) -> None:
        exponents = {"alpha": check_exponent("alpha", alpha), "eps": check_exponent("eps", eps)}
        native = self._prepare(size, env_dict, default_dtype, Nstep, options, exponents)
        PrioritizedRing.__init__(self, **native, **exponents, check_for_update=check_for_update, seed=seed)

    def _add_read(self, **rows: np.ndarray) -> int:
        given = rows["priorities"]
        rows["priorities"] = np.where(np.isnan(given), self.get_max_priority(), given)
        return super()._add_read(**rows)


def create_buffer(
    size: int, env_dict: EnvDict | None = None, *, prioritized: bool = False, **options: Any
) -> ReplayBuffer:
    """A `PrioritizedReplayBuffer` if `prioritized`, else a `ReplayBuffer`."""
    return (PrioritizedReplayBuffer if prioritized else ReplayBuffer)(size, env_dict, **options)
