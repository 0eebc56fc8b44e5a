"""Explorers that send rows to the shards of other hosts, which are processes of this host."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import numpy as np
import pytest
import zmq

from cpprb_impl import MPReplayBuffer
from cpprb_impl.hosts import wire
from cpprb_impl.hosts.explorer import BATCH_ROWS, WINDOW, LocalExplorer, RemoteExplorer
from cpprb_impl.hosts.link import Link
from cpprb_impl.hosts.server import Storer
from cpprb_impl.hosts.wire import Reply, Request

from .conftest import FIELDS, are_whole, layout_of, rows_with, with_and_without_encryption

LARGE = 100_000


@pytest.fixture
def explore(keys) -> Iterator:
    with ExitStack() as stack:

        def make(shards, options=None, **more) -> RemoteExplorer:
            given = layout_of(**{"size": LARGE, **(options or {})})
            explorer = RemoteExplorer(
                lambda: [shard.address for shard in shards], keys, given,
                **{"when_lost": "elsewhere", "deadline": 5.0, **more},
            )  # fmt: skip
            return stack.enter_context(closing(explorer))

        yield make


def ids_in(shard) -> list[int]:
    rows = shard.buffer.get_all_transitions()
    assert are_whole(rows)
    return rows["id"].ravel().tolist()


@with_and_without_encryption
@pytest.mark.parametrize("rows", [1, 7, BATCH_ROWS, wire.MOST_ADDED + 1, 10_000])
def test_rows_are_stored_once_and_in_order(rows, make_shards, explore):
    (shard,) = make_shards(1, size=LARGE)
    explorer, first = explore([shard]), 0
    for _ in range(3):
        explorer.add(**rows_with(np.arange(first, first + rows)))
        first += rows
    explorer.flush()
    assert ids_in(shard) == list(range(first)) and explorer.unconfirmed == 0


def test_priorities_arrive_unchanged(make_shards, explore):
    (shard,) = make_shards(1, size=LARGE)
    explorer = explore([shard])
    priorities = np.random.default_rng(0).uniform(0, 5, 250)
    explorer.add(**rows_with(np.arange(250)), priorities=priorities)
    explorer.add(**rows_with(np.arange(250, 300)))  # these get the largest priority of the shard
    explorer.flush()
    leaves = shard.buffer._get_leaves(np.arange(300))
    np.testing.assert_allclose(leaves[:250], (priorities + 1e-4) ** 0.6, rtol=1e-5)
    np.testing.assert_allclose(leaves[250:], (priorities.max() + 1e-4) ** 0.6, rtol=1e-5)


def test_long_calls_with_n_step_discounts_are_stored(make_shards, explore):
    fields = {name: {"dtype": np.float64} for name in ("obs", "rew", "next_obs", "done", "truncated", "discount")}
    steps = {"size": 3, "rew": "rew", "next": "next_obs", "truncated": "truncated", "discount": "discount"}
    options = {"size": LARGE, "env_dict": fields, "Nstep": steps}
    here, there = make_shards(2, **options)
    explorer, local = explore([there], options), LocalExplorer(here.address)
    numbers = np.arange(2 * wire.MOST_ADDED)
    rows = {"obs": numbers, "rew": numbers, "next_obs": numbers + 1, "done": numbers % 9 == 8}
    for each in (explorer, local):
        each.add(**rows, truncated=numbers % 7 == 6)
    explorer.flush()
    expected, found = here.buffer.get_all_transitions(), there.buffer.get_all_transitions()
    for name in fields:
        np.testing.assert_array_equal(found[name], expected[name])


def test_n_step_rows_are_those_of_a_local_buffer(make_shards, explore):
    fields = {"obs": {}, "rew": {}, "next_obs": {}, "done": {}}
    options = {"size": LARGE, "env_dict": fields, "Nstep": {"size": 3, "gamma": 0.5, "rew": "rew", "next": "next_obs"}}
    here, there = make_shards(2, **options)
    explorer, local = explore([there], options), LocalExplorer(here.address)
    random = np.random.default_rng(0)
    for step in range(500):
        end = random.random() < 0.1
        row = {"obs": step, "rew": random.random(), "next_obs": step + 1, "done": float(end)}
        for each in (explorer, local):
            each.add(**row)
            if end:
                each.on_episode_end()
    explorer.flush()
    expected, found = here.buffer.get_all_transitions(), there.buffer.get_all_transitions()
    local.close()
    assert len(expected["obs"]) > 400
    for name in fields:
        np.testing.assert_array_equal(found[name], expected[name])


def test_no_call_depends_on_an_exception_of_pyzmq(make_shards, explore, exceptions_of_pyzmq):
    """While pyzmq's wheels for Python 3.12 and later create an exception, a KeyboardInterrupt is lost."""
    (shard,) = make_shards(1, size=LARGE)
    explorer = explore([shard])
    for first in range(0, 10 * BATCH_ROWS, BATCH_ROWS):
        explorer.add(**rows_with(np.arange(first, first + BATCH_ROWS)))
    explorer.flush()
    assert len(ids_in(shard)) == 10 * BATCH_ROWS and exceptions_of_pyzmq == []


