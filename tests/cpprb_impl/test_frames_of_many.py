"""Shared buffers store each frame once: rows are returned as added, by any process, and memory is saved."""

from __future__ import annotations

import errno
import itertools
import mmap
import multiprocessing
import os
import pickle
import random
import struct
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer
from cpprb_impl.layout.options import LOCKS
from tests.grids import pairwise

from . import framed_rows as framed
from .test_prefault import EXCEEDS, FALLOCATE, answer_from, refuse
from .test_shared_frames import OPTIONS, add_all, env_dict, episode, joined, newest, same, wanted

KINDS = [MPReplayBuffer, MPPrioritizedReplayBuffer]
EACH_KIND = pytest.mark.parametrize("kind", KINDS)
EACH_LOCK = pytest.mark.parametrize("lock", LOCKS)
pytestmark = pytest.mark.timeout(240)


def memory(buffer) -> int:
    return os.stat(f"/dev/shm{buffer.segment}").st_blocks * 512


@pytest.fixture
def make():
    made = []

    def build(kind, *args, **options):
        made.append(kind(*args, **options))
        return made[-1]

    yield build
    for buffer in made:
        buffer.close()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@EACH_KIND
@pytest.mark.parametrize("ends", [True, False], ids=["ends reported", "ends forgotten"])
@pytest.mark.parametrize("piece", [1, 7, 64])
@pytest.mark.parametrize("capacity", [1, 3, 20, 200])
def test_rows_are_returned_unchanged(make, options, kind, ends, piece, capacity):
    rows = wanted(joined(episode(0, 13), episode(50, 1), episode(90, 40), episode(150, 2), episode(200, 30)), options)
    buffer = make(kind, capacity, env_dict(), **options)
    add_all(buffer, rows, piece, ends)
    held = newest(rows, capacity)
    same(buffer.get_all_transitions(), held)
    batch = buffer.sample(64)
    slots = [held["act"].tolist().index(act) for act in batch["act"].ravel()]
    same({key: batch[key] for key in held}, {key: column[slots] for key, column in held.items()})


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64, bool])
@pytest.mark.parametrize("stack", [1, 2, 3, 4, 8, 70])
@pytest.mark.parametrize("frame", [(), (1,), (2, 3)])
def test_every_element_size_and_stack_is_stored(make, dtype, stack, frame):
    rows = joined(*(episode(at, 9, dtype, frame, stack) for at in (0, 100)))
    for options in OPTIONS[:3]:
        buffer = make(MPReplayBuffer, 11, env_dict(dtype, frame, stack), **options)
        add_all(buffer, wanted(rows, options), 1, ends=False)
        same(buffer.get_all_transitions(), newest(wanted(rows, options), 11))


HISTORIES = st.lists(
    st.tuples(
        st.sampled_from(["episode", "on", "clear", "same again", "noise", "together", "fork"]),
        st.integers(0, 2),  # the explorer
        st.integers(1, 12),
    ),
    max_size=25,
)


def part_of(what: str, first: int, last: int, steps: int, rng: np.random.Generator) -> dict:
    """Return the rows of one call. `last` is the frame number that the explorer had reached."""
    part = episode(last if what == "on" else first, steps)
    if what == "same again":
        part = {key: np.repeat(column[:1], steps, axis=0) for key, column in part.items()}
    if what == "noise":
        for name in ("obs", "next_obs"):
            part[name] = rng.integers(0, 3, part[name].shape, dtype=np.uint8)
    if what == "together":  # two environments alternate
        both = [part, episode(first + 1000, steps)]
        part = {key: np.stack([each[key] for each in both], 1).reshape(-1, *part[key].shape[1:]) for key in part}
    return part


