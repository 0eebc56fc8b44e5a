"""With mmap_prefix, one file per field contains the data."""

from __future__ import annotations

import errno
import mmap
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from .jobs import MADE_ENV_DICT, add_made_for_ever, explorers, wait_until
from .rows import ENV_DICT, make_rows, numbers_of, stored_numbers, torn_rows
from .test_prefault import answer_from
from .test_shared_frames import env_dict, episode, same

SHARED = [MPReplayBuffer, MPPrioritizedReplayBuffer]


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer, *SHARED])
def test_the_files_contain_the_data(kind: type, tmp_path) -> None:
    buffer = kind(10, ENV_DICT, mmap_prefix=tmp_path / "ring")
    buffer.add(**make_rows(0, 17))
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"ring_{name}.dat" for name in sorted(ENV_DICT)]
    assert sorted(numbers_of(buffer.get_all_transitions())) == list(range(7, 17))
    numbers_of(buffer.sample(100))
    act = np.fromfile(tmp_path / "ring_act.dat", np.int64)
    assert act.tolist() == [*range(10, 17), *range(7, 10)]
    obs = np.fromfile(tmp_path / "ring_obs.dat", np.float32).reshape(10, 4)
    assert (obs[:, 0] == act).all()


def test_the_files_remain_and_are_overwritten(tmp_path) -> None:
    for first in (0, 100):
        buffer = ReplayBuffer(4, ENV_DICT, mmap_prefix=str(tmp_path / "ring"))
        assert buffer.get_stored_size() == 0
        buffer.add(**make_rows(first, 4))
        del buffer
        assert np.fromfile(tmp_path / "ring_act.dat", np.int64).tolist() == list(range(first, first + 4))


