"""`make long-files`: 20 GB of frames in one file, and more than 2^32 frames in memory, which is too large for a test.

The first check needs 20 GB of disk in the folder that is its argument (default: the current one), the second 5 GB of
memory. Every row must be read as it was added. The kernel allows a process about 65,530 mappings, so a file with one
mapping for each chunk of 256 KiB ends at 15 GB. With 32-bit frame numbers, the rows of the second buffer get mixed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from cpprb_impl import ReplayBuffer

GIGABYTES = 20
FRAME = 84 * 84
ROWS = GIGABYTES * 10**9 // FRAME
PIECE = 2000
CHECKED = 20_000

STACK = 1 << 16  # frames of one byte per row, so that few rows have so many frames


def frames_of(first: int, count: int) -> np.ndarray:
    """Return frames `first`, `first` + 1, ... Each begins with its number, which determines the rest."""
    frames = np.empty((count, FRAME), np.uint8)
    numbers = np.arange(first, first + count, dtype=np.uint64)
    frames[:, :8] = numbers.view(np.uint8).reshape(-1, 8)
    frames[:, 8:] = ((numbers * 7919 >> 3) & 255).astype(np.uint8)[:, None]
    return frames


def check_file(folder: str) -> None:
    began = time.monotonic()
    buffer = ReplayBuffer(
        ROWS, {"obs": {"shape": FRAME, "dtype": np.uint8}}, next_of="obs", mmap_prefix=Path(folder) / "ring", seed=1
    )
    file = Path(folder) / "ring_obs.dat"
    reserved = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
    for first in range(0, ROWS, PIECE):
        frames = frames_of(first, min(PIECE, ROWS - first) + 1)
        buffer.add(obs=frames[:-1], next_obs=frames[1:])
    maps = Path("/proc/self/maps").read_text().splitlines()
    indexes = np.random.default_rng(1).integers(0, ROWS, CHECKED)
    wrong = 0
    for at in range(0, CHECKED, 500):
        held = buffer.get(indexes[at : at + 500])
        for name, ahead in (("obs", 0), ("next_obs", 1)):
            wanted = np.concatenate([frames_of(int(index) + ahead, 1) for index in indexes[at : at + 500]])
            wrong += int((held[name] != wanted).any(axis=1).sum())
    size = file.stat()
    print(
        f"file: {ROWS} rows, {size.st_blocks * 512 / 1e9:.1f} GB on disk, {reserved / 1e9:.1f} GB of address space, "
        f"{sum(str(file) in line for line in maps)} mapping of it, {len(maps)} in all; "
        f"{wrong} of {2 * CHECKED} values wrong; {time.monotonic() - began:.0f} s",
        flush=True,
    )
    assert wrong == 0


def check_frames() -> None:
    rows = (1 << 32) // STACK + 4
    began = time.monotonic()
    buffer = ReplayBuffer(rows, {"obs": {"shape": STACK, "dtype": np.uint8}}, stack_compress="obs")
    for row in range(rows):
        buffer.add(obs=np.full(STACK, row % 251, np.uint8))
    held = buffer.get(np.array([*range(8), *range(rows - 8, rows)]))["obs"]
    wanted = [row % 251 for row in (*range(8), *range(rows - 8, rows))]
    wrong = sum(int((value != number).any()) for value, number in zip(held, wanted, strict=True))
    print(
        f"frames: {rows * STACK} of one byte, 2^32 and some; {wrong} of {len(wanted)} rows wrong; "
        f"{time.monotonic() - began:.0f} s"
    )
    assert wrong == 0


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else ".") as folder:
        check_file(folder)
    check_frames()


if __name__ == "__main__":
    main()
