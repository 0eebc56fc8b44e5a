"""The attributes that users of the replaced buffers may set; here, setting one changes the ring or raises an error."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from cpprb_impl.buffers.single import ReplayBuffer as Ring
from cpprb_impl.contents.state import PIECE
from cpprb_impl.integrations.steps import ACTION, DONE, REWARD, TIMEOUT, Fields, FramedColumn, column, obs_and_next_obs
from cpprb_impl.layout.caller import warn

ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
POSITION = ("pos", "full")
NUMBERS_NDIM = 2  # of rewards, dones and timeouts, which are float32 in every buffer


class Parts(dict[str, Any]):
    """The arrays of an observation's parts, as views of the ring's memory. An assigned array is copied into them."""

    def __init__(self, name: str, parts: Mapping[str, Any]) -> None:
        super().__init__(parts)
        self._name = name

    def __setitem__(self, part: str, value: Any) -> None:
        self.update({part: value})

    def update(self, *others: Any, **parts: Any) -> None:
        """Copy arrays into the parts of the same names, or none of them if one does not fit."""
        given = dict(*others, **parts)
        if unknown := given.keys() - self.keys():
            raise KeyError(f"{self._name} must only have the parts {', '.join(self)}, got {', '.join(unknown)}")
        fitting = {part: _fitting(f"{self._name}[{part!r}]", self[part], value) for part, value in given.items()}
        for part, value in fitting.items():
            self[part][...] = value

    def __ior__(self, other: Any) -> Parts:  # type: ignore[override, misc]
        self.update(other)
        return self

    def _refuse(self, *_args: Any) -> Any:
        raise TypeError(f"{self._name} always has the parts {', '.join(self)}: arrays can only be assigned to them")

    __delitem__ = clear = pop = popitem = setdefault = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def _fill(name: str, array: Any, value: Any) -> None:
    """Copy `value` into one of the ring's arrays. Raises an exception unless all of it fits."""
    if isinstance(array, Parts):
        if not isinstance(value, Mapping) or value.keys() != array.keys():
            given = ", ".join(value) if isinstance(value, Mapping) else type(value).__name__
            raise ValueError(f"{name} must be a dict of {', '.join(array)}, got {given}")
        array.update(value)
    elif value is not array:
        array[...] = _fitting(name, array, value)


def _fitting(name: str, array: Any, value: Any) -> np.ndarray:
    """Return `value` as an array. Raises an exception unless it can replace `array`."""
    if isinstance(array, FramedColumn):
        raise AttributeError(
            f"{name} cannot be assigned, since its frames are stored once: create the buffer "
            "with optimize_memory_usage=False, or call add"
        )
    given = np.asarray(value)
    if given.shape != array.shape:
        raise ValueError(f"{name} must have the shape {array.shape}, got {given.shape}: create a buffer of that size")
    if given.dtype != array.dtype and not _fits(given, array.dtype):
        raise ValueError(f"{name} must have values that fit {array.dtype}, got {given.dtype} values that do not")
    if isinstance(value, np.memmap) and value.mode in ("r+", "w+"):
        raise ValueError(
            f"{name} must be an array in memory, got a writable memory-mapped file, which add would not write to: "
            "assign a copy, made with np.array, or open the file with mode='r'"
        )
    if array.ndim > NUMBERS_NDIM and not np.can_cast(given.dtype, array.dtype):
        warn(
            f"the dtype of {name} stays {array.dtype}: the {given.dtype} values assigned are converted to it, "
            "and so are those of later steps"
        )
    return given


def _fits(values: np.ndarray, dtype: np.dtype) -> bool:
    """Return whether values change by no more than rounding to a float."""
    if values.dtype.kind not in "biuf":
        return False
    with np.errstate(all="ignore"):
        converted = values.astype(dtype)
    if dtype.kind == "f":
        return np.array_equal(np.isfinite(converted), np.isfinite(values))
    return np.array_equal(converted, values)


