"""Checkpoints of networks, buffer and counters, from which a training run resumes with the sample that would have come
next."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adapters import registry
from adapters.base import Adapter, Columns
from adapters.hosts import HostsAdapter

MODEL, BUFFER, COUNTERS, NEXT = "model.pt", "buffer.npz", "counters.json", "next_sample.json"
SHARDS = "shards"  # instead of BUFFER: a folder with a file for each host


class NotResumable(Exception):  # noqa: N818 (a state, with its reason)
    """There is no checkpoint, or it cannot be resumed; the message says why."""


@contextmanager
def reading(checkpoint: Path) -> Iterator[None]:
    """Raise `NotResumable` for any error in the checkpoint that is being read."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, RuntimeError) as error:
        raise NotResumable(f"{checkpoint} cannot be read: {_reason(error)}") from error
    except pickle.UnpicklingError as error:
        raise NotResumable(f"{checkpoint} cannot be read: {MODEL} is damaged") from error


def _reason(error: Exception) -> str:
    said = re.split(r"\n|\. ", str(error).strip())[0]  # PyTorch adds advice
    return f"no {said}" if isinstance(error, KeyError) else said or type(error).__name__


def supported(peer: str) -> bool:
    """Return whether buffers of this peer can be saved while processes share them."""
    return registry.is_ours(peer)


def digest(adapter: Adapter, batch: Columns) -> str:
    """Return a hash of a sample's rows, which identifies the sample."""
    rows = b"".join(np.ascontiguousarray(batch[name]).tobytes() for name in adapter.fields)
    return hashlib.sha256(rows).hexdigest()


def every(folder: Path) -> list[Path]:
    """Return the complete checkpoints in `folder`, oldest first. Other names, such as a user's backup, are ignored."""
    found = [each for each in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", each.name)]
    return sorted(found, key=lambda path: int(path.name.partition("-")[2]))


def newest(folder: Path) -> Path:
    """Return the newest complete checkpoint of the training run in `folder`. Raises `NotResumable`."""
    if not (found := every(folder)):
        raise NotResumable(f"{folder} contains no checkpoint")
    return found[-1]


def save(
    folder: Path, model: dict[str, Any], adapter: Adapter, counters: dict[str, Any], sample: Callable[[], Columns]
) -> Columns:
    """Write a checkpoint, remove older ones, and return the next sample.

    The checkpoint gets its name once it is complete, and only then are older ones removed. After saving, the buffer is
    cleared and loaded from the file. Loading moves rows into the slots of rows that were lost with killed explorers, so
    a resumed training run would otherwise draw a different sample. A buffer over several hosts is not reloaded: it can
    be loaded on a different number of hosts, and then draws different samples anyway. Raises OSError or RuntimeError if
    the checkpoint cannot be written, and `NotResumable` if the buffer cannot be loaded again.
    """
    unfinished, buffer = folder / "unfinished-checkpoint", adapter.buffer  # type: ignore[attr-defined]
    exact = not isinstance(adapter, HostsAdapter)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    torch.save(model, unfinished / MODEL)
    (unfinished / COUNTERS).write_text(json.dumps(counters))
    buffer.save_transitions(unfinished / (BUFFER if exact else SHARDS))
    if exact:
        with reading(unfinished):
            buffer.clear()
            buffer.load_transitions(unfinished / BUFFER)
    batch = sample()
    if exact:
        (unfinished / NEXT).write_text(json.dumps({"sha256": digest(adapter, batch)}))
    for file in unfinished.rglob("*"):
        if file.is_file():
            with file.open("rb") as written:
                os.fsync(written.fileno())
    older, complete = every(folder), folder / f"checkpoint-{counters['steps']}"
    os.replace(unfinished, complete)
    for old in older:
        shutil.rmtree(old, ignore_errors=True)
    return batch


def load(checkpoint: Path, adapter: Adapter, explorers: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Load the buffer; return the model's state and the counters. Raises `NotResumable`."""
    with reading(checkpoint):
        model = torch.load(checkpoint / MODEL, weights_only=True, map_location="cpu")
        counters = json.loads((checkpoint / COUNTERS).read_text())
        if counters["steps"] != model["steps"]:
            raise ValueError(f"{COUNTERS} is from step {counters['steps']}, but {MODEL} is from step {model['steps']}")
        if not (math.isfinite(counters["seconds"]) and counters["seconds"] >= 0):
            raise ValueError(f"seconds in {COUNTERS} must be at least 0, got {counters['seconds']}")
        added = counters["transitions"]
        if len(added) != explorers or not all(type(each) is int and each >= 0 for each in added):
            raise ValueError(f"transitions in {COUNTERS} must be {explorers} non-negative integers, got {added}")
        file = SHARDS if isinstance(adapter, HostsAdapter) else BUFFER
        adapter.buffer.load_transitions(checkpoint / file)  # type: ignore[attr-defined]
    return model, counters


def check_next_sample(checkpoint: Path, adapter: Adapter, batch: Columns) -> None:
    """Raise `NotResumable` unless `batch` is the sample that followed this checkpoint. Not checked with several
    hosts."""
    if isinstance(adapter, HostsAdapter):
        return
    with reading(checkpoint):
        expected = json.loads((checkpoint / NEXT).read_text())["sha256"]
    if expected != digest(adapter, batch):
        raise NotResumable(f"{checkpoint}: the first sample after resuming differs from the first sample after saving")
