"""What a shared segment says about itself: all that another process needs to use it, as JSON."""

from __future__ import annotations

import errno
import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpprb_impl._native import _description_of
from cpprb_impl.fields import NativeField

NAME = re.compile(r"/?(cpprb_impl-[\w-]+)")


@dataclass(frozen=True)
class Description:
    """How a buffer was made: equal descriptions are of equal layout, and behave alike."""

    size: int
    fields: list[NativeField]
    options: dict[str, Any]  # of the native ring
    prioritized: bool
    nstep: dict[str, Any] | None = None  # of `nstep.read_options`

    def text(self) -> str:
        fields = [{"name": name, "dtype": _told(dtype), "shape": shape} for name, dtype, shape in self.fields]
        return json.dumps({**vars(self), "fields": fields})

    @classmethod
    def read(cls, text: str, segment: str) -> Description:
        """Raises ValueError for another text than the one above gives."""
        try:
            about = json.loads(text)
            fields = [(each["name"], each["dtype"], tuple(each["shape"])) for each in about.pop("fields")]
            for name, told, _ in fields:
                if told is None:
                    raise ValueError(f"{name!r} has a dtype without a name: pass the buffer itself, pickled")
            return cls(fields=[(name, _dtype(told), shape) for name, told, shape in fields], **about)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"shared segment {segment} can't be attached to by name: {error}") from None


def description_of(segment: str) -> tuple[str, str]:
    """The name of a segment as the system has it, and what the segment says about itself.

    Raises FileNotFoundError when it is gone, ValueError for what is no segment, RuntimeError for another version's.
    """
    named = NAME.fullmatch(segment)
    if named is None:
        raise ValueError(f"{segment!r} is not the name of a shared segment: that is a buffer's `segment`")
    try:
        return f"/{named[1]}", _description_of(f"/{named[1]}")
    except FileNotFoundError:
        raise FileNotFoundError(
            errno.ENOENT,
            f"the shared segment {segment} is gone: its maker has closed it or ended, or kept no reference to it, or "
            "it is in another machine's or another container's /dev/shm",
        ) from None


def _told(dtype: np.dtype) -> Any:
    """`dtype` as JSON has it; None for one that JSON cannot describe."""
    try:
        told = dtype.str if dtype.names is None else dtype.descr
        read = _dtype(json.loads(json.dumps(told)))
        return told if read == dtype and read.alignment == dtype.alignment else None
    except (TypeError, ValueError):  # fields that overlap, say
        return None


def _dtype(told: Any) -> np.dtype:
    return np.lib.format.descr_to_dtype(_tuples(told))


def _tuples(told: Any) -> Any:
    """The lists of JSON as NumPy wants them: a list of fields, each a tuple, with tuples as shapes."""
    if isinstance(told, str):
        return told
    return [(_name(name), _tuples(kind), *map(tuple, shape)) for name, kind, *shape in told]


def _name(told: Any) -> Any:
    return tuple(told) if isinstance(told, list) else told  # with a title