def _last_written(array: np.ndarray, first: int) -> int:
    """Return the number of the last row of `array` with a nonzero byte, counted from 1; at least `first`."""
    step = max(PIECE // max(array[:1].nbytes, 1), 1)
    for end in range(len(array), first, -step):
        rows = np.ascontiguousarray(array[max(end - step, first) : end])
        data = rows.reshape(-1).view(np.uint8)
        if data.max(initial=0):
            return end - len(rows) + int(np.flatnonzero(data.reshape(len(rows), -1).max(axis=1))[-1]) + 1
    return first


class Views(dict[str, Any]):
    """`ARRAYS` as views of a ring's memory, by name.

    If the views are copied or pickled together with their ring, as they also are in subclasses that copy all of
    `__dict__`, the new views belong to the new ring, which keeps everything that was written to the arrays.
    """

    handed_out = False  # whether an array was handed out: the caller may have written rows that are not stored
    past_end: int | None = None  # the ring's head while pos is buffer_size: full is then False, as in the original

    def __init__(self, ring: Ring, fields: Fields, past_end: bool = False) -> None:
        names = (ACTION, REWARD, DONE, TIMEOUT)
        columns = *obs_and_next_obs(fields, lambda name: column(ring, name)), *(column(ring, name) for name in names)
        super().__init__(
            (name, Parts(name, values) if isinstance(values, dict) else values)
            for name, values in zip(ARRAYS, columns, strict=True)
        )
        self._ring, self._fields = ring, fields
        self.hold_end(past_end)

    def hold_end(self, past_end: bool) -> None:
        """Set whether pos is buffer_size, until the next step is added."""
        self.past_end = self._ring._get_head() if past_end else None

    def is_past_end(self) -> bool:
        """Return whether pos is buffer_size."""
        return self.past_end is not None and self.past_end == self._ring._get_head()

    def keep(self, rows: int) -> None:
        """Let copies of the ring keep the data in this many slots, whether or not their rows are stored."""
        self._ring._written = max(self._ring._written, rows)

    def _written_steps(self) -> int:
        """Return the number of the last step with a nonzero byte, since writes to an array are not reported."""
        found = 0
        for values in self.values():
            for array in values.values() if isinstance(values, Parts) else [values]:
                if not isinstance(array, FramedColumn):
                    found = max(found, _last_written(array, found))
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        if self.handed_out and self._ring.get_stored_size() < self._ring.get_buffer_size():
            self.keep(self._written_steps() * self._ring.n_envs)
        return Views, (self._ring, self._fields, self.is_past_end())


class RingArray:
    """One of `ARRAYS` as an attribute: a view of the ring's memory, into which assigned values are copied."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, buffer: StepState | None, kind: type | None = None) -> Any:
        if buffer is None:
            return self
        buffer._views.handed_out = True
        return buffer._views[self._name]

    def __set__(self, buffer: StepState, value: Any) -> None:
        if buffer._is_made():
            _fill(self._name, buffer._views[self._name], value)
            buffer._views.handed_out = True


class StepState:
    """The state of a step buffer, all of which is in the buffer's ring."""

    observations, next_observations = RingArray(), RingArray()
    actions, rewards, dones, timeouts = RingArray(), RingArray(), RingArray(), RingArray()

    buffer_size: int  # steps of each environment
    n_envs: int
    _ring: Ring
    _fields: Fields
    _views: Views
    # Attributes that cannot be changed, since the memory layout depends on them, and what to do instead.
    _fixed: ClassVar[Mapping[str, str]] = {
        "buffer_size": "create a buffer of that size, and add the steps to it",
        "n_envs": "create a buffer with that n_envs",
        "observation_space": "create a buffer for that space",
        "action_space": "create a buffer for that space",
        "obs_shape": "create a buffer for a space with the desired value",
        "action_dim": "create a buffer for a space with the desired value",
        "optimize_memory_usage": "pass it to the constructor",
    }

    # Functions that check and convert an attribute's value, given the attribute's name and the value.
    _checks: ClassVar[Mapping[str, Callable[[str, Any], Any]]] = {}

    def __copy__(self) -> StepState:
        """Return an independent copy: two buffers that shared a ring would share its position."""
        return copy.deepcopy(self)

    def _is_made(self) -> bool:
        """Return whether the ring exists. The original's constructor overwrites whatever was assigned before."""
        return "_ring" in vars(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._fixed and self._is_made() and getattr(self, name, value) != value:
            raise AttributeError(
                f"{name} cannot be changed from {getattr(self, name)!r} to {value!r}: {self._fixed[name]}"
            )
        super().__setattr__(name, self._checks[name](name, value) if name in self._checks else value)

    @property
    def pos(self) -> int:
        """The step that the next `add` writes. Unless the buffer is full, exactly the steps before `pos` are stored.

        Setting it raises TypeError or ValueError for anything but an integer from 0 to `buffer_size`, and
        AttributeError if frames are stored once.
        """
        return self.buffer_size if self._views.is_past_end() else self._ring.get_next_index() // self.n_envs

    @pos.setter
    def pos(self, step: int) -> None:
        if not self._is_made():
            return
        given = operator.index(step)
        if not 0 <= given <= self.buffer_size:
            raise ValueError(f"pos must be from 0 to {self.buffer_size}, got {given}")
        self._hold("pos", given, self.full)

    @property
    def full(self) -> bool:
        """Whether all `buffer_size` steps are stored, rather than those before `pos`. Can be set like `pos`."""
        return self._stored_steps() == self.buffer_size and not self._views.is_past_end()

    @full.setter
    def full(self, value: bool) -> None:
        if self._is_made():
            self._hold("full", self.pos, bool(value))

    def _hold(self, name: str, pos: int, full: bool) -> None:
        """Set which steps are stored: those before `pos`, or all if `full`."""
        if (pos, full) == (self.pos, self.full):
            return
        if self._has_frames():
            raise AttributeError(
                f"{name} cannot be assigned, since frames are stored once: call reset() to remove all steps, or create "
                "the buffer with optimize_memory_usage=False"
            )
        self._views.keep(self._ring.get_stored_size())
        stored = self.buffer_size if full else pos
        self._ring._hold(pos % self.buffer_size * self.n_envs, stored * self.n_envs)
        self._views.hold_end(pos == self.buffer_size and not full)

    def _has_frames(self) -> bool:
        values = self._views["observations"]
        return any(
            isinstance(each, FramedColumn) for each in (values.values() if isinstance(values, Parts) else [values])
        )

    def reset(self) -> None:
        """Remove all steps."""
        self._views.keep(self._ring.get_stored_size())
        self._ring.clear()

    def size(self) -> int:
        """Return the number of stored steps of each environment."""
        return self._stored_steps()

    def _stored_steps(self) -> int:
        return self._ring.get_stored_size() // self.n_envs

    def _set_state(self, state: Mapping[str, Any]) -> None:
        """Set the attributes. A state from an earlier version has no views, and contains the ring's state twice."""
        if "_views" not in state:
            state = {"_views": Views(state["_ring"], state["_fields"], bool(state.get("_past_end"))), **state}
        ignored = (*POSITION, *ARRAYS, "_past_end", "_handed_out")
        self.__dict__.update({name: value for name, value in state.items() if name not in ignored})


def check_attributes(kind: type, ours: type, fixed: Iterable[str]) -> None:
    """Raise TypeError if a subclass of our class replaces an attribute that is part of the ring's state."""
    for base in kind.__mro__[: kind.__mro__.index(ours)]:
        for name, value in vars(base).items():
            if name in ARRAYS or name in POSITION or (name in fixed and hasattr(value, "__set__")):
                raise TypeError(
                    f"{base.__name__} must not define {name}, which is in the memory of {ours.__name__}: override "
                    "_get_samples to change what is sampled, or add to change what is stored"
                )
