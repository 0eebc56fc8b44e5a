"""How steps that explorers send to shards are linked to sequences. Shards are processes of this host."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest
import zmq

from cpprb_impl import MPPrioritizedReplayBuffer
from cpprb_impl.hosts import wire
from cpprb_impl.hosts.explorer import BATCH_ROWS, LocalExplorer, RemoteExplorer
from cpprb_impl.hosts.learner import Learner
from cpprb_impl.hosts.sequences import Streams
from cpprb_impl.hosts.server import Storer
from cpprb_impl.hosts.wire import Reply, Request
from tests.cpprb_impl.test_shared_sequences import STEPS, check_windows, steps

from .conftest import layout_of
from .sequences import ENVS, EPISODE, OPTIONS, SIZE, Row, learner_of, rows_in

NEVER = 10**9  # steps of an episode that does not end
ACROSS = {**OPTIONS, "sequences": {"size": SIZE, "ends": "cross"}}


def drawn(shard, learn, count: int = 2000) -> set[tuple]:
    """Return all sequences of a shard, as their steps and whether each is the first of its episode."""
    batch = learner_of(learn, [shard]).sample(count, 0.4)
    columns = [batch[name].reshape(count, -1) for name in ("explorer", "stream", "step", "is_first")]
    return {tuple(map(tuple, each)) for each in np.stack(columns, axis=1).tolist()}


@pytest.mark.parametrize("autoreset", [None, "next_step"])
@pytest.mark.parametrize("ends", ["stop", "cross"])
def test_explorers_of_other_hosts_link_the_same_steps(ends, autoreset, make_shards, explore, learn):
    options = {**OPTIONS, "n_envs": 3, "sequences": {"size": 3, "ends": ends}, "autoreset": autoreset}
    here, there = make_shards(2, **options)
    remote, local = explore([there], options), LocalExplorer(here.address)
    random, at = np.random.default_rng(0), np.zeros(3, int)
    for call in range(300):
        given = {}
        envs = np.arange(3)
        if call % 3 == 1:  # an environment twice, in some calls
            envs = given["env_ids"] = random.integers(3, size=random.choice([1, 2, 4]))
        elif call % 3 == 2:
            given["env_ids"] = random.random(3) < 0.5
            envs = np.flatnonzero(given["env_ids"])
        number = []
        for env in envs:
            number.append(at[env])
            at[env] += 1
        row = {"explorer": np.zeros(len(envs)), "stream": envs, "step": number, "done": random.random(len(envs)) < 0.2}
        for each in (remote, local):
            each.add(**row, **given)
        np.testing.assert_array_equal(remote.environments.begins, local.environments.begins)
    remote.flush()
    assert len(rows_in(here)) > 400
    assert sorted(rows_in(here)) == sorted(rows_in(there))
    assert drawn(here, learn, 6000) == drawn(there, learn, 6000)
    local.close()


def test_long_calls_are_linked_across_their_parts(make_shards, explore, learn):
    (shard,) = make_shards(1, **{**ACROSS, "size": 6000})
    explorer = explore([shard], ACROSS)
    explorer.add(**steps(0, 0, wire.MOST_ADDED + 100, ENVS))
    explorer.flush()
    assert learner_of(learn, [shard]).get_valid_sequences() == ENVS * (wire.MOST_ADDED + 100 - SIZE + 1)


def test_streams_and_first_steps_are_found_in_any_order():
    streams = Streams(layout_of(100, STEPS, n_envs=5, sequences={"size": 2}))
    random, begins = np.random.default_rng(0), np.ones(5, bool)
    for count in (0, 1, 2, 7, 40, 3):
        of, done = random.integers(5, size=count), random.random(count) < 0.4
        expected, now = [], begins.copy()
        for stream, last in zip(of, done, strict=True):
            expected.append(2 * stream + now[stream])
            now[stream] = last
        words, begins = streams.words({streams.field: of, "done": done[:, None]}, begins)
        assert words.tolist() == expected and words.dtype == "<u4"
        np.testing.assert_array_equal(begins, now)


class Stored:
    """A storing server without its process, and explorers that send it batches of steps."""

    def __init__(self) -> None:
        self.buffer = MPPrioritizedReplayBuffer(1000, STEPS, sequences={"size": 3, "ends": "cross"})
        self.storer = Storer(self.buffer, wire.columns_of(self.buffer.get_all_transitions()))

    def send(self, kind: wire.Kind, number: int, name: bytes = b"explorer", *parts: np.ndarray) -> Reply:
        request = Request(kind, len(parts[0]) if parts else 0, number)
        return Reply.read(self.storer([zmq.Frame(part) for part in (request.packed(), name, *parts)])[0])

    def add(self, number: int, first: int, count: int, name: bytes = b"explorer", explorer: int = 0) -> wire.Kind:
        rows = steps(explorer, first, count, episode=NEVER)
        words = np.array([step == 0 for step in rows["step"]], "<u4")
        columns = [rows[each].astype(dtype) for each, dtype, _ in self.storer.columns]
        return self.send(wire.ADD, number, name, words, *columns).kind

    def runs(self) -> set[tuple[int, ...]]:
        """Return the steps of all sequences, after those of their explorers."""
        batch = self.buffer.sample_sequences(1000)
        assert (batch["explorer"] == batch["explorer"][:, :1]).all()
        np.testing.assert_array_equal(batch["is_first"], batch["step"][..., 0] == 0)
        return {tuple(each) for each in np.hstack([batch["explorer"][:, 0], batch["step"][..., 0]]).tolist()}


@pytest.fixture
def stored() -> Iterator[Stored]:
    made = Stored()
    with closing(made.buffer):
        yield made


def consecutive(explorer: int, *runs: range) -> set[tuple[int, ...]]:
    return {(explorer, t, t + 1, t + 2) for run in runs for t in run[: len(run) - 2]}


def test_batches_are_linked_to_those_before_them(stored):
    stored.send(wire.HELLO, 0)
    stored.send(wire.HELLO, 0, b"other")
    for number in range(1, 6):
        assert stored.add(number, 4 * number - 4, 4) == wire.ADD
        assert stored.add(number, 2 * number - 2, 2, b"other", explorer=1) == wire.ADD
    stored.send(wire.HELLO, 3)  # the explorer has reconnected, and repeats two batches
    for number in (4, 5, 6):
        assert stored.add(number, 4 * number - 4, 4) == wire.ADD
    assert stored.runs() == consecutive(0, range(24)) | consecutive(1, range(10))


@pytest.mark.parametrize("is_ended", [True, False])
def test_a_run_ends_where_batches_are_missing(is_ended, stored, monkeypatch):
    if not is_ended:  # the negative control
        monkeypatch.setattr(Storer, "_begin_runs", lambda _self, _first: None)
        stored.buffer._begin_runs(0, [False])
    stored.send(wire.HELLO, 0)
    stored.add(1, 0, 4)
    assert stored.add(3, 8, 4) == wire.HELLO  # the second was refused, or stored elsewhere
    stored.send(wire.HELLO, 2)
    stored.add(3, 8, 4)
    stored.add(4, 12, 4)
    expected = consecutive(0, range(4), range(8, 16))
    assert (stored.runs() == expected) is is_ended


def test_an_explorer_that_was_forgotten_begins_a_run(stored, monkeypatch):
    monkeypatch.setattr("cpprb_impl.hosts.server.REMEMBERED", 2)
    names = [b"first", b"second", b"third"]
    for explorer, name in enumerate(names):  # the third gets the streams of the first, which is forgotten
        stored.send(wire.HELLO, 0, name)
        stored.add(1, 0, 4, name, explorer)
    assert stored.add(2, 4, 4, names[0]) == wire.HELLO
    stored.send(wire.HELLO, 1, names[0])
    stored.add(2, 4, 4, names[0])
    assert stored.runs() == consecutive(0, range(4), range(4, 8)) | consecutive(1, range(4)) | consecutive(2, range(4))
    assert len(stored.storer.streams) == 2 and stored.buffer._get_begins().shape == (2,)


def test_messages_that_do_not_fit_are_refused(stored):
    stored.send(wire.HELLO, 0)
    with pytest.raises(wire.Malformed, match="a stream must be from 0 to 0, got 1"):
        stored.send(wire.ADD, 1, b"explorer", np.array([2], "<u4"), *(np.zeros((1, 1), d) for d in "lll?"))
    with pytest.raises(wire.Malformed, match="steps must have 4 bytes"):
        stored.send(wire.ADD, 1, b"explorer", np.zeros(1), *(np.zeros((1, 1), d) for d in "lll?"))
    assert stored.buffer.get_stored_size() == 0


def add_batches(explorer: RemoteExplorer, first: int, count: int) -> int:
    """Add steps of an episode that does not end, from `first` on; return the next step."""
    for _ in range(count):
        explorer.add(**steps(0, first, BATCH_ROWS // ENVS, ENVS, NEVER))
        first += BATCH_ROWS // ENVS
    return first


def check_runs(learner: Learner, stored: list[set[Row]], runs: int) -> None:
    """No sequence misses a step, and all sequences of the runs, which there are at most, can be drawn."""
    for _ in range(100):
        batch = learner.sample(512, 0.4)
        assert (batch["stream"] == batch["stream"][:, :1]).all()
        assert (np.diff(batch["step"][..., 0], axis=1) == 1).all()
        np.testing.assert_array_equal(batch["is_first"], batch["step"][..., 0] == 0)
    rows, fewer = sum(map(len, stored)), (SIZE - 1) * ENVS
    assert rows - runs * fewer <= learner.get_valid_sequences() <= rows - fewer


def test_a_run_ends_where_an_explorer_leaves_its_shard_and_returns(make_shards, explore, learn):
    """Both servers remember the explorer's last batch there."""
    shards = make_shards(2, **{**ACROSS, "size": 100_000})
    explorer, at = explore(shards, ACROSS), 0
    for _ in range(4):
        at = add_batches(explorer, at, 3)
        explorer.flush()
        explorer._is_lost = True  # as if the connection had been lost
        explorer._disconnect()
    stored = [{*rows_in(shard)} for shard in shards]
    assert all(stored) and sum(map(len, stored)) == ENVS * at
    check_runs(learner_of(learn, shards), stored, runs=4)
    assert learner_of(learn, shards).get_valid_sequences() == ENVS * (at - 4 * (SIZE - 1))


