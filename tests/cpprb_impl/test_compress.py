"""Frames compressed with LZ4 yield the same batches and need less memory."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer, create_buffer

from .test_far_frames import COMPILER

KINDS = (ReplayBuffer, PrioritizedReplayBuffer)
CAPACITY, STACK = 200, 4


def frames(count: int, dtype: str, content: str) -> np.ndarray:
    """Return frames (count, 12, 12): "smooth" ones compress well, "noise" does not, "both" alternates."""
    random = np.random.default_rng(0)
    smooth = np.zeros((count, 12, 12), dtype)
    smooth[np.arange(count), random.integers(0, 12, count)] = np.arange(count)[:, None] % 251
    noise = np.frombuffer(random.bytes(smooth.nbytes), dtype).reshape(smooth.shape)
    if content == "both":
        return np.where((np.arange(count) % 3 == 0)[:, None, None], noise, smooth)
    return {"smooth": smooth, "noise": noise}[content]


def steps(count: int, axis: int, dtype: str = "u1", content: str = "both") -> dict[str, np.ndarray]:
    """Return transitions of episodes of 30 steps."""
    first = np.arange(count) + STACK * (np.arange(count) // 30)
    all_frames = frames(first[-1] + STACK + 1, dtype, content)
    stacks = [all_frames[first[:, None] + np.arange(STACK) + later] for later in (0, 1)]
    obs, next_obs = stacks if axis == 0 else (np.moveaxis(stack, 1, -1) for stack in stacks)
    return {"obs": obs, "next_obs": next_obs, "id": np.arange(count)}


def make(
    kind: type, axis: int, dtype: str = "u1", size: int = CAPACITY, *, next_of: Any = "obs", **options: Any
) -> ReplayBuffer:
    shape = (STACK, 12, 12) if axis == 0 else (12, 12, STACK)
    fields = {"obs": {"shape": shape, "dtype": dtype}, "id": {"dtype": np.int64, "shape": ()}}
    fields |= {} if next_of else {"next_obs": fields["obs"]}
    stacks = {"obs": axis} if next_of else {"obs": axis, "next_obs": axis}
    return kind(size, fields, next_of=next_of, stack_compress=stacks, seed=3, **options)


def fill(buffer: ReplayBuffer, added: dict[str, np.ndarray], step: int = 6) -> None:
    for at in range(0, len(added["id"]), step):
        buffer.add(**{name: column[at : at + step] for name, column in added.items()})


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("options", [{}, {"n_envs": 2}, {"next_of": None}], ids=str)
@pytest.mark.parametrize("content", ["smooth", "noise", "both"])
@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_equal_those_without_compression(kind, axis, dtype, content, options):
    plain, compressed = make(kind, axis, dtype, **options), make(kind, axis, dtype, compress="lz4", **options)
    added = steps(700, axis, dtype, content)
    for at in range(0, 700, 70):
        for buffer in (plain, compressed):
            fill(buffer, {name: column[at : at + 70] for name, column in added.items()})
        assert_same(plain.sample(50), compressed.sample(50))
    assert_same(plain.get_all_transitions(), compressed.get_all_transitions())


@pytest.mark.parametrize("axis", [0, -1])
def test_rows_are_correct_after_clear_and_after_episode_ends(axis):
    plain, compressed = make(ReplayBuffer, axis), make(ReplayBuffer, axis, compress="lz4")
    added = steps(300, axis)
    for buffer in (plain, compressed):
        fill(buffer, added, step=50)
        buffer.clear()
        assert buffer.get_stored_size() == 0
        buffer.on_episode_end()
        fill(buffer, added, step=20)
    assert_same(plain.sample(100), compressed.sample(100))


def test_memory_is_that_of_compressed_frames_after_many_laps():
    plain, compressed = make(ReplayBuffer, 0, size=2000), make(ReplayBuffer, 0, size=2000, compress="lz4")
    added, used = steps(6000, 0, content="smooth"), []
    for _ in range(4):
        for buffer in (plain, compressed):
            fill(buffer, added)
        used.append(compressed.nbytes)
    assert used[0] < plain.nbytes / 2
    assert used[-1] <= 1.05 * used[0]


@pytest.mark.parametrize("kind", KINDS)
def test_copies_and_files_contain_the_same_rows(kind):
    buffer, added = make(kind, 0, compress="lz4"), steps(500, 0)
    fill(buffer, added)
    copy = pickle.loads(pickle.dumps(buffer))
    assert copy.nbytes < make_full(kind).nbytes
    assert_same(copy.sample(50), buffer.sample(50))
    for options in ({}, {"compress": "lz4"}):
        file = io.BytesIO()
        buffer.save_transitions(file)
        file.seek(0)
        loaded = make(kind, 0, **options)
        loaded.load_transitions(file)
        assert_same(loaded.get_all_transitions(), buffer.get_all_transitions())


def make_full(kind: type) -> ReplayBuffer:
    buffer = make(kind, 0)
    fill(buffer, steps(500, 0))
    return buffer


def test_create_buffer_accepts_compress():
    fields = {"obs": {"shape": (STACK, 2, 2)}}
    assert create_buffer(8, fields, stack_compress={"obs": 0}, compress="lz4").get_buffer_size() == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compress": "zstd"}, "compress must be 'lz4' or None, got 'zstd'"),
        ({"compress": True}, "compress must be 'lz4' or None, got True"),
        ({"stack_compress": None}, "compress must be None unless stack_compress names the fields"),
        ({"mmap_prefix": "x"}, "compress must be None if mmap_prefix is given"),
    ],
)
def test_fields_that_cannot_be_compressed_are_refused(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fields = {"obs": {"shape": (STACK, 2, 2)}}
    with pytest.raises(ValueError, match=message):
        ReplayBuffer(8, fields, **{"stack_compress": {"obs": 0}, "compress": "lz4", **options})
    assert not list(tmp_path.iterdir())


WITHOUT_LZ4 = """
#include <dlfcn.h>
#include <string.h>
void* dlopen(const char* name, int flags) {
  if (name != 0 && strstr(name, "liblz4") != 0) name = "a library that is missing";
  return ((void* (*)(const char*, int))dlsym(RTLD_NEXT, "dlopen"))(name, flags);
}
"""
CONSTRUCTING = """
from cpprb_impl import ReplayBuffer
fields, stacks = {"obs": {"shape": (4, 8, 8)}}, {"obs": 0}
ReplayBuffer(8, fields, stack_compress=stacks)
for _ in range(2):
    try:
        ReplayBuffer(8, fields, stack_compress=stacks, compress="lz4")
    except RuntimeError as error:
        print(error)
