"""Saving and loading transitions, so that training goes on as if it had never stopped."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, cast

import numpy as np

from cpprb_impl import file_format
from cpprb_impl._native import PrioritizedRing
from cpprb_impl.npz import as_value_errors
from cpprb_impl.state import CopyableBuffer, add_columns, held_slots, restore, waiting_steps

File = str | os.PathLike[str] | IO[bytes]


class SavableBuffer(CopyableBuffer):
    """A buffer that can be saved to a file, and loaded from one."""

    def save_transitions(self, file: File, *, safe: bool = True) -> None:
        """Write every transition, with its priority and all else that training needs to go on exactly.

        Parameters
        ----------
        file : str, path or binary file object
            ".npz" is appended to a path that does not end with it. An existing file is replaced once all is written.
        safe : bool
            Accepted for compatibility with cpprb: every file is safe to load.

        Raises
        ------
        ValueError
            For a field that holds Python objects: it would have to be pickled.
        RuntimeError
            If another thread changes the buffer meanwhile.
        OSError
            When the file can't be written. Whatever is raised, the file at a path is what it was.
        """
        with _opened_to_write(file) as stream:
            file_format.write(self, stream)

    def load_transitions(self, file: File) -> None:
        """Append the transitions of a file, oldest first, with their priorities.

        An empty buffer of the same size, `alpha` and `eps` as the saved one becomes what that was: the same slots,
        priorities, episode and random numbers. To any other buffer the transitions are added, the newest ones if
        there are too many; priorities are converted to its own `alpha` and `eps`.

        Parameters
        ----------
        file : str, path or binary file object
            Of this library, or of cpprb 11. It need not be trusted: no code in it is run.

        Raises
        ------
        ValueError
            For a file that was cut short or changed, of another version, or of a buffer with other fields or
            another `Nstep`. The message names the file; the buffer is unchanged.
        OSError
            When there is no such file, or it can't be read.
        """
        with _opened_to_read(file) as stream, as_value_errors(_name_of(stream)):
            contents = file_format.read(self, stream)
        if contents.position is not None and self._is_empty():
            try:
                restore(self, contents.position, contents.columns, contents.rows, contents.leaves, contents.waiting)
            except BaseException:  # Ctrl-C, or no memory left
                self.clear()
                raise
            vars(self).update(contents.attributes)
        else:
            self._append(contents)

    def _append(self, contents: file_format.Contents) -> None:
        episode_len = self.get_current_episode_len()
        rows = min(contents.rows, self.get_buffer_size())  # older ones would be overwritten at once
        add_columns(self, contents.columns, contents.rows - rows, contents.rows)
        if rows and contents.leaves is not None:
            self._set_leaves(held_slots(self)[-rows:], contents.leaves[-rows:])
        if isinstance(self, PrioritizedRing) and contents.max_priority is not None:
            self._set_max_priority(max(self.get_max_priority(), contents.max_priority))
        self._set_episode_len(episode_len)  # the episode under way is not the file's

    def _exponents(self) -> tuple[float, float]:
        """alpha and eps, of a prioritized buffer."""
        return self._recipe[2]["alpha"], self._recipe[2]["eps"]

    def _is_empty(self) -> bool:
        """Whether nothing is stored, and nothing waits to be."""
        steps = waiting_steps(self)
        return not (self.get_stored_size() or self.get_current_episode_len() or (steps and len(steps["done"])))

    # For subclasses that keep more than the native ring does.

    def _steps(self) -> Mapping[str, Any] | None:
        """How n-step transitions are made, as JSON has it; None where they are not."""
        return None

    def _own_state(self) -> dict[str, np.ndarray]:
        """What else a file has to hold, as arrays by name."""
        return {}

    def _read_own_state(self, state: dict[str, np.ndarray]) -> dict[str, Any]:
        """The attributes that correspond to what `_own_state` returned; raises ValueError if that is invalid."""
        return {}


@contextmanager
def _opened_to_write(file: File) -> Iterator[IO[bytes]]:
    """`file` itself; or, for a path, a new file next to it, which replaces it in the end."""
    if hasattr(file, "write"):
        yield cast(IO[bytes], file)
        return
    path = os.fsdecode(cast(str, file))
    path = os.path.realpath(path if path.endswith(".npz") else path + ".npz")
    beside = f"{path}.{secrets.token_hex(8)}.tmp"
    try:
        with open(beside, "xb") as stream:
            if os.path.exists(path):  # users who could not read it must not be able to read this one
                shutil.copymode(path, beside)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.remove(beside)
        raise


def _name_of(stream: IO[bytes]) -> str:
    """What an error calls the file."""
    name = getattr(stream, "name", None)
    return os.fsdecode(name) if isinstance(name, (str, bytes)) else "the file"


@contextmanager
def _opened_to_read(file: File) -> Iterator[IO[bytes]]:
    """`file` itself, or the opened file at a path, which may be without its ".npz"."""
    if hasattr(file, "read"):
        yield cast(IO[bytes], file)
        return
    path = os.fsdecode(cast(str, file))
    if not os.path.exists(path) and os.path.exists(f"{path}.npz"):
        path = f"{path}.npz"
    with open(path, "rb") as stream:
        yield stream
