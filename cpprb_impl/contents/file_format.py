"""Read and write a buffer's file in version 1 of this library's format, and read cpprb's files.

A file is an archive of arrays (npz.py). Its members, in this order:

column_0, column_1, ...
    For each field, the transitions' values, oldest first, (rows, *shape). A dtype that .npy cannot name is kept as
    raw bytes. For fields of `next_of` and `stack_compress`, the column instead holds the frames that the values share,
    (frames, *frame_shape), and column_0_first_0, column_0_first_1, ... hold the number of each value's first frame,
    int64 (rows,). There is one such member for each field that uses these frames.
leaves
    For prioritized buffers: (priority + eps)^alpha, float32 (rows,).
links
    For buffers with `sequences`: uint32 (rows, 2). The first number says how many transitions back the previous one of
    the same stream is (0 if there is none; if it is not in the file, more than there are transitions before this one),
    plus 2^31 if the step is the first of an episode, plus 2^30 if it is the last. The second is the number of the step,
    counted from 1, in its episode or, if sequences may cross the ends of episodes, in its stream.
errors
    For buffers whose `sequences` have overlap "all": the magnitude of each transition's error, float32 (rows,).
own_0, own_1, ...
    Additional state of the buffer's class, such as pending n-step transitions, the samples that `check_for_update`
    remembers, and the newest transition of each stream.
about.json
    "format", "version", "rows"; "columns": for each column its "names", "kind" ("rows" or "frames"), "dtype" and, for
    frames, "stack" (how many frames form a value; null if each frame is a value) and "axis" (the value's axis along
    which they lie, if not the last one); "Nstep" (null if not used); "options": "size", and "alpha" and "eps" if
    there are priorities; "position": "next_index", "episode_len", "unseen" (rows written since the last sample),
    "random" (the generator's state) and "max_priority";
    "own": the names of the own_* members; and the "checksum" over all members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np

from cpprb_impl._native import PrioritizedRing
from cpprb_impl.archive.json_object import JsonObject
from cpprb_impl.archive.npz import ABOUT, ArrayReader, ArrayWriter, StoredArray
from cpprb_impl.contents import links as links_of
from cpprb_impl.contents.columns import fitting, plain, read_columns, write_columns
from cpprb_impl.contents.held import CHANGED, NUMBERS, HeldSlots, Numbers
from cpprb_impl.contents.state import (
    Columns,
    kinds_of,
    position_of,
    row_bytes,
)
from cpprb_impl.ring.base import BufferBase
from cpprb_impl.ring.nstep import fitting_steps

FORMAT, VERSION = "cpprb_impl transitions", 1
LINK, ERROR = np.dtype(np.uint32), np.dtype(np.float32)
WAITING = "waiting "  # prefix of the name of a column of pending steps
# Further state whose size depends on the buffer: the array's name in the file -> its name in `position_of`
MORE = {"remembered samples": "samples", "newest of each stream": "streams"}


@dataclass
class Contents:
    """The contents of a file, checked against the buffer that reads it. The file must stay open."""

    columns: Columns  # oldest first
    rows: int
    leaves: Numbers | None = None  # (priority + eps)^alpha with the buffer's own alpha and eps
    max_priority: float | None = None
    links: Numbers | None = None  # if this buffer has `sequences`
    errors: Numbers | None = None  # if errors change all sequences of this buffer that contain their steps
    of_sequences: bool = False  # whether the leaves are those of sequences: 0 where no sequence ended
    # The saved buffer's state, and its class's attributes; None if this buffer cannot adopt them.
    position: dict[str, Any] | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    pending: dict[str, np.ndarray] = field(default_factory=dict)  # the saved buffer's pending steps


def write(buffer: BufferBase, stream: IO[bytes]) -> None:
    """Write the buffer's file. Raises ValueError for Python objects, RuntimeError if the buffer changes meanwhile."""
    kinds = kinds_of(buffer)
    for name, (dtype, _) in kinds.items():
        if dtype.hasobject:
            raise ValueError(
                f"{name}: Python objects cannot be saved, because loading them would mean trusting a pickle"
            )
    with ArrayWriter(stream) as writer:
        with _unchanged(buffer):
            slots, position = HeldSlots(buffer), position_of(buffer)
            if "streams" in position:
                position["streams"] = links_of.streams(buffer, position["streams"], slots)
            own = {f"{WAITING}{name}": column for name, column in buffer._get_pending().items()} | buffer._own_state()
            own |= {name: array for name, key in MORE.items() if len(array := position.pop(key, ()))}
            columns = write_columns(writer, buffer, slots, kinds)
            if isinstance(buffer, PrioritizedRing):
                pieces = map(buffer._get_leaves, slots.pieces(NUMBERS))
                writer.write("leaves", np.dtype(np.float32), (len(slots),), pieces)
            if _has_sequences(buffer):
                writer.write("links", LINK, (len(slots), 2), links_of.pieces(buffer, slots))
            if buffer._get_errors(0, 0) is not None:
                writer.write("errors", ERROR, (len(slots),), _pieces(buffer._get_errors, len(slots)))
            for number, array in enumerate(own.values()):
                writer.write(f"own_{number}", plain(array.dtype), array.shape, [array])
            slots.check()
        writer.finish(
            {
                "format": FORMAT,
                "version": VERSION,
                "rows": len(slots),
                "columns": columns,
                "Nstep": buffer._steps(),
                "options": _options(buffer),
                "position": {**position, "random": list(position["random"])},
                "own": list(own),
            }
        )


