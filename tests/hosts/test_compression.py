"""Compressed parts of messages, and the choice of whether to compress."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import zmq
from cramjam import lz4

from cpprb_impl.buffers.shared import MPPrioritizedReplayBuffer
from cpprb_impl.hosts import wire
from cpprb_impl.hosts.choice import CompressionChoice
from cpprb_impl.hosts.explorer import RemoteExplorer
from cpprb_impl.hosts.link import Link
from cpprb_impl.hosts.server import DRAWING, Drawer, ServerSettings, bound, serve
from cpprb_impl.hosts.wire import Malformed, Reply, Request

from .conftest import layout_of

FIELDS = {"id": {"dtype": np.int64}, "noise": {"shape": 20}, "image": {"shape": (30, 30), "dtype": np.uint8}}
ROWS = 500


def rows_of(ids: np.ndarray) -> dict[str, np.ndarray]:
    """Return rows that certify themselves; the images can be compressed, and the noise cannot."""
    noise = np.stack([np.random.default_rng(number).random(20, np.float32) for number in ids])
    return {"id": ids, "noise": noise, "image": np.repeat(ids % 251, 900).reshape(-1, 30, 30).astype(np.uint8)}


def are_identical(batch) -> bool:
    expected = rows_of(batch["id"].ravel())
    return all(batch[name].tobytes() == expected[name].tobytes() for name in FIELDS)


# Parts of messages.


@pytest.mark.parametrize("dtype", ["u1", "?", "<f4", ">f4", "<i8", "<c16", "<f2"])
@pytest.mark.parametrize("shape", [(0, 3), (3,), (500, 7), (40, 8, 8, 2)])
def test_a_decompressed_part_is_the_same_array(dtype, shape):
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    part = bytes(wire.pack(array))
    (found,) = wire.arrays([part], len(array), [("x", dtype, shape[1:])], packed=True).values()
    np.testing.assert_array_equal(found, array)
    assert (len(part) < array.nbytes) is (array.nbytes >= wire.SMALL)


def test_incompressible_data_remain_uncompressed():
    noise = np.frombuffer(os.urandom(100_000), np.uint8)
    assert wire.pack(noise) is noise


GOOD = bytes(lz4.compress_block(bytes(4000), store_size=False))
BAD = {
    "no bytes": b"",
    "garbage": os.urandom(1000),
    "truncated": GOOD[:-1],
    "continued": GOOD + b"\0",
    "of a larger array": bytes(lz4.compress_block(bytes(4001), store_size=False)),
    "of a smaller array": bytes(lz4.compress_block(bytes(3999), store_size=False)),
    "of a far larger array": bytes(lz4.compress_block(bytes(900_000), store_size=False)),
}


@pytest.mark.parametrize("part", BAD.values(), ids=BAD)
def test_a_bad_part_is_refused_and_nothing_outside_the_array_is_written(part):
    around = np.full(12_000, 7, np.uint8)
    with pytest.raises(Malformed):
        wire.unpack(part, around[4000:8000])
    assert (around[:4000] == 7).all() and (around[8000:] == 7).all()
    wire.unpack(GOOD, around[4000:8000])  # the control
    assert (around[4000:8000] == 0).all()


def test_a_part_with_an_impossible_number_of_rows_is_refused_before_allocation():
    with pytest.raises(Malformed, match=r"x must have \d{15} bytes for 4294967295 rows, got 1000"):
        wire.arrays([bytes(1000)], 2**32 - 1, [("x", "<f8", (84, 84))], packed=True)


def test_parts_are_decompressed_only_if_compression_is_allowed():
    part = bytes(wire.pack(np.zeros(1000)))
    with pytest.raises(Malformed, match="x must have 8000 bytes for 1000 rows"):
        wire.arrays([part], 1000, [("x", "<f8", ())])


# The choice of whether to compress.


def simulated(
    choice: CompressionChoice, seconds: Callable[[bool], float], until: float, now: float = 0.0
) -> tuple[float, float]:
    """Send messages, always 3 at a time; return the time, and the share of it that compressed messages took."""
    sent: list[tuple[bool, float]] = []
    spent = {False: 0.0, True: 0.0}
    while now < until:
        while len(sent) < 3:
            sent.append((choice.packed, now))
        packed, at = sent.pop(0)
        took = seconds(packed)
        now += took
        spent[packed] += took
        choice.took(packed, 32, at, now)
    return now, spent[True] / sum(spent.values())


@pytest.mark.parametrize(("unit", "until"), [(2e-4, 20), (1e-2, 300)])  # both in seconds
@pytest.mark.parametrize(("packed", "is_faster"), [(0.1, True), (0.5, True), (1.0, False), (1.5, False), (10.0, False)])
def test_messages_are_compressed_if_that_is_faster(packed, is_faster, unit, until):
    noise = random.Random(0)
    _, share = simulated(
        CompressionChoice(), lambda is_packed: unit * noise.uniform(0.9, 1.1) * (packed if is_packed else 1), until
    )
    assert share > 0.95 if is_faster else share < 0.05


def test_the_choice_follows_a_link_that_becomes_slow_and_fast_again():
    choice = CompressionChoice()
    now, share = simulated(choice, lambda packed: 0.002 if packed else 0.001, 60)
    assert share < 0.05 and not choice.packed
    now, share = simulated(choice, lambda packed: 0.002 if packed else 0.020, now + 60, now)
    assert share > 0.8
    now, share = simulated(choice, lambda packed: 0.002 if packed else 0.001, now + 120, now)
    assert share < 0.5


def test_a_large_difference_is_decided_after_one_window_of_each_kind():
    choice = CompressionChoice()
    simulated(choice, lambda packed: 0.02 if packed else 0.25, until=1.7)
    assert choice.packed and not choice._windows
    choice = CompressionChoice()
    simulated(choice, lambda packed: 0.2 if packed else 0.25, until=1.7)
    assert choice._windows


@pytest.mark.parametrize(("packed", "share"), [(0.0005, 1.0), (0.0015, 0.0)])
def test_the_choice_is_made_again_when_a_learner_begins_to_wait(packed, share):
    """At first the learner trains for 10 ms per batch, so that compressed and other batches both arrive in time."""
    choice = CompressionChoice()
    now, _ = simulated(choice, lambda _: 0.01, until=1.0)
    now, _ = simulated(choice, lambda is_packed: packed if is_packed else 0.001, now + 3.0, now)
    later = simulated(choice, lambda is_packed: packed if is_packed else 0.001, now + 3.0, now)[1]
    assert later == pytest.approx(share, abs=0.1)


def test_a_learner_with_a_varying_pace_is_not_compared_continuously():
    choice, now, spent = CompressionChoice(), 0.0, {False: 0.0, True: 0.0}
    while now < 600:
        pace = 0.01 if int(now) % 2 else 0.002
        packed, now = choice.packed, now + pace
        spent[packed] += pace
        choice.took(packed, 32, now - pace, now)
    assert spent[True] < 0.1 * spent[False]


def test_nothing_is_compressed_if_that_is_not_allowed():
    assert simulated(CompressionChoice(allowed=False), lambda packed: 0.001 if packed else 0.1, 60)[1] == 0.0


# Learners and explorers.


class Alternating(CompressionChoice):
    """Compresses about half of the messages, at random."""

    random = np.random.default_rng(0)

    @property
    def packed(self) -> bool:
        return bool(self.random.random() < 0.5)

    @packed.setter
    def packed(self, _value: bool) -> None:
        pass


@pytest.fixture
def unpacked(monkeypatch) -> list[int]:
    """Return the sizes of the parts that this process has decompressed."""
    sizes: list[int] = []
    unpack = wire.unpack
    monkeypatch.setattr(wire, "unpack", lambda part, array: sizes.append(array.nbytes) or unpack(part, array))
    return sizes


def test_compressed_and_other_replies_contain_the_same_rows(make_shards, learn, unpacked, monkeypatch):
    monkeypatch.setattr("cpprb_impl.hosts.learner.CompressionChoice", Alternating)
    shards = make_shards(2, env_dict=FIELDS)
    for number, shard in enumerate(shards):
        shard.buffer.add(**rows_of(np.arange(ROWS) + number * ROWS))
    learner = learn(shards)
    assert all(are_identical(learner.sample(100, 0.4)) for _ in range(50))
    assert 20 < len(unpacked) < 80  # of the parts of 100 replies, one column each


class Noted(CompressionChoice):
    """Records the times of all replies."""

    times: ClassVar[list[float]]

    def took(self, packed: bool, rows: int, sent: float, now: float) -> None:
        self.times.append(now)


PAUSE, PAUSES = 0.1, 10  # length in seconds, and number, of the pauses between calls


def test_the_time_between_calls_of_a_learner_does_not_count(make_shards, learn, monkeypatch):
    monkeypatch.setattr("cpprb_impl.hosts.learner.CompressionChoice", Noted)
    monkeypatch.setattr(Noted, "times", [], raising=False)
    (shard,) = make_shards(1, env_dict=FIELDS)
    shard.buffer.add(**rows_of(np.arange(ROWS)))
    learner, start = learn([shard]), time.monotonic()
    for _ in range(PAUSES):
        learner.sample(100, 0.4)
        time.sleep(PAUSE)
    assert len(Noted.times) >= PAUSES
    assert 0 < Noted.times[-1] <= time.monotonic() - start - PAUSES * PAUSE


def test_the_time_between_calls_of_an_explorer_does_not_count(make_shards, keys, monkeypatch):
    monkeypatch.setattr("cpprb_impl.hosts.explorer.CompressionChoice", Noted)
    monkeypatch.setattr(Noted, "times", [], raising=False)
    (shard,) = make_shards(1, env_dict=FIELDS)
    layout = layout_of(3000, env_dict=FIELDS)
    explorer = RemoteExplorer(lambda: [shard.address], keys, layout, when_lost="wait", deadline=5.0)
    with closing(explorer):
        start = time.monotonic()
        for _ in range(PAUSES):
            explorer.add(**rows_of(np.arange(100)))
            time.sleep(PAUSE)
        explorer.flush()
        assert len(Noted.times) == PAUSES
        assert 0 < Noted.times[-1] <= time.monotonic() - start - PAUSES * PAUSE


def test_compressed_and_other_batches_of_an_explorer_are_stored_in_the_same_way(make_shards, keys, monkeypatch):
    monkeypatch.setattr("cpprb_impl.hosts.explorer.CompressionChoice", Alternating)
    (shard,) = make_shards(1, env_dict=FIELDS)
    layout = layout_of(3000, env_dict=FIELDS)
    packed = []
    pack = wire.pack
    monkeypatch.setattr(wire, "pack", lambda array: packed.append(pack(array)) or packed[-1])
    explorer = RemoteExplorer(lambda: [shard.address], keys, layout, when_lost="wait", deadline=5.0)
    with closing(explorer):
        explorer.add(**rows_of(np.arange(2000)), priorities=np.arange(2000) + 1.0)
        explorer.flush()
    stored = shard.buffer.get_all_transitions()
    np.testing.assert_array_equal(stored["id"].ravel(), np.arange(2000))
    assert are_identical(stored) and any(not isinstance(part, np.ndarray) for part in packed)


@pytest.mark.parametrize("part", BAD.values(), ids=BAD)
def test_a_server_refuses_a_bad_part_of_an_explorer_and_continues(part, make_shards, keys):
    (shard,) = make_shards(1, env_dict={"x": {"shape": 100}})
    with zmq.Context() as context, closing(Link(context, "127.0.0.1", shard.address.storing_port, keys)) as link:
        for sent, kind in ((part, wire.REFUSED), (GOOD, wire.ADD)):
            link.socket.send_multipart([Request(wire.ADD, 10, 1).packed(), b"explorer", sent])
            assert link.socket.poll(5000)
            head, *_ = link.socket.recv_multipart()
            assert Reply.read(head).kind == kind
    assert shard.buffer.get_stored_size() == 10 and shard.servers["storing"].restarts == 0


@pytest.fixture
def mangling(make_shards, keys) -> Iterator[SimpleNamespace]:
    """Run a drawing server that applies `mangle` to the last part of each of the next `left` replies."""
    (shard,) = make_shards(1, env_dict=FIELDS)
    shard.buffer.add(**rows_of(np.arange(ROWS)))
    drawer = Drawer(MPPrioritizedReplayBuffer.attach(shard.address.segment))
    made = SimpleNamespace(left=0.0, mangle=None)

    def answer(parts):
        reply = drawer(parts)
        if made.left > 0 and reply is not None and Request.read(parts[0].bytes).kind == wire.DRAW_PACKED:
            made.left -= 1
            reply = [*reply[:-1], made.mangle(bytes(reply[-1]))]
        return reply

    end, stop = os.pipe()
    with ExitStack() as stack:
        stack.enter_context(os.fdopen(end))
        settings = ServerSettings(DRAWING, shard.address.segment, "127.0.0.1", 0, shard.address.columns, keys)
        router, strangers = stack.enter_context(bound(settings))
        port = int(router.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
        made.address = replace(shard.address, drawing_port=port)
        thread = threading.Thread(target=serve, args=(router, strangers, answer, SimpleNamespace(fileno=lambda: end)))
        thread.start()
        yield made
        os.close(stop)
        thread.join()


MANGLED = {
    "garbage": lambda part: os.urandom(len(part)),
    "truncated": lambda part: part[:-1],
    "empty": lambda part: b"",
    "larger": lambda part: bytes(100 * 900 + 1),
    "of another size": lambda part: bytes(lz4.compress_block(bytes(100 * 900 + 1), store_size=False)),
}


@pytest.mark.parametrize("mangle", MANGLED.values(), ids=MANGLED)
def test_a_malformed_reply_costs_one_connection_and_no_row(mangle, mangling, learn, monkeypatch, caplog):
    monkeypatch.setattr(
        "cpprb_impl.hosts.learner.CompressionChoice", lambda _allowed: SimpleNamespace(packed=True, took=_nothing)
    )
    mangling.mangle = mangle
    learner = learn([mangling])
    for _ in range(5):
        assert are_identical(learner.sample(100, 0.4))
        assert not caplog.records
    mangling.left = 1.0
    for _ in range(5):
        assert are_identical(learner.sample(100, 0.4))
    assert len(caplog.records) == 1 and mangling.left == 0 and not learner.lost


def _nothing(*_args) -> None:
    pass