@pytest.mark.parametrize("when_lost", ["elsewhere", "wait"])
@pytest.mark.usefixtures("started_servers")
def test_no_row_is_stored_twice_and_no_acknowledged_row_is_lost_if_servers_are_killed(when_lost, make_shards, explore):
    shards = make_shards(2, size=LARGE)
    # Both servers may be restarting at the same time, which takes seconds if all processors are busy.
    explorer = explore(shards, when_lost=when_lost, deadline=60.0)
    sent = 0
    for _ in range(5):
        for _ in range(20):
            explorer.add(**rows_with(np.arange(sent, sent + BATCH_ROWS)))
            sent += BATCH_ROWS
        (victim,) = (shard for shard in shards if shard.address == explorer._address)
        os.kill(victim.get_servers()["storing"], signal.SIGKILL)
    explorer.flush()
    stored = [*ids_in(shards[0]), *ids_in(shards[1])]
    assert len(stored) == len(set(stored)), "a row was stored twice"
    assert sent - explorer.unconfirmed <= len(stored) <= sent


@with_and_without_encryption
@pytest.mark.usefixtures("started_servers")
def test_rows_not_stored_by_a_lost_server_do_not_count_as_acknowledged(make_shards, explore):
    """The explorer receives no notice meanwhile: ZeroMQ connects to the new server without notifying it."""
    (shard,) = make_shards(1, size=LARGE)
    explorer = explore([shard])

    def add(batch: int) -> None:
        explorer.add(**rows_with(np.arange(BATCH_ROWS * batch, BATCH_ROWS * (batch + 1))))

    add(0)
    explorer.flush()
    lost, server = shard.get_servers()["storing"], shard.servers["storing"]
    os.kill(lost, signal.SIGSTOP)
    add(1)
    time.sleep(0.1)  # so that the rows are sent
    os.kill(lost, signal.SIGKILL)
    while not server.restarts:
        time.sleep(0.01)
    time.sleep(1.0)  # so that the new server is connected
    add(2)
    add(3)
    explorer.flush()
    missing = set(range(4 * BATCH_ROWS)) - set(ids_in(shard))
    assert missing <= set(range(BATCH_ROWS, 2 * BATCH_ROWS)), "they were sent to the new server only"
    assert len(missing) <= explorer.unconfirmed == BATCH_ROWS


def test_an_explorer_resends_rows_that_its_shard_lacks(make_shards, explore, monkeypatch):
    """It does not switch to another shard, as it would then give up rows that were certainly not stored."""
    monkeypatch.setattr(Link, "was_lost", lambda _: False)
    shards = make_shards(2, size=LARGE)
    explorer = explore(shards)
    send, skipped = wire.send, []

    def add(batch: int) -> None:
        explorer.add(**rows_with(np.arange(BATCH_ROWS * batch, BATCH_ROWS * (batch + 1))))

    add(0)
    explorer.flush()
    monkeypatch.setattr(wire, "send", lambda _, message: skipped.append(message))  # as if the connection were broken
    add(1)
    monkeypatch.setattr(wire, "send", send)
    add(2)
    explorer.flush()
    stored = [ids_in(shard) for shard in shards]
    assert len(skipped) == 1 and sorted(map(len, stored)) == [0, 3 * BATCH_ROWS]
    assert max(stored, key=len) == list(range(3 * BATCH_ROWS)) and explorer.unconfirmed == 0


@with_and_without_encryption
def test_the_largest_batches_are_stored(make_shards, explore):
    fields = {"id": {"dtype": np.int64}, "wide": {"shape": 100}}
    (shard,) = make_shards(1, size=LARGE, env_dict=fields)
    explorer = explore([shard], {"env_dict": fields}, compress=False)
    explorer._most = wire.MOST_ADDED
    explorer.add(id=np.arange(3000), wide=np.random.default_rng(0).normal(size=(3000, 100)))
    explorer.flush()
    assert shard.buffer.get_stored_size() == 3000


def test_a_batch_is_stored_only_after_the_one_before_it():
    buffer = MPReplayBuffer(100, {"id": {"dtype": np.int64}})
    storer = Storer(buffer, wire.columns_of(buffer.get_all_transitions()))

    def reply(kind: wire.Kind, number: int, *columns: np.ndarray) -> Reply:
        rows = len(columns[0]) if columns else 0
        parts = [Request(kind, rows, number).packed(), b"explorer", *columns]
        return Reply.read(storer([zmq.Frame(part) for part in parts])[0])

    def add(number: int) -> Reply:
        return reply(wire.ADD, number, np.array([[number]]))

    with closing(buffer):
        assert add(3).kind == wire.HELLO, "the explorer has not said where it begins"
        assert reply(wire.HELLO, 2).kind == wire.HELLO
        assert [add(number).kind for number in (3, 4, 6, 4, 5)] == [
            wire.ADD, wire.ADD, wire.HELLO, wire.ADD, wire.ADD,
        ]  # fmt: skip
        assert reply(wire.HELLO, 1).kind == wire.HELLO and add(3).kind == wire.ADD, "stored before"
        assert buffer.get_all_transitions()["id"].ravel().tolist() == [3, 4, 5]