def _pieces(get: Callable[[int, int], np.ndarray | None], rows: int) -> Iterator[np.ndarray]:
    for at in range(0, rows, NUMBERS):
        piece = get(at, min(at + NUMBERS, rows))
        assert piece is not None
        yield piece


@contextmanager
def _unchanged(buffer: BufferBase) -> Iterator[None]:
    """Raise RuntimeError if rows are added during the block."""
    head = buffer._get_head()
    try:
        yield
    except IndexError:  # a row that was stored is being overwritten
        if buffer._get_head() == head:
            raise
    if buffer._get_head() != head:
        raise RuntimeError(CHANGED)


def read(buffer: BufferBase, stream: IO[bytes]) -> Contents:
    """Return the contents of the file in `stream` for `buffer`, which is not changed. Raises ValueError if invalid."""
    reader = ArrayReader(stream)
    return _read_own(buffer, reader) if ABOUT in reader.members else _read_cpprb(buffer, reader)


def _read_own(buffer: BufferBase, reader: ArrayReader) -> Contents:
    about = reader.read_about()
    if about.get("format") != FORMAT:
        raise ValueError(f"the file must be of the format {FORMAT!r}")
    if about.get("version") != VERSION:
        raise ValueError(f"the file must have format version {VERSION}, got version {str(about.get('version'))[:20]}")
    header = JsonObject(about, ABOUT)
    rows, options, position = header.integer("rows"), header.object("options"), header.object("position")
    columns, dtypes = read_columns(reader, header.objects("columns"), rows)
    leaves = reader.scan("leaves") if "max_priority" in position else None
    links, errors = (reader.scan(name) if f"{name}.npy" in reader.members else None for name in ("links", "errors"))
    own = {name: reader.read(f"own_{number}") for number, name in enumerate(header.strings("own"))}
    reader.check(about)

    contents = Contents(fitting(columns, rows, dtypes, kinds_of(buffer)), rows, of_sequences=links is not None)
    if about.get("Nstep") != buffer._steps():
        raise ValueError(f"Nstep is {str(about.get('Nstep'))[:200]} in the file, but {buffer._steps()} in the buffer")
    more = {key: own.pop(name, np.empty(0, np.int64)) for name, key in MORE.items()}
    state: dict[str, Any] = {
        "next_index": position.integer("next_index", most=options.integer("size", least=max(rows, 1)) - 1),
        "episode_len": position.integer("episode_len"),
        "unseen": position.integer("unseen"),
        "random": position.integers("random", 4, 2**64 - 1),
        **more,
    }
    for name, key in MORE.items():
        if more[key].dtype != np.int64 or more[key].ndim != 1:
            raise ValueError(f"{name} must be int64 (n,), got {more[key].dtype} of shape {more[key].shape}")
    if not _has_sequences(buffer):
        del state["streams"]
    else:
        contents.links = _fitting_links(links, rows)
    if errors is not None:
        _check_numbers("errors", errors, rows)
    if not any(state["random"]):
        raise ValueError(f"{ABOUT}: 'random' must not be all zeros")
    if leaves is not None:
        state["max_priority"] = position.number("max_priority")
        exponents = options.number("alpha"), options.number("eps")
        _check_numbers("leaves", leaves, rows)
        if isinstance(buffer, PrioritizedRing):
            contents.leaves = _converted(leaves, exponents, buffer._exponents(), keep_zeros=contents.of_sequences)
            contents.max_priority = state["max_priority"]
            _powers(np.array([contents.max_priority]), *buffer._exponents())
            if buffer._get_errors(0, 0) is not None:  # another buffer's file does not say which error each step had
                contents.errors = np.broadcast_to(ERROR.type(contents.max_priority), rows) if errors is None else errors
    if about["options"] == _options(buffer):
        streams = state.get("streams")
        if streams is not None and (len(streams) != buffer.n_envs or (streams < 0).any()):
            raise ValueError(f"newest of each stream must be {buffer.n_envs} numbers from 0 on")
        contents.position, contents.attributes = state, buffer._read_own_state(own)
        contents.pending = _read_pending(buffer, own)
    return contents


