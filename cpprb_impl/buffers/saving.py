"""Saving and loading transitions, so that training resumes exactly where it stopped."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, cast

from cpprb_impl._native import PrioritizedRing
from cpprb_impl.contents.state import add_linked, restore, set_errors, set_leaves
from cpprb_impl.ring.base import BufferBase

if TYPE_CHECKING:
    from cpprb_impl.contents.file_format import Contents

File = str | os.PathLike[str] | IO[bytes]


class SavableBuffer(BufferBase):
    """A buffer that can be saved to a file, and loaded from one."""

    def save_transitions(self, file: File, *, safe: bool = True) -> None:
        """Write every transition with its priority, and the other state needed to resume training exactly.

        While the file is being written, no other process may add to a shared buffer or update its priorities. Each
        process that uses a shared buffer has a random state, pending n-step transitions and, with `autoreset`, a record
        of the environments that are about to reset; with `sequences`, it knows which transition its next ones continue.
        The file contains only those of this process. Frames shared by several transitions are written with each of
        them.

        Parameters
        ----------
        file : str, path or binary file object
            ".npz" is appended to a path that does not end with it. An existing file is replaced only after the new one
            has been written completely.
        safe : bool
            Accepted for compatibility with cpprb, but ignored: every file is safe to load.

        Raises
        ------
        ValueError
            If a field holds Python objects, which would have to be pickled.
        RuntimeError
            If another thread or process adds to the buffer at the same time.
        OSError
            If the file cannot be written. If any exception is raised, an existing file at the path is unchanged.
        """
        from cpprb_impl.contents import file_format  # imported late, since most programs save nothing

        with _opened_to_write(file) as stream:
            file_format.write(self, stream)

    def load_transitions(self, file: File) -> None:
        """Append the transitions of a file, oldest first, with their priorities.

        If this buffer is empty and has the same size, `alpha` and `eps` as the saved one, it adopts the saved buffer's
        exact state: slots, priorities, episode, random state and, except for shared buffers, the samples that
        `check_for_update` remembers. Otherwise the transitions are appended to those present; if there are too many,
        only the newest are loaded. Priorities are converted to this buffer's `alpha` and `eps`. No other process may
        use a shared buffer meanwhile. If a process died while writing to the saved buffer, later transitions move up to
        fill the slots of those that were lost.

        With `sequences`, loaded transitions form the sequences that they formed in the saved buffer, whether that one
        was shared or not. If the options differ, they form those of this buffer. They never form a sequence with other
        transitions; but if this buffer adopts the saved buffer's state, the next step of each environment continues
        its last one in the file.

        Parameters
        ----------
        file : str, path or binary file object
            A file written by this library or by cpprb 11. It need not be trusted: loading never runs code from it.

        Raises
        ------
        ValueError
            If the file was truncated or changed, has an unsupported version, or comes from a buffer with different
            fields or a different `Nstep`; or if this buffer has `sequences` and the saved one had none, so that the
            file does not say which transition follows which. The message names the file; the buffer is unchanged.
        RuntimeError
            If another process added to the buffer meanwhile, or changed the file. A buffer that was empty is then
            cleared; otherwise the transitions loaded so far stay, with the default priority.
        OSError
            If the file does not exist or cannot be read.

        Notes
        -----
        The whole file is checked first, and then read again, a few rows at a time. A cpprb file is read into memory as
        a whole.
        """
        with _opened_to_read(file) as stream:
            contents = self._contents_of(stream)
            is_empty = self._is_empty()
            try:
                if contents.position is not None and is_empty:
                    restore(
                        self,
                        contents.position,
                        contents.columns,
                        contents.rows,
                        contents.leaves,
                        contents.pending,
                        contents.links,
                        contents.errors,
                    )
                    vars(self).update(contents.attributes)
                else:
                    self._append(contents, 0, contents.rows)
            except BaseException:  # Ctrl-C, out of memory, a changed file, or another process adding rows
                if is_empty:
                    self.clear()
                raise

    def _load_part(self, stream: IO[bytes], part: int, parts: int) -> None:
        """Append one of several equal parts of a file. Raises the exceptions of `load_transitions`."""
        contents = self._contents_of(stream)
        first, end = (contents.rows * each // parts for each in (part, part + 1))
        self._append(contents, first, end)

    def _contents_of(self, stream: IO[bytes]) -> Contents:
        from cpprb_impl.archive.npz import as_value_errors
        from cpprb_impl.contents import file_format

        with as_value_errors(_name_of(stream)):
            contents = file_format.read(self, stream)
            kept = min(contents.rows, self.get_buffer_size())
            # The file of a buffer with equal options may have rows of only some environments, and a shared buffer any
            # number of rows.
            if kept % self.n_envs and contents.position is None and not self.segment:
                raise ValueError(f"the number of rows must be a multiple of n_envs={self.n_envs}, got {kept}")
            return contents

    def _append(self, contents: Contents, first: int, end: int) -> None:
        """Append the rows first .. end - 1 of a file."""
        episode_len = self.get_current_episode_len()
        first = max(first, end - self.get_buffer_size())  # older rows would be overwritten immediately
        rows = end - first
        add_linked(self, contents.columns, contents.links, first, end, is_empty=self.get_stored_size() == 0)
        if rows and contents.leaves is not None:
            # In a file with sequences, the leaf of a step is 0 if no sequence ended there; in this buffer, one may end
            # there.
            set_leaves(self, contents.leaves, first, end, only_positive=contents.of_sequences)
        if rows and contents.errors is not None:
            set_errors(self, contents.errors, first, end)
        if isinstance(self, PrioritizedRing) and contents.max_priority is not None:
            self._set_max_priority(max(self.get_max_priority(), contents.max_priority))
        self._set_episode_len(episode_len)  # the current episode does not come from the file

    def _is_empty(self) -> bool:
        """Return whether the buffer has neither stored nor pending transitions."""
        steps = self._get_pending()
        return not (self.get_stored_size() or self.get_current_episode_len() or (steps and len(steps["done"])))


@contextmanager
def _opened_to_write(file: File) -> Iterator[IO[bytes]]:
    """Yield `file` itself or, for a path, a new file next to it that replaces it at the end."""
    if hasattr(file, "write"):
        yield cast(IO[bytes], file)
        return
    path = os.fsdecode(cast(str, file))
    path = os.path.realpath(path if path.endswith(".npz") else path + ".npz")
    beside = f"{path}.{secrets.token_hex(8)}.tmp"
    try:
        with open(beside, "xb") as stream:
            if os.path.exists(path):  # the new file must not be readable by users who could not read the old one
                os.chmod(beside, os.stat(path).st_mode & 0o7777)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.remove(beside)
        raise


def _name_of(stream: IO[bytes]) -> str:
    """Return the name of the file for error messages."""
    name = getattr(stream, "name", None)
    return os.fsdecode(name) if isinstance(name, (str, bytes)) else "the file"


@contextmanager
def _opened_to_read(file: File) -> Iterator[IO[bytes]]:
    """Yield `file` itself, or the opened file at a path, which may lack its ".npz"."""
    if hasattr(file, "read"):
        yield cast(IO[bytes], file)
        return
    path = os.fsdecode(cast(str, file))
    if not os.path.exists(path) and os.path.exists(f"{path}.npz"):
        path = f"{path}.npz"
    with open(path, "rb") as stream:
        yield stream
