"""Checkpoints: the networks, the buffer and the counters, from which a training resumes with the same next sample."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adapters import registry
from adapters.base import Adapter, Array

MODEL, BUFFER, COUNTERS, NEXT = "model.pt", "buffer.npz", "counters.json", "next_sample.json"


class NotResumable(Exception):  # noqa: N818 (a state, with its reason)
    """There is nothing to resume from, or it cannot be continued; the message says why."""


def supported(peer: str) -> bool:
    """Return whether buffers of this peer can be saved while processes share them."""
    return registry.is_ours(peer)


def digest(indexes: Array) -> str:
    """Return what identifies a sample: a hash of its indexes."""
    return hashlib.sha256(np.ascontiguousarray(indexes, np.int64).tobytes()).hexdigest()


def newest(folder: Path) -> Path:
    """Return the newest complete checkpoint of the training in `folder`. Raises `NotResumable`."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    if not found:
        raise NotResumable(f"{folder} contains no checkpoint")
    return found[-1]


def save(folder: Path, model: dict[str, Any], adapter: Adapter, counters: dict[str, Any]) -> Path:
    """Write a checkpoint and remove older ones. The folder gets its name only once it is complete."""
    unfinished = folder / "unfinished-checkpoint"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    torch.save(model, unfinished / MODEL)
    adapter.buffer.save_transitions(unfinished / BUFFER)  # type: ignore[attr-defined]
    (unfinished / COUNTERS).write_text(json.dumps(counters))
    complete = folder / f"checkpoint-{counters['steps']}"
    if complete.exists():  # no step since then
        shutil.rmtree(complete)
    os.replace(unfinished, complete)
    for old in folder.glob("checkpoint-*"):
        if old != complete:
            shutil.rmtree(old)
    return complete


def load(checkpoint: Path, adapter: Adapter) -> tuple[dict[str, Any], dict[str, Any]]:
    """Load the buffer; return the model's state and the counters."""
    adapter.buffer.load_transitions(checkpoint / BUFFER)  # type: ignore[attr-defined]
    model = torch.load(checkpoint / MODEL, weights_only=True, map_location="cpu")
    return model, json.loads((checkpoint / COUNTERS).read_text())


def keep_next_sample(checkpoint: Path, indexes: Array) -> None:
    """Store which sample follows this checkpoint."""
    (checkpoint / NEXT).write_text(json.dumps({"sha256": digest(indexes)}))


def check_next_sample(checkpoint: Path, indexes: Array) -> None:
    """Raise `NotResumable` if another sample followed this checkpoint. If the training was killed before its next
    sample, there is nothing to compare."""
    path = checkpoint / NEXT
    if path.exists() and json.loads(path.read_text())["sha256"] != digest(indexes):
        raise NotResumable(f"{checkpoint}: the first sample after resuming differs from the one that followed it")
