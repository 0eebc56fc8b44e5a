"""Saving a buffer's shards, one file per shard, and loading the files into the shards of a different buffer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from cpprb_impl.hosts.shard import PIECE_BYTES

AHEAD = 4  # pieces of a file in flight at the same time
NAME = re.compile(r"shard-[0-9]+-of-([0-9]{1,5})\.npz")


def save(shards: Sequence[Any], folder: Path) -> None:
    """Write a file for each shard into a new folder. Raises `PrioritizedReplayBuffer.save_transitions`'s exceptions."""
    folder.mkdir()
    streaming = {"num_returns": "streaming", "_generator_backpressure_num_objects": AHEAD}
    for number, shard in enumerate(shards):
        with (folder / f"shard-{number}-of-{len(shards)}.npz").open("xb") as file, as_raised():
            for piece in shard.save.options(**streaming).remote():
                file.write(ray.get(piece))


def load(shards: Sequence[Any], folder: Path) -> None:
    """Append the files to the shards: one file to each shard or, if their numbers differ, an equal part of every file.

    Raises the exceptions of `PrioritizedReplayBuffer.load_transitions`.
    """
    files = _files(folder)
    same = len(files) == len(shards)
    for number, file in enumerate(files):
        for part, shard in enumerate([shards[number]] if same else shards):
            with as_raised(), _naming(file):
                _send(file, shard)
                # Parts may differ by one row: rotate the shards, so that each file's larger parts go to different ones.
                ray.get(shard.load.remote(0 if same else (part + number) % len(shards), 1 if same else len(shards)))


def _files(folder: Path) -> list[Path]:
    """Return a folder's shard files, in order. Raises FileNotFoundError or ValueError if any is missing or extra."""
    found = [file.name for file in folder.glob("shard-*.npz")]
    if not found:
        raise FileNotFoundError(f"{folder} contains no shard files")
    counts = {int(match[1]) for name in found if (match := NAME.fullmatch(name))}
    if len(counts) > 1:
        raise ValueError(f"{folder} must hold the files of one buffer, got {', '.join(sorted(found))}")
    expected = [f"shard-{number}-of-{count}.npz" for count in counts for number in range(count)]
    for name in found:
        if name not in expected:
            raise ValueError(f"{folder / name}: the name must be shard-I-of-N.npz, with I from 0 to N - 1")
    for name in expected:
        if name not in found:
            raise FileNotFoundError(f"{folder / name} is missing")
    return [folder / name for name in expected]


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Add the file's name to errors that a shard raises about its contents: the shard sees only the contents."""
    try:
        yield
    except RayTaskError as error:
        if isinstance(error.cause, ValueError):
            raise ValueError(f"{file}: {error.cause}") from None
        raise


def _send(file: Path, shard: Any) -> None:
    """Send a file to a shard, which loads it later."""
    ray.get(shard.begin_to_load.remote())
    sent: list[Any] = []
    with file.open("rb") as stream:
        while piece := stream.read(PIECE_BYTES):
            sent.append(shard.take_piece.remote(piece))
            if len(sent) > AHEAD:
                ray.get(sent.pop(0))
    ray.get(sent)


@contextmanager
def as_raised() -> Iterator[None]:
    """Raise a shard's original exception instead of Ray's wrapper, or ConnectionError if the shard was lost."""
    try:
        yield
    except RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from None
    except RayError as error:
        raise ConnectionError(f"a shard was lost: {error}") from None
