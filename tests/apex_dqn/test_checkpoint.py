"""Checkpoints: the next sample is the same after resuming, and damaged checkpoints are refused with one line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time

import numpy as np
import pytest

from adapters import registry
from adapters.base import Spec
from suites.apex_dqn import checkpoint
from suites.apex_dqn.checkpoint import NotResumable
from suites.apex_dqn.nstep import fields_of

FIELDS = fields_of((4_000,))  # wide rows, so that explorers spend most of their time in `add`
CAPACITY, ROWS = 1_000, 250
MODEL, COUNTERS = {"steps": 7}, {"steps": 7, "seconds": 1.5, "transitions": [100, 200]}


def columns(random):
    return {name: random.integers(0, 99, (ROWS, *each.shape)).astype(each.dtype) for name, each in FIELDS.items()}


@pytest.fixture
def make():
    made = []

    def one(lock="none"):
        spec = Spec(CAPACITY, FIELDS, prioritized=True, seed=1)
        made.append(registry.adapter_class(f"cpprb_impl[lock={lock}]").make(spec))
        return made[-1]

    yield one
    for each in made:
        each.close()


def kill_one_that_adds(buffer, random):
    if not (child := os.fork()):
        while True:
            buffer.add_batch(columns(random), random.random(ROWS))
    before = buffer.buffer.get_next_index()
    while buffer.buffer.get_next_index() == before:
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def save(folder, buffer, steps=7):
    counters = {**COUNTERS, "steps": steps}
    return checkpoint.save(folder, {"steps": steps}, buffer, counters, lambda: buffer.sample(64))


@pytest.mark.parametrize("lock", ["none", "critical", "buffer"])
def test_the_next_sample_is_the_same_after_an_explorer_was_killed_within_add(lock, make, tmp_path):
    random, buffer = np.random.default_rng(0), make(lock)
    while len(buffer) < CAPACITY:
        buffer.add_batch(columns(random), random.random(ROWS))
    for _ in range(50):
        kill_one_that_adds(buffer, random)
        if len(buffer) < CAPACITY:  # some rows were lost
            break
    else:
        pytest.fail("no explorer was killed within add")
    batch = save(tmp_path, buffer)
    resumed = make(lock)
    model, counters = checkpoint.load(found := checkpoint.newest(tmp_path), resumed, explorers=2)
    again = resumed.sample(64)
    checkpoint.check_next_sample(found, resumed, again)
    assert (model, counters) == (MODEL, COUNTERS)
    assert all(np.array_equal(again[name], batch[name]) for name in batch)


@pytest.fixture
def saved(make, tmp_path):
    buffer = make()
    buffer.add_batch(columns(random := np.random.default_rng(0)), random.random(ROWS))
    save(tmp_path, buffer)
    return tmp_path / "checkpoint-7"


def test_saving_removes_older_checkpoints_but_no_backups(saved, make):
    folder = saved.parent
    shutil.copytree(saved, folder / "checkpoint-7-backup")
    buffer = make()
    buffer.add_batch(columns(random := np.random.default_rng(0)), random.random(ROWS))
    save(folder, buffer, steps=8)
    assert sorted(each.name for each in folder.iterdir()) == ["checkpoint-7-backup", "checkpoint-8"]
    assert checkpoint.newest(folder).name == "checkpoint-8"


def test_the_older_checkpoint_remains_if_the_new_one_cannot_be_written(saved, make, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    buffer = make()
    buffer.add_batch(columns(random := np.random.default_rng(0)), random.random(ROWS))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save(saved.parent, buffer, steps=8)
    assert checkpoint.newest(saved.parent) == saved


@pytest.mark.parametrize("file", [checkpoint.MODEL, checkpoint.BUFFER, checkpoint.COUNTERS, checkpoint.NEXT])
@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "garbage"])
def test_damaged_files_are_refused_with_one_line(file, damage, saved, make):
    path = saved / file
    whole = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes({"empty": b"", "truncated": whole[: len(whole) // 2], "garbage": b"\x80garbage"}[damage])
    buffer = make()
    with pytest.raises(NotResumable, match=f"{saved} cannot be read: .+") as refused:
        checkpoint.load(saved, buffer, explorers=2)
        checkpoint.check_next_sample(saved, buffer, buffer.sample(64))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"steps": 8}, "is from step 8, but model.pt is from step 7"),
        ({"seconds": float("nan")}, "must be at least 0, got nan"),
        ({"seconds": -1}, "must be at least 0, got -1"),
        ({"seconds": "soon"}, "must be real number"),
        ({"transitions": [1]}, "must be 2 non-negative integers"),
        ({"transitions": [1, -1]}, "must be 2 non-negative integers"),
        ({"transitions": None}, "NoneType"),
    ],
)
def test_counters_are_checked(changed, said, saved, make):
    (saved / checkpoint.COUNTERS).write_text(json.dumps({**COUNTERS, **changed}))
    with pytest.raises(NotResumable, match=said):
        checkpoint.load(saved, make(), explorers=2)