def _read_pending(buffer: BufferBase, own: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    steps = {name.removeprefix(WAITING): column for name, column in own.items() if name.startswith(WAITING)}
    pending = fitting_steps(steps, buffer._get_pending(), buffer._steps())
    if pending and isinstance(buffer, PrioritizedRing):
        given = pending["priorities"][~np.isnan(pending["priorities"])]
        if not (np.isfinite(given) & (given >= 0)).all():
            raise ValueError("priorities must be finite and not negative")
        _powers(given, *buffer._exponents())
    return pending


def _read_cpprb(buffer: BufferBase, reader: ArrayReader) -> Contents:
    from cpprb_impl.contents import from_cpprb  # imported late: few programs have such files

    kinds = kinds_of(buffer)
    # The largest size of a member. A cache repeats each value and adds a header to it.
    a_row = 4 * row_bytes(kinds) + 1024 * (1 + len(kinds))
    most = (1 << 20) + buffer.get_buffer_size() * a_row
    columns, rows, nstep = from_cpprb.read(reader, kinds.keys(), most)
    if nstep != buffer.is_Nstep():
        raise ValueError(f"Nstep: the file's transitions {'are' if nstep else 'are not'} n-step, unlike the buffer's")
    links = _fitting_links(None, rows) if _has_sequences(buffer) else None
    return Contents(fitting(columns, rows, {}, kinds), rows, links=links)


def _options(buffer: BufferBase) -> dict[str, Any]:
    """Return the options that must be equal for a buffer to continue exactly from another buffer's state."""
    options: dict[str, Any] = {"size": buffer.get_buffer_size()}
    if isinstance(buffer, PrioritizedRing):
        options["alpha"], options["eps"] = buffer._exponents()
    if _has_sequences(buffer):
        options["sequences"], options["n_envs"] = buffer._layout.options["sequences"], buffer.n_envs
    return options


def _has_sequences(buffer: BufferBase) -> bool:
    return "sequences" in buffer._layout.options


def _check_numbers(name: str, numbers: StoredArray, rows: int) -> None:
    if numbers.dtype != np.float32 or numbers.shape != (rows,):
        raise ValueError(f"{name} must be float32 of shape {(rows,)}, got {numbers.dtype} of shape {numbers.shape}")
    for at in range(0, rows, NUMBERS):
        some = numbers[at : at + NUMBERS]
        bad = np.flatnonzero(~(np.isfinite(some) & (some >= 0)))
        if bad.size:
            raise ValueError(f"{name}[{at + bad[0]}] must be finite and not negative, got {some[bad[0]]}")


def _fitting_links(links: StoredArray | None, rows: int) -> StoredArray:
    if links is None:
        raise ValueError("the file must have links between its transitions, as a buffer with sequences writes them")
    if links.dtype != LINK or links.shape != (rows, 2):
        raise ValueError(f"links must be uint32 of shape {(rows, 2)}, got {links.dtype} of shape {links.shape}")
    return links


def _powers(priorities: np.ndarray, alpha: float, eps: float) -> np.ndarray:
    """Return (priority + eps)^alpha as the native ring computes it, float32."""
    with np.errstate(over="ignore"):
        powers = (priorities + eps).astype(np.float32) ** np.float32(alpha)
    if not np.isfinite(powers).all():
        raise ValueError("the file's priorities are too large for the buffer's alpha and eps")
    return powers


@dataclass
class _ConvertedLeaves:
    """Leaves converted from the saved alpha and eps to different values."""

    leaves: StoredArray
    given: tuple[float, float]
    wanted: tuple[float, float]
    keep_zeros: bool

    def __getitem__(self, rows: slice, /) -> np.ndarray:
        alpha, eps = self.given
        leaves = self.leaves[rows]
        with np.errstate(over="ignore"):
            priorities = leaves.astype(np.float64) ** (1 / alpha) - eps
        converted = _powers(np.maximum(priorities, 0), *self.wanted)
        return np.where(leaves > 0, converted, np.float32(0)) if self.keep_zeros else converted


def _converted(
    leaves: StoredArray, given: tuple[float, float], wanted: tuple[float, float], *, keep_zeros: bool
) -> Numbers | None:
    """Return the leaves for different exponents; None if the priorities cannot be recovered because alpha was 0."""
    if given == wanted:
        return leaves
    if given[0] == 0:
        return None
    converted = _ConvertedLeaves(leaves, given, wanted, keep_zeros)
    for at in range(0, len(leaves), NUMBERS):
        converted[at : at + NUMBERS]  # raises if they are too large
    return converted
