"""The description stored in a shared segment: everything another process needs to use the buffer, as JSON."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpprb_impl._native import _description_of
from cpprb_impl.archive.json_object import JsonObject
from cpprb_impl.archive.npz import dtype_named
from cpprb_impl.buffers.single import OF_PRIORITIES
from cpprb_impl.layout.fields import NativeField
from cpprb_impl.ring.nstep import read_options

OPTIONS = {"n_envs", "autoreset", "lock", "next_of", "stack_compress", "mmap_prefix", "prefault", *OF_PRIORITIES}
NAME = re.compile(r"/?(cpprb_impl-[\w-]+)")


@dataclass(frozen=True)
class Description:
    """How a buffer was made. Buffers with equal descriptions have equal layouts and behave alike."""

    size: int
    fields: list[NativeField]
    options: dict[str, Any]  # for the native ring's constructor
    prioritized: bool
    nstep: dict[str, Any] | None = None  # as returned by `nstep.read_options`

    def text(self) -> str:
        """Return the description as text, as stored in a segment."""
        fields = [{"name": name, "dtype": _dtype_as_json(dtype), "shape": shape} for name, dtype, shape in self.fields]
        return json.dumps({**vars(self), "fields": fields})

    @classmethod
    def read(cls, text: str, segment: str) -> Description:
        """Parse the `text` of a description. Raises ValueError unless a valid buffer could have written it."""
        with attach_errors(segment):
            about = JsonObject(json.loads(text), "the description")
            fields = []
            for each in about.objects("fields"):
                name, shape = each.string("name"), tuple(each.integers("shape"))
                if each.is_null("dtype"):
                    raise ValueError(f"{name!r} has a dtype that JSON cannot describe: pass the buffer itself, pickled")
                fields.append((name, _dtype(each.value("dtype", str, list)), shape))
            nstep = None if about.is_null("nstep") else read_options(about.value("nstep", dict), fields)
            options = about.value("options", dict)
            if not options.keys() <= OPTIONS:
                raise ValueError(f"its options must be some of {sorted(OPTIONS)}, got {sorted(options)}")
            recipe = cls(about.integer("size", least=1), fields, options, about.value("prioritized", bool), nstep)
            if recipe.text() != text:
                raise ValueError("its description is not in the form that this library writes")
            return recipe


@contextmanager
def attach_errors(segment: str) -> Iterator[None]:
    """Convert exceptions for bad arguments of a constructor, and for JSON that is nested too deeply, to ValueError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"shared segment {segment} cannot be attached to by name: {error}") from None


def description_of(segment: str) -> tuple[str, str]:
    """Return a segment's name as the system knows it, and the description stored in the segment.

    Raises FileNotFoundError if it is gone, ValueError if it is not a segment, RuntimeError if another version made it.
    """
    if not isinstance(segment, str):
        raise TypeError(f"segment must be a str, got {segment!r}")
    named = NAME.fullmatch(segment)
    if named is None:
        raise ValueError(f"{segment!r} is not the name of a shared segment: pass a buffer's `segment`")
    try:
        return f"/{named[1]}", _description_of(f"/{named[1]}")
    except UnicodeDecodeError as error:
        raise ValueError(f"shared segment {segment} has no readable description: {error}") from None
    except FileNotFoundError:
        raise FileNotFoundError(
            errno.ENOENT,
            f"the shared segment {segment} is gone: its maker has closed it or ended, or kept no reference to it, or "
            "it is in the /dev/shm of another machine or container",
        ) from None


def _dtype_as_json(dtype: np.dtype) -> Any:
    """Return `dtype` in JSON form, or None if JSON cannot describe it."""
    try:
        described = dtype.str if dtype.names is None else dtype.descr
        read = _dtype(json.loads(json.dumps(described)))
        return described if read == dtype and read.alignment == dtype.alignment else None
    except (TypeError, ValueError):  # such as overlapping fields
        return None


def _dtype(described: Any) -> np.dtype:
    dtype: np.dtype = np.lib.format.descr_to_dtype(_tuples(described))
    return dtype


def _tuples(described: Any) -> Any:
    """Convert JSON lists to NumPy's form: a list of fields, each a tuple, with tuples as shapes."""
    if isinstance(described, str):
        return dtype_named(described).str  # NumPy accepts other names, and parses some as Python
    return [(_name(name), _tuples(kind), *map(tuple, shape)) for name, kind, *shape in described]


def _name(described: Any) -> Any:
    return tuple(described) if isinstance(described, list) else described  # a name with a title
