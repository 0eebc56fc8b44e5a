"""Finding a shared buffer's segment by name, and reading the layout description stored in it."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from cpprb_impl._native import _description_of

NAME = re.compile(r"/?(cpprb_impl-[\w-]+)")


@contextmanager
def attach_errors(segment: str) -> Iterator[None]:
    """Convert exceptions for bad constructor arguments, and for JSON that is nested too deeply, to ValueError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"shared segment {segment} cannot be attached to by name: {error}") from None


def description_of(segment: str) -> tuple[str, str]:
    """Return a segment's name as the system knows it, and the description stored in the segment.

    Raises FileNotFoundError if the segment is gone, ValueError if the file is not a segment, and RuntimeError if a
    different version created it.
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
            f"the shared segment {segment} is gone: its creator has closed it or exited, or kept no reference to it, "
            "or it is in the /dev/shm of a different machine or container",
        ) from None