@pytest.mark.usefixtures("started_servers")
def test_a_server_that_was_stopped_for_a_long_time_stores_nothing_twice(make_shards, explore):
    """Its explorer gives up the connection and opens another. Both carry the same batches."""
    (shard,) = make_shards(1, size=LARGE)
    explorer = explore([shard], deadline=0.5, when_lost="wait")
    explorer.add(**rows_with(np.arange(1000)))
    explorer.flush()
    victim = shard.get_servers()["storing"]
    os.kill(victim, signal.SIGSTOP)
    explorer.add(**rows_with(np.arange(1000, 1700)))  # fewer than the window allows: sent but not acknowledged
    time.sleep(1.5)
    os.kill(victim, signal.SIGCONT)
    explorer.flush()
    stored = ids_in(shard)
    assert len(stored) == len(set(stored)) and len(stored) >= 1700 - explorer.unconfirmed


@pytest.mark.usefixtures("started_servers")
def test_rows_are_sent_together_while_the_shard_is_busy(make_shards, explore):
    (shard,) = make_shards(1, size=LARGE)
    explorer = explore([shard])
    explorer.add(**rows_with(np.arange(100)))
    explorer.flush()
    victim, before = shard.get_servers()["storing"], explorer._number
    os.kill(victim, signal.SIGSTOP)
    for first in range(100, 1800, 100):
        explorer.add(**rows_with(np.arange(first, first + 100)))
    assert explorer._number == before + WINDOW
    os.kill(victim, signal.SIGCONT)
    explorer.flush()
    assert ids_in(shard) == list(range(1800)) and explorer._number == before + WINDOW + 1


def test_the_reason_for_a_refusal_by_a_shard_is_reported(make_shards, explore):
    (shard,) = make_shards(1, size=LARGE)
    explorer = explore([shard], {"env_dict": {**FIELDS, "obs": {"shape": 4}}})
    with pytest.raises(RuntimeError, match=r"the shard on 127\.0\.0\.1 refused 10 rows: Malformed: obs must have"):
        explorer.add(id=np.arange(10), obs=np.zeros((10, 4)), rew=np.zeros(10))
        explorer.flush()


def test_explorers_without_a_shard_raise_an_error(explore):
    explorer = explore([], deadline=0.3)
    with pytest.raises(ConnectionError, match=r"no shard answered within 0\.3 s"):
        explorer.add(**rows_with(np.arange(BATCH_ROWS)))


def columns(rows: int, **changed) -> dict[str, np.ndarray]:
    return {**rows_with(np.arange(rows)), **changed}


@pytest.mark.parametrize("rows", [1000, 2000])  # fewer and more rows than are staged at once
@pytest.mark.parametrize(
    ("changed", "error", "what"),
    [
        ({"obs": lambda n: np.zeros((3, n))}, ValueError, "obs"),
        ({"obs": lambda n: np.zeros((n // 2, 6))}, ValueError, "obs"),
        ({"rew": lambda n: np.zeros(n - 1)}, ValueError, "rew"),
        ({"priorities": lambda n: np.where(np.arange(n) == n - 1, np.nan, 1.0)}, ValueError, r"priorities\[[19]999?\]"),
        ({"priorities": lambda n: np.ones(n + 1)}, ValueError, "priorities"),
        ({"priorities": lambda _: 1.0}, ValueError, "priorities"),
    ],
)
def test_the_error_names_a_wrong_column_and_nothing_is_stored(rows, changed, error, what, make_shards, explore):
    (shard,) = make_shards(1, size=LARGE)
    explorer = explore([shard])
    with pytest.raises(error, match=what):
        explorer.add(**columns(rows, **{name: value(rows) for name, value in changed.items()}))
    explorer.flush()
    assert ids_in(shard) == []


def test_unknown_names_are_ignored_as_on_one_host(make_shards, explore):
    (shard,) = make_shards(1, size=LARGE)
    explorer = explore([shard])
    explorer.add(**rows_with(np.arange(2000)), other=1.0)
    explorer.flush()
    assert ids_in(shard) == list(range(2000))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # interrupts are lost in destructors
def test_interrupted_calls_lose_no_row_and_store_none_twice(make_shards, explore):
    (shard,) = make_shards(1, size=100 * LARGE)
    explorer, random = explore([shard]), np.random.default_rng(0)
    complete, first, interrupted = set(), 0, 0

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while interrupted < 300:
            ids = np.arange(first, first + int(random.integers(1, 300)))
            first = ids[-1] + 1
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 2e-3))
                explorer.add(**rows_with(ids))
                if random.random() < 0.1:
                    explorer.flush()
                signal.setitimer(signal.ITIMER_REAL, 0)
                complete |= set(ids.tolist())
            except KeyboardInterrupt:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    explorer.flush()
    stored = ids_in(shard)
    assert len(stored) == len(set(stored)), "a row was stored twice"
    assert complete <= set(stored) and explorer.unconfirmed == 0
