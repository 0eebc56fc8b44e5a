"""Convert a buffer's contents to plain arrays and numbers and back, for copies and files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cpprb_impl._native import PrioritizedRing, Ring
from cpprb_impl.contents.held import NUMBERS, HeldSlots, Numbers
from cpprb_impl.contents.links import SharedLinks, set_links
from cpprb_impl.layout.layout import Layout
from cpprb_impl.layout.options import OPTIONS, stored
from cpprb_impl.ring.autoreset import Autoreset
from cpprb_impl.ring.base import BufferBase
from cpprb_impl.ring.object_transform import ObjectTransform

if TYPE_CHECKING:
    from cpprb_impl.archive.npz import StoredArray

PIECE = 1 << 21  # bytes of transitions that are gathered or expanded at a time


Stored: TypeAlias = "np.ndarray | StoredArray"


class Frames:
    """A column whose values share frames, as stored with `next_of` and `stack_compress`.

    Value n consists of `stack` frames, first[n], first[n] + 1, ..., along its axis `axis`, or of the single frame
    first[n] if `stack` is None. Slicing returns an array.
    """

    def __init__(self, frames: Stored, first: Stored, stack: int | None, axis: int = -1) -> None:
        self.frames, self.first, self.stack, self.axis = frames, first, stack, axis
        self.dtype = frames.dtype
        shape = list(frames.shape[1:])
        if stack is not None:
            shape.insert(axis % len(frames.shape), stack)
        self.shape: tuple[int, ...] = (len(first), *shape)

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, rows: slice) -> np.ndarray:
        first = self.first[rows]
        if self.stack is None:
            values: np.ndarray = self.frames[first]
            return values
        stacks = self.frames[first[:, None] + np.arange(self.stack)]
        return np.ascontiguousarray(np.moveaxis(stacks, 1, 1 + self.axis % len(self.frames.shape)))

    def view(self, dtype: np.dtype) -> Frames:
        """Return the same frames with their bytes interpreted as elements of `dtype`."""
        return Frames(self.frames.view(dtype), self.first, self.stack, self.axis)


Columns: TypeAlias = "Mapping[str, Stored | Frames]"
Kinds = dict[str, tuple[np.dtype, tuple[int, ...]]]


def kinds_of(buffer: Ring) -> Kinds:
    """Return the dtype and shape of each column of a transition."""
    return {name: (column.dtype, column.shape[1:]) for name, column in buffer.get([]).items()}


def rows_per_piece(kinds: Kinds) -> int:
    """Return the number of transitions that take about `PIECE` bytes, at least 1."""
    return max(1, PIECE // max(1, row_bytes(kinds)))


def row_bytes(kinds: Kinds) -> int:
    """Return the number of bytes of one transition."""
    return sum(dtype.itemsize * math.prod(shape) for dtype, shape in kinds.values())


def add_columns(buffer: Ring, columns: Columns, first: int, rows: int, links: SharedLinks | None = None) -> None:
    """Add the transitions first, first + 1, ..., rows - 1 of `columns`, with their links in a shared buffer.

    Raises RuntimeError if another process added transitions meanwhile.
    """
    head = buffer._get_head()
    step = rows_per_piece(kinds_of(buffer))
    step += -step % buffer.n_envs
    for at in range(first, rows, step):
        some = slice(at, min(at + step, rows))
        piece = {name: column[some] for name, column in columns.items()}
        if links is None:
            buffer._add_rows(**piece)
        else:
            buffer._add_linked(head + at - first, links[some], **piece)
    if buffer._get_head() != head + rows - first:
        raise RuntimeError("another process added transitions while these were being loaded")


def add_linked(
    buffer: BufferBase, columns: Columns, links: Numbers | None, first: int, end: int, *, is_empty: bool
) -> None:
    """Add the transitions first, first + 1, ..., end - 1 of a file, and link them unless `links` is None.

    `is_empty` says whether the buffer stores nothing else.
    """
    if links is not None and buffer.segment:  # a shared transition must not change once it is stored
        add_columns(buffer, columns, first, end, SharedLinks(buffer, links, first, end, is_empty=is_empty))
        return
    add_columns(buffer, columns, first, end)
    if links is not None:
        set_links(buffer, links, first, end)


def add_pending(buffer: Ring, steps: Mapping[str, np.ndarray]) -> None:
    """Restore the pending `steps`, as returned by `Ring._get_pending`, in a buffer that has none."""
    environments = steps.get("env_ids")
    rows = buffer.n_envs if environments is None else 1
    for at in range(0, len(steps["done"]) if steps else 0, rows):
        step = {name: column[at : at + rows] for name, column in steps.items() if name != "env_ids"}
        if isinstance(buffer, PrioritizedRing) and np.isnan(step["priorities"]).all():
            del step["priorities"]
        if environments is None:
            Ring.add(buffer, **step)
        else:
            buffer._add_of(environments[at : at + 1], **step)


def set_errors(buffer: Ring, errors: Numbers, first: int, end: int) -> None:
    """Set the errors of the newest transitions of a buffer to errors[first], ..., errors[end - 1]."""
    before = buffer.get_stored_size() - end
    for at in range(first, end, NUMBERS):
        buffer._set_errors(before + at, errors[at : min(at + NUMBERS, end)])


def set_leaves(buffer: Ring, leaves: Numbers, first: int, end: int, *, only_positive: bool = False) -> None:
    """Set the leaves of the newest rows of a prioritized buffer to leaves[first], ..., leaves[end - 1].

    With `only_positive`, rows for which these are 0 keep their leaves.
    """
    slots = HeldSlots(buffer)
    before = len(slots) - end
    for at in range(first, end, NUMBERS):
        until = min(at + NUMBERS, end)
        some, those = leaves[at:until], slots[before + at : before + until]
        if only_positive:
            some, those = some[some > 0], those[some > 0]
        buffer._set_leaves(those, some)


def position_of(buffer: Ring) -> dict[str, Any]:
    """Return the buffer's state apart from its transitions: numbers, and the arrays "samples" and "streams"."""
    position = {
        "next_index": buffer.get_next_index(),
        "episode_len": buffer.get_current_episode_len(),
        "random": buffer._get_random(),
        "unseen": min(buffer._get_unseen(), buffer.get_stored_size()),
    }
    if (streams := buffer._get_streams()) is not None:
        position["streams"] = streams
    if isinstance(buffer, PrioritizedRing):
        position["max_priority"] = buffer.get_max_priority()
        position["samples"] = buffer._get_samples()
    return position


