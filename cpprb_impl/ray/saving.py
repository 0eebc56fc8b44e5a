"""Saving all shards of a buffer, a file for each, and loading the files into the shards of another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from cpprb_impl.hosts.shard import PIECE_BYTES

AHEAD = 4  # pieces of a file that are on their way at the same time


def save(shards: Sequence[Any], folder: Path) -> None:
    """Write a file for each shard into a new folder. Raises what `PrioritizedReplayBuffer.save_transitions` raises."""
    folder.mkdir()
    streaming = {"num_returns": "streaming", "_generator_backpressure_num_objects": AHEAD}
    for number, shard in enumerate(shards):
        with (folder / f"shard-{number}.npz").open("xb") as file, as_raised():
            for piece in shard.save.options(**streaming).remote():
                file.write(ray.get(piece))


def load(shards: Sequence[Any], folder: Path) -> None:
    """Append the files to the shards: one to each or, on another number of shards, an equal part of each to each.

    Raises what `PrioritizedReplayBuffer.load_transitions` raises.
    """
    files = sorted(folder.glob("shard-*.npz"), key=lambda file: int(file.stem.removeprefix("shard-")))
    if not files:
        raise FileNotFoundError(f"{folder} has no files of shards")
    same = len(files) == len(shards)
    for number, file in enumerate(files):
        for part, shard in enumerate([shards[number]] if same else shards):
            with as_raised():
                _send(file, shard)
                ray.get(shard.load.remote(part, 1 if same else len(shards)))


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
