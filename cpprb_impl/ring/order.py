"""The order of rows: buffers warn if rows of several environments are added as if they came from one."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from cpprb_impl._native import Ring
from cpprb_impl.layout.fields import NativeField
from cpprb_impl.layout.layout import Layout
from cpprb_impl.layout.sequences import ENDS

Kind = tuple[np.dtype, tuple[int, ...]]

REMEDY = (
    "Pass n_envs, or env_ids to add(), if steps of several environments are added in turn, and call on_episode_end() "
    "after each episode"
)
# The option that relies on the order of rows, and the harm if the rows are not in order.
NSTEP = ("Nstep", f"returns would mix several environments or episodes. {REMEDY}")
SEQUENCES = ("sequences", f"sequences would mix several environments or episodes. {REMEDY}")
ONCE = f"frames and values would be stored more than once. {REMEDY}"
HINDSIGHT = (
    "HindsightReplayBuffer",
    "goals would mix several environments or episodes. Create a buffer for each environment, and call on_episode_end() "
    "after each episode",
)
NOTHING = ("", "")


def end_fields(fields: Sequence[NativeField], steps: Mapping[str, Any] | None) -> list[str]:
    """Return the fields that mark the last step of an episode; `steps` are the options of `Nstep`, if any."""
    known = {*ENDS, *((steps or {}).get("truncated", ()))}
    return [name for name, _, _ in fields if name in known]


def harm_of(
    steps: Mapping[str, Any] | None,
    following: Collection[str],
    stacked: Collection[str],
    sequences: Mapping[str, Any] | None = None,
) -> tuple[str, str]:
    """Return the option that relies on the order of rows, and the harm of a wrong order; empty if there is none."""
    if steps:
        return NSTEP
    if sequences:
        return SEQUENCES
    return ("next_of", ONCE) if following else ("stack_compress", ONCE) if stacked else NOTHING


def watch_order(
    ring: Ring,
    fields: Sequence[NativeField],
    steps: Mapping[str, Any] | None,
    harm: tuple[str, str],
    *,
    starts: bool,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> None:
    """Have `ring` check its first rows, and warn once if no row begins where the previous one ended.

    Parameters
    ----------
    fields : sequence of (name, dtype, shape)
        The fields that `add` takes.
    steps : mapping, optional
        The options of `Nstep`, as returned by `read_options`.
    harm : tuple of str
        As returned by `harm_of`. If it is empty, the order does not matter.
    starts : bool
        Whether to warn if each episode begins where the previous one ended: for rows of vector environments.
    pairs : sequence of (str, str), optional
        The fields with which a row begins and ends. Default: every x with a next_x of the same kind. Object fields are
        excluded.
    """
    kinds = {name: (dtype, shape) for name, dtype, shape in fields}
    pairs = [pair for pair in pairs or pairs_of(fields, steps) if _is_comparable(*(kinds[name] for name in pair))]
    ends = [name for name in end_fields(fields, steps) if _is_number(*kinds[name])]
    starts = starts and bool(ends)
    if pairs and (starts or harm != NOTHING):
        ring._watch_order([x for x, _ in pairs], [next_x for _, next_x in pairs], ends, *harm, starts)


def pairs_of(fields: Sequence[NativeField], steps: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return (x, next_x) for each x that has a next_x of the same kind, unless the buffer computes one of them."""
    kinds = {name: (dtype, shape) for name, dtype, shape in fields}
    computed = {*(steps or {}).get("rew", ()), *(steps or {}).get("discount", ())}
    pairs = [(name, f"next_{name}") for name in kinds if kinds.get(f"next_{name}") == kinds[name]]
    return [pair for pair in pairs if not computed & {*pair}]


def _is_comparable(now: Kind, following: Kind) -> bool:
    return now == following and now[0].kind != "O" and now[0].itemsize * math.prod(now[1]) > 0


def _is_number(dtype: np.dtype, shape: Sequence[int]) -> bool:
    return dtype.kind in "biufc" and math.prod(shape) == 1


class OrderOfObjects:
    """Watches the order of rows that have fields of Python objects; a native ring compares their hashes.

    Objects are considered equal if their hashes are equal or, for unhashable objects, if they are identical.

    Parameters
    ----------
    fields, steps, harm, pairs
        As for `watch_order`.
    """

    def __init__(
        self,
        fields: Sequence[NativeField],
        steps: Mapping[str, Any] | None,
        harm: tuple[str, str],
        pairs: Sequence[tuple[str, str]] | None = None,
    ) -> None:
        self._made_with = fields, steps, harm, pairs
        kinds = {name: (dtype, shape) for name, dtype, shape in fields}
        self._pairs = [(x, next_x) for x, next_x in pairs or pairs_of(fields, steps) if kinds[x] == kinds[next_x]]
        self._ends = end_fields(fields, steps)
        hashes: list[NativeField] = [("done", np.dtype(bool), ())]
        hashes += [
            (f"{which}{p}", np.dtype(np.int64), ()) for p in range(len(self._pairs)) for which in ("x", "next_x")
        ]
        self._ring = Ring(Layout(1, hashes, {}, prioritized=False))
        watch_order(self._ring, hashes, None, harm, starts=False)

    def __reduce__(self) -> tuple:
        return type(self), self._made_with

    def look(self, rows: Mapping[str, np.ndarray]) -> None:
        """Check rows that will be stored, (count, *shape) by field. Raises the warning if warnings are errors."""
        if not self._ring._watches_order():
            return
        hashes: dict[str, Any] = {"done": np.zeros(len(rows[self._pairs[0][0]]), bool)}
        for name in self._ends:
            hashes["done"] |= (rows[name].reshape(len(rows[name]), -1) != 0).any(axis=1)
        for p, (now, following) in enumerate(self._pairs):
            hashes |= {f"x{p}": _hashes(rows[now]), f"next_x{p}": _hashes(rows[following])}
        self._ring.add(**hashes)

    def forget(self) -> None:
        """Record that the next row does not continue any other."""
        self._ring.on_episode_end()


def _hashes(column: np.ndarray) -> list[int]:
    rows = column.reshape(len(column), -1)
    if column.dtype.kind != "O":
        return [hash(row.tobytes()) for row in rows]
    return [hash(tuple(map(_hash_or_identity, row))) for row in rows]


def _hash_or_identity(value: Any) -> int:
    try:
        return hash(value)
    except TypeError:
        return id(value)