@pytest.mark.usefixtures("started_servers")
def test_no_sequence_has_steps_from_both_sides_of_a_lost_batch(make_shards, explore, learn):
    shards = make_shards(2, **{**ACROSS, "size": 100_000})
    explorer, at, kills = explore(shards, ACROSS, deadline=60.0), 0, 3
    for _ in range(kills):
        at = add_batches(explorer, at, 10)
        explorer.flush()
        (victim,) = (shard for shard in shards if shard.address == explorer._address)
        server = victim.get_servers()["storing"]
        os.kill(server, signal.SIGSTOP)
        at = add_batches(explorer, at, 3)  # sent, but not stored
        os.kill(server, signal.SIGKILL)
    at = add_batches(explorer, at, 10)
    explorer.flush()
    stored = [{*rows_in(shard)} for shard in shards]
    assert all(stored) and explorer.unconfirmed >= BATCH_ROWS
    check_runs(learner_of(learn, shards), stored, runs=2 * kills + 1)


@pytest.mark.parametrize("autoreset", [None, "next_step"])
@pytest.mark.parametrize("steps_before", [10, 14])  # within an episode, and at the end of one
def test_a_process_continues_its_episodes_on_another_shard(steps_before, autoreset, make_shards, learn, explore):
    options = {**OPTIONS, "n_envs": 1, "autoreset": autoreset}
    first, second, third = make_shards(3, **options)
    # With autoreset, the first of two equal steps only resets.
    numbers = [t for t in range(28) for _ in range(2 if autoreset and t % EPISODE == 0 and t else 1)]
    rows = {name: np.array([steps(0, t, 1)[name][0] for t in numbers]) for name in STEPS}
    here = numbers.index(steps_before)
    before = LocalExplorer(first.address)
    before.add(**{name: column[:here] for name, column in rows.items()})
    before.close()
    local, remote = (
        LocalExplorer(second.address, before.environments),
        explore([third], options, environments=before.environments),
    )
    for explorer, shard in ((local, second), (remote, third)):
        explorer.add(**{name: column[here:] for name, column in rows.items()})
        explorer.flush()
        batch = learner_of(learn, [shard]).sample(100, 0.4)
        check_windows(batch)
        assert [step for _, _, step in rows_in(shard)] == [*range(steps_before, 28)]
    local.close()