"""


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_a_system_without_lz4_is_reported(tmp_path, monkeypatch):
    source, library = tmp_path / "without_lz4.c", tmp_path / "without_lz4.so"
    source.write_text(WITHOUT_LZ4, encoding="utf-8")
    compile_c = [COMPILER, "-x", "c", "-D_GNU_SOURCE", "-shared", "-fPIC", source, "-o", library]
    sanitizers = os.environ.get("LD_PRELOAD", "")
    subprocess.run(compile_c, check=True, timeout=100, env={**os.environ, "LD_PRELOAD": ""})
    monkeypatch.setenv("LD_PRELOAD", f"{sanitizers}:{library}")
    ended = subprocess.run(
        [sys.executable, "-c", CONSTRUCTING], timeout=100, capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    assert ended.stdout.count("compress='lz4' needs the library liblz4.so.1; install it") == 2


@pytest.mark.parametrize("kind", [MPReplayBuffer, MPPrioritizedReplayBuffer])
def test_shared_buffer_refuses_compress_with_the_reason(kind):
    with pytest.raises(ValueError, match="compress must be None in a shared buffer, whose frames have a fixed size"):
        kind(8, {"obs": {"shape": (4, 2)}}, stack_compress="obs", compress="lz4")
    kind(8, {"obs": {"shape": (4, 2)}}, stack_compress="obs", compress=None).close()
