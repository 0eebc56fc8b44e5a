"""Finds shared-memory segments that appear during a launch, and removes those that the launch leaves behind."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from adapters.registry import SEGMENT_PREFIXES

SHARED_MEMORY = Path("/dev/shm")
#: The name of our buffer's segments contains the id of the process that created them.
MAKER = re.compile(r"cpprb_impl-(\d+)-")
PAGE_BYTES = 4096
MOMENT_SECONDS = 0.3
PATIENCE_SECONDS = 3.0


class Segments:
    """The user's segments that are named like a buffer's and created after this object.

    A segment does not identify its launch, but the names of our buffer's segments contain the process that created
    them. If that process is alive and `is_member` returns False for it, the segment is not touched.
    """

    def __init__(self, is_member: Callable[[psutil.Process], bool]):
        self._is_member = is_member
        self._begin = time.time()
        self._of_others: set[str] = set()

    def look(self) -> None:
        """Note segments created by other programs. Call this while the launch runs, or their creator may be gone."""
        for path in self._appeared():
            maker = MAKER.match(path.name)
            if maker is not None:
                with suppress(OSError, psutil.Error):
                    process = psutil.Process(int(maker[1]))
                    # A zombie may belong to the launch: its environment cannot be read.
                    if not self._is_member(process) and process.status() != psutil.STATUS_ZOMBIE:
                        self._of_others.add(path.name)

    def remove_orphans(self) -> list[int]:
        """Remove the segments that no live process has mapped or open. Returns their sizes in bytes."""
        self.look()
        if not self._appeared():
            return []
        time.sleep(MOMENT_SECONDS)  # a semaphore often has a name only until its creator has opened it
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(size >= PAGE_BYTES for size in self._orphans().values()) and time.monotonic() < deadline:
            time.sleep(0.1)  # a watchdog of the killed process may be about to remove them
        sizes = []
        for path, size in self._orphans().items():
            with suppress(FileNotFoundError):
                path.unlink()
                sizes.append(size)
        return sizes

    def _orphans(self) -> dict[Path, int]:
        """Return the segments that no live process uses, with their sizes in bytes."""
        found, in_use, orphans = self._appeared(), _shared_memory_in_use(), {}
        for path in found:
            with suppress(FileNotFoundError):
                about = path.stat()
                if about.st_ino not in in_use:
                    orphans[path] = about.st_size
        return orphans

    def _appeared(self) -> list[Path]:
        if not SHARED_MEMORY.is_dir():
            return []
        return [
            path
            for path in SHARED_MEMORY.iterdir()
            if path.name.startswith(SEGMENT_PREFIXES) and path.name not in self._of_others and self._is_new(path)
        ]

    def _is_new(self, path: Path) -> bool:
        try:
            about = path.lstat()
        except OSError:
            return False
        return about.st_uid == os.getuid() and about.st_ctime >= self._begin


def _shared_memory_in_use() -> set[int]:
    """Return the inode numbers of the files that any process has mapped or open. Names are not enough: a semaphore's
    file is renamed after it is mapped, and `maps` still shows the old name; in a chroot, the folder has a different
    name."""
    device = SHARED_MEMORY.stat().st_dev
    shown = f" {os.major(device):02x}:{os.minor(device):02x} "
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            lines = (process / "maps").read_text().splitlines()
            mapped = (line for line in lines if shown in line or f" {SHARED_MEMORY}/" in line)
            found.update(int(line.split(maxsplit=5)[4]) for line in mapped)
        with suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    # Only files with such names are examined, since a query about a file on a network may take forever.
                    if Path(os.readlink(descriptor)).name.startswith(SEGMENT_PREFIXES):
                        about = descriptor.stat()
                        if about.st_dev == device:
                            found.add(about.st_ino)
    return found