def test_on_episode_end_is_refused_within_an_episode(make_shards, explore):
    (shard,) = make_shards(1, **OPTIONS)
    explorer, local = explore([shard]), LocalExplorer(shard.address)
    for each in (explorer, local):
        each.on_episode_end()
        each.add(**steps(0, 0, EPISODE, ENVS))
        each.on_episode_end()
        each.add(**steps(0, 0, 1, ENVS))
        with pytest.raises(ValueError, match="must have ended it when the step was added"):
            each.on_episode_end()
    explorer.flush()
    with pytest.raises(ValueError, match="must have ended it when the step was added"):
        explorer.on_episode_end()
    local.close()


def test_only_a_shared_buffer_links_steps_of_other_hosts():
    with closing(MPPrioritizedReplayBuffer(10, STEPS)) as plain:
        for call in (lambda: plain._begin_runs(0, [True]), plain._get_begins, lambda: plain._draw_sequences(1)):
            with pytest.raises(ValueError, match="created with the option `sequences`"):
                call()
    with closing(MPPrioritizedReplayBuffer(10, STEPS, sequences={"size": 2})) as buffer:
        row = steps(0, 0, 1)
        for streams in ([1], [-1]):
            with pytest.raises(IndexError, match="streams must be from 0 to 0"):
                buffer._add_steps(streams, [True], **row)
        for streams, firsts in (([0, 0], [True]), ([0], [True, False])):
            with pytest.raises(ValueError, match="streams and firsts must have one value per row"):
                buffer._add_steps(streams, firsts, **row)
        assert buffer.get_stored_size() == 0
