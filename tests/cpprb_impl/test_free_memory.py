"""A buffer that will not fit is made, as in cpprb, but a warning says so before its rows exhaust the machine."""

from __future__ import annotations

import os
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer
from cpprb_impl.layout import free_memory

KIB = 1 << 10
ROW = {"x": {"shape": KIB, "dtype": np.uint8}}  # one KiB
STACK = {"obs": {"shape": (4, 2, KIB // 8), "dtype": np.uint8}}  # one KiB in four frames


@pytest.fixture
def small(monkeypatch):
    """Set the free bytes of each place, and check buffers of any size."""
    rooms = {"memory": 1 << 40, "group": 1 << 40, "/dev/shm": 1 << 40, "disk": 1 << 40}

    def statvfs(path):
        size = rooms["/dev/shm" if path == free_memory.SHM else "disk"]
        return SimpleNamespace(f_blocks=size, f_bavail=size, f_frsize=1)

    fake = SimpleNamespace(
        sysconf=lambda name: 1 if name == "SC_PAGE_SIZE" else rooms["memory"],
        statvfs=statvfs,
        stat=os.stat,
        path=os.path,
    )
    monkeypatch.setattr(free_memory, "os", fake)
    monkeypatch.setattr(free_memory, "group_limits", lambda: [rooms["group"]])
    monkeypatch.setattr(free_memory, "SMALL", 0)
    return rooms


def warnings_of(kind, size, fields, **options) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        buffer = kind(size, fields, **options)
    buffer.close()
    assert all(each.category is UserWarning and each.filename == __file__ for each in seen)
    return [str(each.message) for each in seen]


KINDS = [ReplayBuffer, PrioritizedReplayBuffer, MPReplayBuffer, MPPrioritizedReplayBuffer]


@pytest.mark.parametrize(("place", "name"), [("memory", "this machine"), ("group", "this process's cgroup")])
@pytest.mark.parametrize("kind", KINDS)
def test_a_buffer_larger_than_memory_causes_a_warning(kind, small, place, name):
    small[place] = 100 * KIB
    assert warnings_of(kind, 100, ROW) == []
    (text,) = warnings_of(kind, 101, ROW)
    assert text.startswith(f"the buffer needs 101.0 KiB of memory when it is full, but {name} has 100.0 KiB: ")
    assert "next_of" in text and "mmap_prefix" in text


def test_a_buffer_larger_than_shared_memory_causes_a_warning(small):
    small["/dev/shm"] = 100 * KIB
    assert warnings_of(ReplayBuffer, 200, ROW) == []
    (text,) = warnings_of(MPReplayBuffer, 200, ROW)
    assert "needs 200.0 KiB of memory when it is full, but /dev/shm has 100.0 KiB" in text


@pytest.mark.parametrize("kind", [ReplayBuffer, MPReplayBuffer])
def test_a_buffer_larger_than_the_disk_causes_a_warning(kind, small, tmp_path):
    small["disk"], small["memory"] = 100 * KIB, KIB
    prefix = str(tmp_path / "run")
    assert warnings_of(kind, 100, ROW, mmap_prefix=prefix) == []
    (text,) = warnings_of(kind, 300, ROW, mmap_prefix=prefix)  # replacing the old file frees 100 KiB
    assert f"needs 300.0 KiB of disk space when it is full, but the disk of {tmp_path} has 200.0 KiB" in text
    assert "mmap_prefix" not in text


@pytest.mark.parametrize(
    ("options", "bytes_per_row"),
    [
        ({}, KIB),
        ({"next_of": "obs"}, KIB),
        ({"next_of": "obs", "stack_compress": "obs"}, KIB // (KIB // 8)),
        ({"next_of": "obs", "stack_compress": {"obs": 0}}, KIB // 4),
        ({"next_of": "obs", "stack_compress": {"obs": 0}, "Nstep": {"size": 3}}, 2 * KIB // 4),
        ({"next_of": "obs", "stack_compress": {"obs": 0}, "compress": "lz4"}, 0),
    ],
)
def test_frames_that_are_stored_once_count_once(small, options, bytes_per_row):
    needed = 1000 * (bytes_per_row + 4)  # the field done adds 4 bytes
    small["memory"] = needed
    fields = STACK | {"done": {}}
    assert warnings_of(ReplayBuffer, 1000, fields, **options) == []
    small["memory"] = needed - 1
    assert len(warnings_of(ReplayBuffer, 1000, fields, **options)) == 1


def test_shared_files_store_whole_stacks(small, tmp_path):
    small["disk"] = 100 * KIB
    options = {"next_of": "obs", "stack_compress": "obs", "mmap_prefix": str(tmp_path / "run")}
    assert warnings_of(MPReplayBuffer, 50, STACK, **options) == []
    assert len(warnings_of(MPReplayBuffer, 200, STACK, **options)) == 1  # replacing the old files frees 100 KiB


def test_an_unknown_limit_causes_no_warning(small, monkeypatch, tmp_path):
    def fails(_path):
        raise OSError

    monkeypatch.setattr(free_memory.os, "statvfs", fails)
    assert warnings_of(MPReplayBuffer, 100, ROW) == []
    assert warnings_of(MPReplayBuffer, 100, ROW, mmap_prefix=str(tmp_path / "run")) == []


def test_a_buffer_larger_than_the_memory_of_this_machine_causes_a_warning():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with pytest.warns(UserWarning, match=r"needs [\d,.]+ GiB of memory when it is full, but this \S+ has [\d,.]+ GiB"):
        ReplayBuffer(memory // KIB + 1, ROW)
    assert warnings_of(ReplayBuffer, 1000, ROW) == []


VERSION_1 = "4:memory:/a/b\n3:cpu,cpuacct:/c\n"
VERSION_2 = "0::/a/b\n"


@pytest.mark.parametrize(
    ("groups", "files", "limits"),
    [
        (VERSION_2, {"a/b/memory.max": "max\n", "a/memory.max": "300\n"}, [300]),
        (VERSION_2, {"a/b/memory.max": "200\n", "a/memory.max": "300\n"}, [200, 300]),
        ("0::/\n", {"memory.max": "400\n"}, [400]),
        ("0::/\n", {}, []),
        (VERSION_1, {"memory/a/b/memory.limit_in_bytes": "100\n", "memory/memory.limit_in_bytes": "500\n"}, [100, 500]),
        (VERSION_1, {"memory/memory.limit_in_bytes": "500\n"}, [500]),  # seen from inside a container
        (VERSION_1 + "0::/\n", {"memory/a/memory.limit_in_bytes": "600\n"}, [600]),
    ],
)
def test_limits_of_control_groups_are_found(tmp_path, groups, files, limits):
    (tmp_path / "memory.max").write_text("1\n")  # outside the hierarchy
    (tmp_path / "groups").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "mounted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert list(free_memory.group_limits(tmp_path / "groups", tmp_path / "mounted")) == limits


def test_a_system_without_control_groups_has_no_limits(tmp_path):
    assert list(free_memory.group_limits(tmp_path / "none", tmp_path)) == []