@settings(max_examples=100, deadline=None)
@given(HISTORIES, st.integers(1, 40), st.sampled_from(OPTIONS[:3]), st.sampled_from(KINDS), st.sampled_from(LOCKS))
def test_any_history_of_several_explorers_yields_the_rows_of_whole_storage(history, capacity, options, kind, lock):
    """Compares each byte with a buffer that stores every value whole, after the same calls."""
    rng = np.random.default_rng(1)
    fields = env_dict() if "next_of" not in options else {**env_dict(), "next_obs": env_dict()["obs"]}
    plain, once = kind(capacity, fields, lock=lock), kind(capacity, env_dict(), lock=lock, **options)
    who = [once, kind.attach(once.segment), pickle.loads(pickle.dumps(once))]
    first, last, added = 0, [0, 0, 0], 0
    try:
        for what, explorer, steps in history:
            if what == "clear":
                for each in (plain, who[explorer]):
                    each.clear()
                continue
            part = wanted(part_of(what, first, last[explorer], steps, rng), options)
            first = last[explorer] = first + steps
            part["act"] = np.arange(added, added + len(part["act"]))
            added += len(part["act"])
            plain.add(**part)
            if what == "fork":
                assert framed.has_ended_well(framed.forked(lambda e=explorer, p=part: who[e].add(**p)))
            else:
                add_all(who[explorer], part, 1 + steps % 5, ends=steps % 2 == 0)
            assert once.get_stored_size() == plain.get_stored_size()
            assert once.get_next_index() == plain.get_next_index()
        for each in who:
            same(each.get_all_transitions(), plain.get_all_transitions())
        if plain.get_stored_size():
            batch = who[1].sample(32)
            slots = plain.get_all_transitions()["act"].ravel().tolist()
            at = [slots.index(act) for act in batch["act"].ravel()]
            same({key: batch[key] for key in part}, plain.get(at))
    finally:
        for each in (plain, *reversed(who)):
            each.close()


def look_while(buffer, children: list[int], kills: random.Random | None, seconds: float) -> None:
    """Sample while children add. Some children are killed and replaced. Ends after some rows were read."""
    read, deadline, number = 0, time.monotonic() + seconds, 100
    while time.monotonic() < deadline or read == 0:
        for _ in range(20):
            try:
                batch = buffer.sample(16)
            except ValueError:  # no explorer has added rows yet, or it was killed
                time.sleep(0.001)
                continue
            assert framed.torn(batch) == 0
            read += 16
            if isinstance(buffer, MPPrioritizedReplayBuffer):
                buffer.update_priorities(batch["indexes"], np.linspace(0.1, 2, 16))
        assert framed.torn(buffer.get_all_transitions()) == 0
        if kills:
            victim = kills.randrange(len(children))
            framed.kill(children[victim])
            number += 1
            children[victim] = framed.forked(framed.explore, buffer, number, None, number)


@pairwise(lock=LOCKS, kind=KINDS, capacity=[2, 64, 500], kills=[False, True])
def test_many_processes_store_whole_frames(make, lock, kind, capacity, kills):
    buffer = make(kind, capacity, framed.ENV_DICT, lock=lock, **framed.OPTIONS)
    children = [framed.forked(framed.explore, buffer, i + 1, None, i) for i in range(3)]
    try:
        # A reader with a lock could return torn rows only if both the lock and its check of each row failed.
        look_while(buffer, children, random.Random(capacity) if kills else None, 0.5 if lock == "none" else 0.1)
    finally:
        for child in children:
            framed.kill(child)
    used = memory(buffer)
    # Whatever the dead processes have left behind, rows added now are all stored, and the ring fills again.
    for lap in range(3):
        framed.explore(buffer, 1000 + lap, 2 * capacity + 2, lap)
    everything = buffer.get_all_transitions()
    assert len(everything["id"]) == capacity and framed.torn(everything) == 0
    assert memory(buffer) <= used + capacity * 512 + (1 << 16)


@EACH_LOCK
def test_threads_store_whole_frames(make, lock):
    buffer = make(MPReplayBuffer, 64, framed.ENV_DICT, lock=lock, **framed.OPTIONS)
    adding = [threading.Thread(target=framed.explore, args=(buffer, i, 1500, i)) for i in range(4)]
    for thread in adding:
        thread.start()
    while any(thread.is_alive() for thread in adding):
        if buffer.get_stored_size():
            assert framed.torn(buffer.sample(16)) == 0
    everything = buffer.get_all_transitions()
    assert len(everything["id"]) == 64 and framed.torn(everything) == 0


