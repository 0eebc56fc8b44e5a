"""Saving all shards of a buffer, a file for each, and loading the files into the shards of another one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from cpprb_impl.hosts.shard import PIECE_BYTES

AHEAD = 4  # pieces of a file that are on their way at the same time
NAME = re.compile(r"shard-[0-9]+-of-([0-9]{1,5})\.npz")


def save(shards: Sequence[Any], folder: Path) -> None:
    """Write a file for each shard into a new folder. Raises what `PrioritizedReplayBuffer.save_transitions` raises."""
    folder.mkdir()
    streaming = {"num_returns": "streaming", "_generator_backpressure_num_objects": AHEAD}
    for number, shard in enumerate(shards):
        with (folder / f"shard-{number}-of-{len(shards)}.npz").open("xb") as file, as_raised():
            for piece in shard.save.options(**streaming).remote():
                file.write(ray.get(piece))


def load(shards: Sequence[Any], folder: Path) -> None:
    """Append the files to the shards: one to each or, on another number of shards, an equal part of each to each.

    Raises what `PrioritizedReplayBuffer.load_transitions` raises.
    """
    files = _files(folder)
    same = len(files) == len(shards)
    for number, file in enumerate(files):
        for part, shard in enumerate([shards[number]] if same else shards):
            with as_raised(), _naming(file):
                _send(file, shard)
                # Parts differ by one row: another shard gets the larger ones of each file.
                ray.get(shard.load.remote(0 if same else (part + number) % len(shards), 1 if same else len(shards)))


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder, in order. Raises FileNotFoundError or ValueError unless all are there, and only."""
    found = [file.name for file in folder.glob("shard-*.npz")]
    if not found:
        raise FileNotFoundError(f"{folder} has no files of shards")
    counts = {int(match[1]) for name in found if (match := NAME.fullmatch(name))}
    if len(counts) > 1:
        raise ValueError(f"{folder} must have the files of one buffer, got {', '.join(sorted(found))}")
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
    """Name the file in what a shard raises because of its contents: the shard knows only the contents."""
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
    """Raise what a shard raised, rather than what Ray makes of it; ConnectionError if the shard was lost."""
    try:
        yield
    except RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from None
    except RayError as error:
        raise ConnectionError(f"a shard was lost: {error}") from None