def restore(
    buffer: BufferBase,
    position: dict[str, Any],
    columns: Columns,
    rows: int,
    leaves: Numbers | None,
    pending: Mapping[str, np.ndarray],
    links: Numbers | None = None,
    errors: Numbers | None = None,
) -> None:
    """Fill an empty buffer with the `rows` transitions in `columns`, oldest first, and set the state `position`.

    `pending` are the steps of incomplete n-step transitions.

    The arguments must have been checked: a call that fails leaves the buffer partially restored.
    """
    first = (position["next_index"] - rows) % buffer.get_buffer_size()
    if not buffer.segment:
        buffer._begin_at(first)
    elif rows == buffer.get_buffer_size():
        # A shared ring begins at slot 0: fill the slots before `first` with the newest transitions, which belong there.
        add_columns(buffer, columns, rows - first, rows)
    add_linked(buffer, columns, links, 0, rows, is_empty=True)
    if leaves is not None:
        set_leaves(buffer, leaves, 0, rows)
    if errors is not None:
        set_errors(buffer, errors, 0, rows)
    set_position(buffer, position, pending)


def set_position(buffer: Ring, position: dict[str, Any], pending: Mapping[str, np.ndarray]) -> None:
    """Restore the state that `position_of` returned, and pending steps, in a buffer whose rows are restored."""
    if isinstance(buffer, PrioritizedRing) and "max_priority" in position:
        buffer._set_max_priority(position["max_priority"])
    buffer._set_unseen(position["unseen"])
    buffer._set_samples(position.get("samples", ()))  # missing in old pickles and files
    if "streams" in position:
        buffer._set_streams(position["streams"])
    buffer._set_episode_len(position["episode_len"])
    buffer._set_random(position["random"])
    add_pending(buffer, pending)


def layout_of(kind: type, recipe: Layout | tuple[Any, ...], parts: Mapping[str, Any]) -> Layout:
    """Return the layout in a pickle. In version 0.1's pickles, it is a tuple: capacity, fields and native options."""
    if isinstance(recipe, Layout):
        return recipe
    capacity, fields, given = recipe
    options = stored({name: given[name] for name in OPTIONS if name in given})
    if given.get("compressed"):
        options["compress"] = "lz4"
    if parts.get("_autoreset") is not None:
        options["autoreset"] = "next_step"
    if (objects := parts.get("_objects")) is not None:
        options["objects"] = list(objects.names)
    window = parts.get("_window")
    nstep = given.get("nstep") if window is None else window.options
    return Layout(capacity, fields, options, issubclass(kind, PrioritizedRing), nstep)


def attributes_of(parts: dict[str, Any], layout: Layout) -> dict[str, Any]:
    """Return a copy's attributes. In version 0.1's pickles, a transform's attributes are the buffer's own."""
    if "_transform" in parts or not parts:
        return parts
    if (columns := parts.get("_objects")) is None:
        return {"_transform": Autoreset(layout).at({"over": parts["_autoreset"].over})}
    window = parts.get("_window")
    reader = parts["_read"] if window is None else window.reader
    return {"_transform": ObjectTransform(columns, reader, window, parts["_order"])}


def _revive(kind: Any, recipe: tuple[Any, ...], held: tuple[Any, ...], parts: dict[str, Any]) -> Any:
    """Return a buffer from a pickle that was written before buffers were pickled in pieces."""
    buffer = kind.__new__(kind)
    layout = layout_of(kind, recipe, parts)
    buffer._make(layout)
    vars(buffer).update(attributes_of(parts, layout))
    restore(buffer, *held)
    buffer._reseed(None)  # the pickle does not say whether it was written by this process
    return buffer