def test_large_calls_of_concurrent_threads_store_whole_frames(make):
    """Copies of more than 1 MiB release the GIL, so that other threads add meanwhile."""
    frame = (64, 64)
    buffer = make(MPReplayBuffer, 300, env_dict(frame=frame), **OPTIONS[0])
    parts = [episode(1000 * i, 80, frame=frame) for i in range(3)]
    threads = [threading.Thread(target=lambda p=p: [buffer.add(**p) for _ in range(10)]) for p in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = buffer.get_all_transitions()
    known = {int(act): (part, i) for part in parts for i, act in enumerate(part["act"])}
    assert len(everything["act"]) == 300
    for j, act in enumerate(everything["act"].ravel()):
        part, i = known[int(act)]
        for name in ("obs", "next_obs"):
            np.testing.assert_array_equal(everything[name][j], part[name][i])


ATARI = (84, 84)
ROW = 8 + 2 * 8 + 8 + 8  # its word, two references, act, and done with padding


def play(buffer, episodes: int, calls: list[dict]) -> None:
    for _ in range(episodes):
        for rows in calls:
            buffer.add(**rows)


@pytest.mark.slow
def test_frames_take_little_more_memory_than_if_each_were_stored_once(make):
    """Measures several laps of episodes of 500 steps."""
    capacity = 4000
    buffer = make(MPReplayBuffer, capacity, env_dict(frame=ATARI), **framed.OPTIONS)
    empty = memory(buffer)
    calls = [
        {key: column[at : at + 20] for key, column in episode(0, 500, frame=ATARI).items()} for at in range(0, 500, 20)
    ]
    # The minimum is each frame once. Since chunks begin with a whole stack and some are not full, it is a little more.
    most = capacity * (1.15 * 84 * 84 + ROW)
    play(buffer, 2 * capacity // 500, calls)
    after = memory(buffer)
    assert capacity * 84 * 84 < after - empty and after < most + empty - capacity * ROW
    assert after <= buffer.nbytes + 4096 and buffer.nbytes <= most + empty
    play(buffer, 5 * capacity // 500, calls)
    assert memory(buffer) <= after + (1 << 20)
    whole = make(MPReplayBuffer, capacity, {**env_dict(frame=ATARI), "next_obs": env_dict(frame=ATARI)["obs"]})
    assert memory(whole) > 6.5 * after  # the control


@EACH_KIND
def test_clearing_repeatedly_takes_no_more_memory(make, kind):
    buffer = make(kind, 1000, framed.ENV_DICT, **framed.OPTIONS)
    used = []
    for lap in range(60):
        framed.explore(buffer, lap, 300, lap)
        buffer.clear()
        used.append(memory(buffer))
    assert used[-1] <= 1.3 * used[3]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_short_lived_processes(make):
    """A chunk belongs to a registration, which calls of add() use in turn, not to a process."""
    buffer = make(
        MPReplayBuffer, 1000, {**framed.ENV_DICT, "obs": {"shape": (64, 64, 4), "dtype": np.uint8}}, **OPTIONS[1]
    )
    obs = np.random.default_rng(0).integers(0, 256, (64, 64, 4), dtype=np.uint8)
    used = []
    for life in range(400):
        assert framed.has_ended_well(framed.forked(lambda n=life: buffer.add(obs=obs + np.uint8(n % 256), id=n)))
        used.append(memory(buffer))
    everything = buffer.get_all_transitions()
    assert (everything["obs"] == obs + everything["id"].astype(np.uint8)[:, :, None, None]).all()
    chunk = max(b - a for a, b in itertools.pairwise(used))
    # 400 rows of four frames, and at most one chunk per registration, not one per process.
    assert used[-1] - used[0] < 400 * 4 * 64 * 64 + 256 * chunk


def added_where_there_is_no_room(buffer):
    refuse(FALLOCATE, 3, EXCEEDS, 0, errno.ENOSPC)
    before, added = buffer.get_all_transitions(), 0
    with pytest.raises(OSError, match="No space") as caught:
        for added in range(10_000):
            buffer.add(**framed.rows(framed.numbered(1000 + 10 * added, 3)))
    assert caught.value.errno == errno.ENOSPC
    large = framed.rows(framed.numbered(50_000, 100))
    with pytest.raises(OSError, match="No space"):
        buffer.add(**large)
    after = buffer.get_all_transitions()
    assert len(after["id"]) == len(before["id"]) + 3 * added  # failed calls have changed nothing
    assert framed.torn(after) == 0 and framed.torn(buffer.sample(50)) == 0
    return 3 * added


@EACH_LOCK
@EACH_KIND
def test_a_full_dev_shm_is_an_error_before_anything_is_changed(make, kind, lock):
    buffer = make(kind, 4000, framed.ENV_DICT, lock=lock, **framed.OPTIONS)
    buffer.add(**framed.rows(framed.numbered(0, 100)))
    added = answer_from(multiprocessing.get_context("fork"), added_where_there_is_no_room, buffer)
    # There is room again, and no row was lost meanwhile.
    buffer.add(**framed.rows(framed.numbered(90_000, 1000)))
    everything = buffer.get_all_transitions()
    assert len(everything["id"]) == 1100 + added and framed.torn(everything) == 0


def move_head(buffer, known: int, by: int) -> None:
    """Advance the head, as if explorers had claimed rows and were stopped before marking any."""
    with open(f"/dev/shm{buffer.segment}", "r+b") as file, mmap.mmap(file.fileno(), 4096) as header:
        at = [i for i in range(64, 4096, 64) if struct.unpack_from("Q", header, i)[0] == known]
        assert len(at) == 1
        struct.pack_into("Q", header, at[0], known + by)


@EACH_KIND
def test_a_row_whose_frames_may_be_reused_is_not_read(make, kind):
    """The row is still in its slot, but its number has expired. Buffers that store values whole still return it."""
    capacity, count = 40, 130
    once = make(kind, capacity, framed.ENV_DICT, **framed.OPTIONS)
    plain = make(kind, capacity, {**framed.ENV_DICT, "next_obs": framed.ENV_DICT["obs"]})
    for buffer in (once, plain):
        buffer.add(**framed.rows(framed.numbered(0, count)))
        assert len(buffer.get_all_transitions()["id"]) == capacity
        move_head(buffer, count, 15)
    assert len(plain.get_all_transitions()["id"]) == capacity
    kept = once.get_all_transitions()
    assert kept["id"].ravel().tolist() == [*range(120, 130), *range(105, 120)]
    for batch in (kept, once.sample(500), once.get(np.arange(10))):
        assert framed.torn(batch) == 0 and batch["id"].min() >= 105
    with pytest.raises(IndexError):
        once.get([10])
    move_head(once, count + 15, capacity)
    with pytest.raises(RuntimeError, match="overwritten"):
        once.sample(1)
    # Rows with other numbers now reuse all those frames.
    once.add(**framed.rows(framed.numbered(5000, 20)))
    kept = once.get_all_transitions()
    assert len(kept["id"]) == 20 and framed.torn(kept) == 0


def test_values_smaller_than_a_reference_are_stored_in_their_rows(make):
    buffer = make(MPReplayBuffer, 1000, {"obs": {"shape": 4}}, next_of="obs")
    used = buffer.nbytes
    buffer.add(obs=np.arange(4000), next_obs=np.arange(4000))
    assert buffer.nbytes == used
    plain = make(MPReplayBuffer, 1000, {"obs": {"shape": 4}, "next_obs": {"shape": 4}})
    assert abs(buffer.nbytes - plain.nbytes) <= 4096


def test_buffers_in_files_store_values_whole(make, tmp_path):
    rows = episode(0, 50)
    buffer = make(MPReplayBuffer, 40, env_dict(), **framed.OPTIONS, mmap_prefix=tmp_path / "rows")
    buffer.add(**rows)
    same(buffer.get_all_transitions(), newest(rows, 40))
    assert (tmp_path / "rows_next_obs.dat").stat().st_size >= 40 * 60


def test_a_fresh_interpreter_attaches_and_shares_frames(make):
    buffer = make(MPReplayBuffer, 100, framed.ENV_DICT, **framed.OPTIONS)
    buffer.add(**framed.rows(framed.numbered(0, 30)))
    assert answer_from(multiprocessing.get_context("spawn"), add_and_read, buffer) == (30, 0)
    everything = buffer.get_all_transitions()
    assert len(everything["id"]) == 60 and framed.torn(everything) == 0


def add_and_read(buffer):
    before = buffer.get_all_transitions()
    for i in range(30):
        buffer.add(**framed.rows(framed.numbered(1000 + i, 1)))
    return len(before["id"]), framed.torn(before)
