"""A shard's rows outlive its supervisor, and can be saved to files and loaded."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from contextlib import closing

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer
from cpprb_impl.hosts import kept
from cpprb_impl.hosts.shard import Shard

from .conftest import FIELDS, ROWS, are_whole, layout_of, rows_with

KILLED = f"killed-{os.getpid()}"  # different in each worker of pytest-xdist
LAYOUT = layout_of(ROWS)


def supervise(keys, pipe, name) -> None:
    shard = Shard(name, 3, "127.0.0.1", "node", LAYOUT, keys)
    shard.buffer.add(**rows_with(np.arange(100)), priorities=np.arange(1.0, 101.0))
    pipe.send((shard.get_address(), shard.get_servers()))
    time.sleep(600)


@pytest.fixture
def killed(keys, started_servers):
    """Return the address and the servers of a shard whose supervisor was killed."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=supervise, args=(keys, there, KILLED))
    process.start()
    assert here.poll(60)
    found = here.recv()
    process.kill()
    process.join()
    return found


def ids(buffer) -> list[int]:
    return sorted(buffer.get_all_transitions()["id"].ravel().tolist())


def test_the_next_supervisor_takes_over_the_rows(killed, keys, learn):
    address, _ = killed
    with closing(Shard(KILLED, 4, "127.0.0.1", "node", LAYOUT, keys)) as shard:
        assert shard.get_address().number == 3 and shard.get_address().segment != address.segment
        assert ids(shard.buffer) == list(range(100)) and not kept.exists(address.segment)
        drawn = learn([shard]).sample(1000, 0.4)
        assert are_whole(drawn) and drawn["id"].mean() > 55  # these rows have the larger priorities
        name = shard.get_address().segment
    assert not kept.exists(name)


def test_rows_outlive_the_servers(killed, keys):
    _, servers = killed
    for server in servers.values():
        os.kill(server, signal.SIGKILL)
    while any(os.path.exists(f"/proc/{server}") for server in servers.values()):
        time.sleep(0.01)
    MPPrioritizedReplayBuffer(1, FIELDS).close()  # its constructor removes all segments that no process has locked
    with closing(Shard(KILLED, 4, "127.0.0.1", "node", LAYOUT, keys)) as shard:
        assert ids(shard.buffer) == list(range(100))


@pytest.mark.parametrize(
    ("buffer", "host"),
    [("other", "127.0.0.1"), (KILLED[:-1], "127.0.0.1"), (KILLED, "127.0.0.11")],
    ids=["another buffer", "another name", "another host"],
)
def test_a_shard_of_another_buffer_or_host_takes_over_no_rows(buffer, host, killed, keys):
    address, _ = killed
    with closing(Shard(buffer, 4, host, "node", LAYOUT, keys)) as shard:
        assert shard.get_address().number == 4 and ids(shard.buffer) == []
    kept.remove(address.segment)


def test_rows_that_cannot_be_taken_over_are_replaced_by_an_empty_shard(killed, keys):
    address, _ = killed
    kept.remove(address.segment)
    with closing(Shard(KILLED, 4, "127.0.0.1", "node", LAYOUT, keys)) as shard:
        assert shard.get_address().number == 4 and ids(shard.buffer) == []


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_rows_that_are_not_taken_over_are_removed(killed):
    address, servers = killed
    until = time.monotonic() + 4 * kept.WAIT_SECONDS
    while kept.exists(address.segment) or any(os.path.exists(f"/proc/{server}") for server in servers.values()):
        assert time.monotonic() < until
        time.sleep(0.2)


def move(file: list[bytes], shard: Shard, part: int = 0, parts: int = 1) -> None:
    shard.begin_to_load()
    for piece in file:
        shard.take_piece(piece)
    shard.load(part, parts)


def test_two_shards_share_the_rows_of_three(make_shards):
    three, two = make_shards(3), make_shards(2)
    for number, shard in enumerate(three):
        shard.buffer.add(**rows_with(1000 * number + np.arange(101)), priorities=np.full(101, number + 1.0))
    files = [list(shard.save()) for shard in three]
    for number in range(2):
        move(files[number], two[number])
        move(files[2], two[number], number, 2)
    assert [len(ids(shard.buffer)) for shard in two] == [151, 152]
    assert ids(two[0].buffer)[:101] == ids(three[0].buffer) and ids(two[1].buffer)[:101] == ids(three[1].buffer)
    assert sorted(ids(two[0].buffer)[101:] + ids(two[1].buffer)[101:]) == ids(three[2].buffer)
    assert all(are_whole(shard.buffer.get_all_transitions()) for shard in two)
    for shard in two:
        rows, leaves = shard.buffer.get_all_transitions()["id"].ravel(), shard.buffer._get_leaves(np.arange(151))
        assert leaves == pytest.approx((rows[:151] // 1000 + 1 + 1e-4) ** 0.6, rel=1e-5)


def test_a_file_that_was_truncated_changes_nothing(make_shards):
    source, target = make_shards(2)
    source.buffer.add(**rows_with(np.arange(100)))
    (file,) = source.save()
    with pytest.raises(ValueError, match="cut short"):
        move([file[: len(file) // 2]], target)
    assert ids(target.buffer) == []
    move([file], target)
    assert ids(target.buffer) == list(range(100))


def test_the_saved_file_is_that_of_a_buffer_on_one_host(make_shards, tmp_path):
    (shard,) = make_shards(1)
    shard.buffer.add(**rows_with(np.arange(100)))
    (tmp_path / "shard-0.npz").write_bytes(b"".join(shard.save()))
    alone = MPPrioritizedReplayBuffer(ROWS, FIELDS)
    alone.load_transitions(tmp_path / "shard-0.npz")
    assert ids(alone) == list(range(100))
    alone.close()