def test_a_second_buffer_with_the_same_files_does_not_change_the_first(tmp_path) -> None:
    """Runs in a child process, which a bus error would kill."""
    child = os.fork()
    if child == 0:
        first = ReplayBuffer(10_000, ENV_DICT, mmap_prefix=tmp_path / "ring")
        first.add(**make_rows(0, 10_000))
        ReplayBuffer(10, ENV_DICT, mmap_prefix=tmp_path / "ring").add(**make_rows(500_000, 10))
        numbers = numbers_of(first.get_all_transitions())
        os._exit(0 if sorted(numbers) == list(range(10_000)) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.fromfile(tmp_path / "ring_act.dat", np.int64).tolist() == list(range(500_000, 500_010))


def inodes_in_use(folder: Path) -> set[int]:
    """Return the inodes of files in `folder` that this process has mapped, including replaced ones."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {int(line.split()[4]) for line in lines if str(folder) in line}


def make_at_once(rounds: int, me: int, arrived: memoryview, kind: type, folder: Path) -> None:
    """Make a buffer of the same files as another process in each round; write the results to a file."""
    seen = []
    for nth in range(1, rounds + 1):
        arrived[me] = nth
        while arrived[1 - me] < nth:
            os.sched_yield()
        buffer = kind(4, {"act": {"dtype": np.int64}}, mmap_prefix=folder / "ring")
        for row in range(100):
            buffer.add(act=1000 * me + row)
        inodes = inodes_in_use(folder)
        arrived[2 + me] = nth
        while arrived[3 - me] < nth:
            os.sched_yield()
        whole = stored_numbers_of(buffer) == [1000 * me + row for row in range(96, 100)]
        seen.append(f"{whole} {' '.join(map(str, inodes))}")
        buffer.close()
    (folder / f"seen_{me}").write_text("\n".join(seen))


def stored_numbers_of(buffer) -> list[int]:
    return sorted(buffer.get_all_transitions()["act"].ravel().tolist())


@pytest.mark.parametrize("kind", [ReplayBuffer, MPReplayBuffer])
def test_buffers_made_at_the_same_moment_have_separate_files(kind: type, tmp_path) -> None:
    rounds = 60
    with mmap.mmap(-1, mmap.PAGESIZE) as shared:
        children = []
        for me in range(2):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    make_at_once(rounds, me, memoryview(shared).cast("q"), kind, tmp_path)
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        statuses = dict([os.wait()])
        if any(statuses.values()):  # otherwise the other process would wait for it forever
            os.kill((set(children) - set(statuses)).pop(), signal.SIGKILL)
        statuses |= [os.wait()]
        assert [statuses[child] for child in children] == [0, 0]
    pairs = list(zip(*((tmp_path / f"seen_{me}").read_text().splitlines() for me in range(2)), strict=True))
    assert len(pairs) == rounds
    mixed = [pair for pair in pairs if not all(seen.startswith("True ") for seen in pair)]
    one_file = [pair for pair in pairs if set(pair[0].split()[1:]) & set(pair[1].split()[1:])]
    assert (len(mixed), len(one_file)) == (0, 0)


def test_a_link_is_followed_to_a_file_that_another_buffer_uses(tmp_path) -> None:
    """Runs in a child process, which a bus error would kill if the file were truncated."""
    (tmp_path / "large").mkdir()
    (tmp_path / "ring_act.dat").symlink_to("to_act")  # a link to a link, relative to its folder
    (tmp_path / "to_act").symlink_to(tmp_path / "large" / "act")
    child = os.fork()
    if child == 0:
        buffers = [ReplayBuffer(10_000, {"act": {"dtype": np.int64}}, mmap_prefix=tmp_path / "ring") for _ in range(2)]
        for first, buffer in enumerate(buffers):
            buffer.add(act=np.arange(10_000) + first)
        held = [buffer.get_all_transitions()["act"][:2, 0].tolist() for buffer in buffers]
        os._exit(0 if held == [[0, 1], [1, 2]] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (tmp_path / "ring_act.dat").is_symlink()
    assert np.fromfile(tmp_path / "large" / "act", np.int64)[:2].tolist() == [1, 2]


def test_a_path_that_is_not_a_file_is_not_replaced(tmp_path) -> None:
    (tmp_path / "ring_act.dat").mkdir()
    with pytest.raises(IsADirectoryError, match=r"ring_act\.dat"):
        ReplayBuffer(4, {"act": {}}, mmap_prefix=tmp_path / "ring")
    (tmp_path / "pipe_act.dat").symlink_to(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="pipe"):
        ReplayBuffer(4, {"act": {}}, mmap_prefix=tmp_path / "pipe")
    (tmp_path / "loop_act.dat").symlink_to(tmp_path / "loop_act.dat")
    with pytest.raises(OSError, match=r"loop_act\.dat") as error:
        ReplayBuffer(4, {"act": {}}, mmap_prefix=tmp_path / "loop")
    assert error.value.errno == errno.ELOOP


def test_a_link_to_another_disk_is_followed(tmp_path) -> None:
    (tmp_path / "large").mkdir()
    for name in ENV_DICT:
        (tmp_path / f"ring_{name}.dat").symlink_to(tmp_path / "large" / name)
    ReplayBuffer(4, ENV_DICT, mmap_prefix=tmp_path / "ring").add(**make_rows(0, 4))
    assert np.fromfile(tmp_path / "large" / "act", np.int64).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("options", [{}, {"next_of": "obs"}])
def test_a_forked_child_reads_but_never_writes(tmp_path, options) -> None:
    env = {name: field for name, field in ENV_DICT.items() if name != "next_obs"} if options else ENV_DICT
    buffer = ReplayBuffer(100, env, mmap_prefix=tmp_path / "ring", **options)
    buffer.add(**make_rows(0, 100))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            numbers_of(buffer.sample(50))
            buffer.add(**make_rows(1000, 60))
        except RuntimeError as error:
            status = 0 if "mmap_prefix" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(numbers_of(buffer.get_all_transitions())) == list(range(100))


def test_shared_frames_are_stored_in_the_files(tmp_path) -> None:
    buffer = ReplayBuffer(10, env_dict(), next_of="obs", stack_compress="obs", mmap_prefix=tmp_path / "ring")
    rows = episode(0, 10)
    buffer.add(**rows)
    same(buffer.get_all_transitions(), rows)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ring_act.dat", "ring_done.dat", "ring_obs.dat"]
    assert rows["obs"][5, ..., 0].tobytes() in (tmp_path / "ring_obs.dat").read_bytes()
    for at in range(20, 400, 10):
        buffer.add(**episode(at, 10))
    same(buffer.get_all_transitions(), episode(390, 10))


@pytest.mark.parametrize("options", [{"next_of": "obs"}, {"stack_compress": "obs"}])
def test_a_file_that_grows_has_one_mapping(options: dict, tmp_path) -> None:
    """Linux allows a process 65,530 mappings. With mappings of 256 KiB, this limit was reached at about 15 GB."""
    env = {"obs": {"shape": (1024, 4), "dtype": np.uint8}}
    buffer = ReplayBuffer(20_000, env, mmap_prefix=tmp_path / "ring", **options)
    file = tmp_path / "ring_obs.dat"

    def mappings() -> int:
        return Path("/proc/self/maps").read_text().count(str(file))

    rows = np.random.default_rng(1).integers(0, 256, (2001, 1024, 4), np.uint8)
    sizes = [file.stat().st_blocks * 512]
    for first in range(0, 2000, 500):
        part = {"obs": rows[first : first + 500]}
        if "next_of" in options:
            part["next_obs"] = rows[first + 1 : first + 501]
        buffer.add(**part)
        assert mappings() == 1
        sizes.append(file.stat().st_blocks * 512)
    # The used part, rounded up to a chunk of 256 KiB.
    for count, size in zip(range(0, 2500, 500), sizes, strict=True):
        assert 4096 * count <= size <= 4096 * count + (1 << 19)
    held = buffer.get_all_transitions()
    assert (held["obs"] == rows[:2000]).all()
    buffer.close()
    assert mappings() == 0


def test_frames_that_share_nothing_fit_into_their_file(tmp_path) -> None:
    """Stores as many frames as possible: a full ring, and the same number of rows that are being added."""
    env = {"obs": {"shape": (4096, 3), "dtype": np.uint8}}
    buffer = ReplayBuffer(50, env, mmap_prefix=tmp_path / "ring", next_of="obs", stack_compress="obs")
    random = np.random.default_rng(1)
    for _ in range(6):
        rows = {name: random.integers(0, 256, (70, 4096, 3), np.uint8) for name in ("obs", "next_obs")}
        buffer.add(**rows)
        held = buffer.get_all_transitions()
        for name, column in rows.items():
            assert {row.tobytes() for row in held[name]} == {row.tobytes() for row in column[20:]}


def test_a_lack_of_address_space_for_a_file_raises_an_exception(tmp_path) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), hard))
    try:
        with pytest.raises(OSError, match=r"ring_obs\.dat.* [0-9.]+ GiB of address space") as error:
            ReplayBuffer(1 << 20, {"obs": {"shape": 7056}}, next_of="obs", mmap_prefix=tmp_path / "ring")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert error.value.errno == errno.ENOMEM


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer, *SHARED])
@pytest.mark.parametrize("rows", [(1 << 61) + 1, (1 << 61) - 1, 1 << 59])
def test_a_size_that_wraps_around_is_refused_before_any_file_is_made(kind: type, rows: int, tmp_path) -> None:
    """2^61 rows of 8 bytes once made a file of 0 or 8 bytes, and the second `add` crashed."""
    (tmp_path / "ring_act.dat").write_text("an older buffer's")
    with pytest.raises(MemoryError, match="bytes"):
        kind(rows, {"act": {"dtype": np.int64, "shape": 4}}, mmap_prefix=tmp_path / "ring")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["an older buffer's"]


def test_a_missing_folder_raises_file_not_found() -> None:
    with pytest.raises(FileNotFoundError, match=r"ring_obs\.dat"):
        ReplayBuffer(4, ENV_DICT, mmap_prefix="/nowhere/at/all/ring")


def test_a_full_disk_raises_an_exception() -> None:
    """/dev/shm represents a small disk. A buffer that does not fit is refused at construction, not by a bus error."""
    from pathlib import Path

    with pytest.raises(OSError, match="cpprb_impl-full") as error:
        ReplayBuffer(1 << 42, {"a": {}}, mmap_prefix="/dev/shm/cpprb_impl-full")
    for file in Path("/dev/shm").glob("cpprb_impl-full*"):
        file.unlink()
    assert error.value.errno in (errno.ENOSPC, errno.EFBIG, errno.ENOMEM)


def test_buffers_in_files_are_not_copied(tmp_path) -> None:
    import copy

    buffer = ReplayBuffer(4, ENV_DICT, mmap_prefix=tmp_path / "ring")
    buffer.add(**make_rows(0, 3))
    with pytest.raises(TypeError, match="mmap_prefix"):
        copy.deepcopy(buffer)
    assert sorted(numbers_of(buffer.get_all_transitions())) == [0, 1, 2]


def add_ten(buffer, first: int) -> int:
    buffer.add(**make_rows(first, 10))
    return len(numbers_of(buffer.sample(5)))


@pytest.mark.parametrize("kind", SHARED)
def test_all_processes_map_the_same_files(kind: type, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    buffer = kind(40, ENV_DICT, mmap_prefix="ring")
    for first, method in enumerate(["fork", "spawn", "forkserver"]):
        assert answer_from(multiprocessing.get_context(method), add_ten, buffer, first * 10) == 5
    monkeypatch.undo()  # back to the folder from which tests can be imported
    code = f"""if True:
        import sys
        from cpprb_impl import {kind.__name__}
        from tests.cpprb_impl.test_mapped_files import add_ten
        add_ten({kind.__name__}.attach(sys.argv[1]), 30)
    """
    subprocess.run([sys.executable, "-c", code, buffer.segment], check=True, timeout=60)
    assert stored_numbers(buffer) == list(range(40))
    buffer.close()
    assert np.fromfile(tmp_path / "ring_act.dat", np.int64).tolist() == list(range(40))


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("lock", ["none", "critical", "buffer"])
def test_rows_in_files_are_never_torn(kind: type, lock: str, tmp_path) -> None:
    buffer = kind(64, MADE_ENV_DICT, mmap_prefix=tmp_path / "ring", lock=lock)
    with explorers(add_made_for_ever, buffer, 3) as (_, added):
        wait_until(lambda: all(counter.value for counter in added))
        until = time.monotonic() + (0.6 if lock == "none" else 0.1)
        while time.monotonic() < until:
            assert not torn_rows(buffer.sample(500)).any()
    numbers_of(buffer.get_all_transitions())
    buffer.close()


def test_attaching_to_replaced_files_is_refused(tmp_path) -> None:
    first = MPReplayBuffer(40, ENV_DICT, mmap_prefix=tmp_path / "ring")
    first.add(**make_rows(0, 40))
    second = MPReplayBuffer(40, ENV_DICT, mmap_prefix=tmp_path / "ring")
    second.add(**make_rows(40, 40))
    with pytest.raises(RuntimeError, match=f"{first.segment} .* another buffer with the same mmap_prefix has replaced"):
        MPReplayBuffer.attach(first.segment)
    assert stored_numbers(first) == list(range(40))
    other = MPReplayBuffer.attach(second.segment)
    assert stored_numbers(other) == stored_numbers(second) == list(range(40, 80))
    other.close()
    first.close()
    os.truncate(tmp_path / "ring_obs.dat", 100)
    with pytest.raises(RuntimeError, match=r"ring_obs\.dat was cut short"):
        MPReplayBuffer.attach(second.segment)
    (tmp_path / "ring_obs.dat").unlink()
    with pytest.raises(FileNotFoundError, match=r"ring_obs\.dat"):
        MPReplayBuffer.attach(second.segment)
    second.close()


def test_files_that_cannot_be_made_leave_no_segment() -> None:
    def segments() -> set[Path]:
        return set(Path("/dev/shm").glob(f"cpprb_impl-{os.getpid()}-*"))

    before = segments()
    with pytest.raises(FileNotFoundError, match=r"ring_obs\.dat"):
        MPReplayBuffer(4, ENV_DICT, mmap_prefix="/nowhere/at/all/ring")
    assert segments() == before
