"""Sequences of steps over several shards, which are processes of this host."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import numpy as np
import pytest
import zmq
from scipy import stats

from cpprb_impl import MPPrioritizedReplayBuffer
from cpprb_impl.hosts import wire
from cpprb_impl.hosts.explorer import BATCH_ROWS, LocalExplorer, RemoteExplorer
from cpprb_impl.hosts.learner import ROW_BITS, Learner
from cpprb_impl.hosts.sequences import Streams
from cpprb_impl.hosts.server import Storer
from cpprb_impl.hosts.wire import Reply, Request
from tests.cpprb_impl.test_shared_sequences import STEPS, check_windows, steps

from .conftest import layout_of

ENVS, SIZE, EPISODE = 2, 4, 7
OPTIONS = {"size": 3000, "env_dict": STEPS, "n_envs": ENVS, "sequences": {"size": SIZE}}
NEVER = 10**9  # steps of an episode that does not end
ACROSS = {**OPTIONS, "sequences": {"size": SIZE, "ends": "cross"}}
Row = tuple[int, int, int]  # explorer, stream, step


@pytest.fixture
def explore(keys) -> Iterator:
    with ExitStack() as stack:

        def make(shards, options=OPTIONS, **more) -> RemoteExplorer:
            explorer = RemoteExplorer(
                lambda: [shard.address for shard in shards], keys, layout_of(**options),
                **{"when_lost": "elsewhere", "deadline": 5.0, **more},
            )  # fmt: skip
            return stack.enter_context(closing(explorer))

        yield make


def learner_of(learn, shards, **options) -> Learner:
    return learn(shards, **{"sequences": shards[0].buffer._layout.options["sequences"], **options})


def fill(shards, explore) -> None:
    """Add the steps of explorers in this and in other processes, as many as each shard has room for."""
    for number, shard in enumerate(shards):
        with closing(LocalExplorer(shard.address)) as local:
            local.add(**steps(2 * number, 0, 50 * (number + 1), ENVS))
        remote = explore([shard])
        for first in range(0, 90 * (number + 1), 5):
            remote.add(**steps(2 * number + 1, first, 5, ENVS))
        remote.flush()


def rows_in(shard) -> list[Row]:
    rows = shard.buffer.get_all_transitions()
    return [*zip(*(rows[name].ravel().tolist() for name in ("explorer", "stream", "step")), strict=True)]


def ends_in(shard) -> list[Row]:
    """Return the last steps of the sequences that the shard's rows allow."""
    held = {*rows_in(shard)}
    whole = [
        (e, s, t) for e, s, t in held if t % EPISODE >= SIZE - 1 and all((e, s, t - i) in held for i in range(SIZE))
    ]
    return sorted(whole)


def ends_of(batch) -> list[Row]:
    return [*zip(*(batch[name][:, -1, 0].tolist() for name in ("explorer", "stream", "step")), strict=True)]


def leaves_of(shards) -> dict[Row, float]:
    """Return the leaf of each sequence, by its last step."""
    found = {}
    for shard in shards:
        rows = rows_in(shard)
        leaves = shard.buffer._get_leaves(np.arange(len(rows)))
        found |= {row: float(leaf) for row, leaf in zip(rows, leaves, strict=True) if leaf > 0}
    return found


@pytest.mark.parametrize("shares", ["by number", "equal"])
def test_every_sequence_of_every_shard_is_drawn_equally_often(shares, make_shards, explore, learn, monkeypatch):
    if shares == "equal":  # the negative control
        monkeypatch.setattr(Learner, "_shares", lambda _self, totals: np.full(len(totals), 1 / len(totals)))
    shards = make_shards(3, **OPTIONS, alpha=0)
    fill(shards, explore)
    whole = [end for shard in shards for end in ends_in(shard)]
    learner = learner_of(learn, shards, alpha=0)
    assert learner.get_valid_sequences() == len(whole) > 500
    place = {end: number for number, end in enumerate(whole)}
    counts = np.zeros(len(whole))
    for _ in range(100):
        batch = learner.sample(512, 0.4)
        check_windows(batch)
        if shares == "by number":
            np.testing.assert_allclose(batch["weights"], 1, rtol=1e-6)
        np.add.at(counts, [place[end] for end in ends_of(batch)], 1)
    assert (stats.chisquare(counts).pvalue > 1e-6) == (shares == "by number")


@pytest.mark.parametrize("normalize", ["buffer", "batch", None])
def test_weights_are_those_of_one_buffer_with_all_sequences(normalize, make_shards, explore, learn):
    shards = make_shards(3, **OPTIONS, normalize=normalize)
    fill(shards, explore)
    random = np.random.default_rng(0)
    for shard in shards:
        rows = len(rows_in(shard))
        shard.buffer.sample_sequences(1)  # so that this process knows the rows
        shard.buffer.update_priorities(np.arange(rows), random.uniform(0.1, 3, rows))
    leaves = leaves_of(shards)
    every = np.array([*leaves.values()])
    learner = learner_of(learn, shards, normalize=normalize)
    assert {*leaves} == {end for shard in shards for end in ends_in(shard)}
    for _ in range(5):
        batch = learner.sample(64, beta=0.7)
        drawn = np.array([leaves[end] for end in ends_of(batch)])
        unit = {"buffer": every.min(), "batch": drawn.min(), None: every.mean()}[normalize]
        np.testing.assert_allclose(batch["weights"], (drawn / unit) ** -0.7, rtol=1e-5)


@pytest.mark.parametrize("most", [SIZE, wire.MOST_UPDATED])  # of a message
def test_priorities_and_errors_change_only_the_sequences_that_were_drawn(
    most, make_shards, explore, learn, monkeypatch
):
    monkeypatch.setattr(wire, "MOST_UPDATED", most)
    shards = make_shards(2, **OPTIONS, alpha=1, eps=0)
    fill(shards, explore)
    learner = learner_of(learn, shards, alpha=1, eps=0, prefetch=0)
    batch = learner.sample(64, 0.4)
    _, once = np.unique(batch["indexes"], return_index=True)
    ends, indexes = [ends_of(batch)[i] for i in once], batch["indexes"][once]
    errors = np.random.default_rng(0).normal(size=(len(once), SIZE)) * 50
    expected = 0.9 * np.abs(errors).max(axis=1) + 0.1 * np.abs(errors).mean(axis=1)
    for values, priorities in ((errors, expected), (expected / 2, expected / 2)):
        learner.update_priorities(indexes, values)
        wait_for_updates(learner)
        leaves = leaves_of(shards)
        np.testing.assert_allclose([leaves.pop(end) for end in ends], priorities, rtol=1e-5)
        assert {*leaves.values()} == {1.0}
    learner.update_priorities([3], 1e6)  # with this row, no sequence ends
    wait_for_updates(learner)
    assert max(leaves_of(shards).values()) == pytest.approx(expected.max() / 2)


def wait_for_updates(learner: Learner) -> None:
    learner.get_valid_sequences()  # is answered after them


def test_errors_of_sequences_that_were_overwritten_change_nothing(make_shards, learn):
    (shard,) = make_shards(1, **{**OPTIONS, "size": 60, "n_envs": 1}, alpha=1, eps=0)
    shard.buffer.add(**steps(0, 0, 60))
    learner = learner_of(learn, [shard], alpha=1, eps=0, prefetch=0)
    batch = learner.sample(8, 0.4)
    shard.buffer.add(**steps(0, 60, 60))
    learner.update_priorities(batch["indexes"], np.full((8, SIZE), 9.0))
    wait_for_updates(learner)
    assert {*leaves_of([shard]).values()} == {1.0}


BURNT_IN = {"size": 3, "burn_in": 2}


@pytest.mark.parametrize(
    "sequences",
    [
        {"size": 3},
        BURNT_IN,
        {**BURNT_IN, "ends": "pad", "period": 2},
        {**BURNT_IN, "state": "explorer"},
        {**BURNT_IN, "ends": "pad", "state": ["explorer", "step"]},
        {"size": 3, "ends": "cross"},
    ],
    ids=str,
)
def test_batches_have_the_arrays_of_one_host(sequences, make_shards, learn):
    shards = make_shards(2, **{**OPTIONS, "sequences": sequences})
    for shard in shards:
        shard.buffer.add(**steps(0, 0, 40, ENVS))
    batch = learner_of(learn, shards).sample(50, 0.4)
    expected = shards[0].buffer.sample_sequences(50)
    assert {name: (array.shape, array.dtype) for name, array in batch.items()} == {
        name: (array.shape, array.dtype) for name, array in expected.items()
    }
    if "mask" in batch:
        np.testing.assert_array_equal(batch["lengths"], batch["mask"].sum(axis=1))
        assert not batch["done"][~batch["mask"]].any()


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


@pytest.mark.parametrize("name", ["stream", "env_ids", "steps"])
def test_a_field_may_have_the_name_of_something_that_is_sent(name, make_shards, explore, learn):
    options = {"size": 300, "env_dict": {name: {}, "done": {}}, "sequences": {"size": 3}}
    (shard,) = make_shards(1, **options)
    explorer = explore([shard], options)
    for step in range(50):
        explorer.add(**{name: step}, done=step == 30)
    explorer.flush()
    batch = learner_of(learn, [shard]).sample(100, 0.4)
    assert (np.diff(batch[name][..., 0], axis=1) == 1).all()


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


def test_errors_that_do_not_fit_are_refused(make_shards, explore, learn):
    shards = make_shards(2, **{**OPTIONS, "sequences": {"size": 3, "burn_in": 1}})
    fill(shards, explore)
    learner = learner_of(learn, shards)
    indexes = learner.sample(4, 0.4)["indexes"]
    before = leaves_of(shards)
    for shape in ((4, 3), (4, 5), (3, 4), (4, 4, 1)):
        with pytest.raises(ValueError, match=r"of shape \(4,\), or errors of shape \(4, 4\), got \("):
            learner.update_priorities(indexes, np.ones(shape))
    errors = np.ones((4, 4))
    errors[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"priorities\[2\] must be finite and not negative, got nan"):
        learner.update_priorities(indexes, errors)
    with pytest.raises((TypeError, ValueError), match="priorities"):
        learner.update_priorities(indexes, [["1"] * 4] * 4)
    wait_for_updates(learner)
    assert leaves_of(shards) == before
    learner.update_priorities(indexes, np.where(np.arange(4) == 0, np.nan, [[5.0] * 4] * 4))  # those of the burn-in
    wait_for_updates(learner)
    assert leaves_of(shards) != before


def test_the_error_without_sequences_says_how_many_steps_are_missing(make_shards, learn):
    shards = make_shards(2, **OPTIONS)
    learner = learner_of(learn, shards)
    for count in (0, 3):
        shards[1].buffer.add(**steps(0, 0, count, ENVS)) if count else None
        with pytest.raises(ValueError, match=f"of 4 consecutive steps must be stored, got {count}, so {4 - count} are"):
            learner.sample(4, 0.4)
        assert learner.get_valid_sequences() == 0
    with pytest.raises(ValueError, match="must have at most 1,073,741,824 bytes, got 1,000,000,000 sequences"):
        learner.sample(10**9, 0.4)


def test_a_lost_shard_is_not_counted(make_shards, learn):
    shards = make_shards(2, **OPTIONS)
    for shard in shards:
        shard.buffer.add(**steps(0, 0, EPISODE, ENVS))
    learner = learner_of(learn, shards, deadline=0.5)
    assert learner.get_valid_sequences() == 2 * ENVS * (EPISODE - SIZE + 1)
    shards[0].servers["drawing"].close()
    end = time.monotonic() + 60
    while not learner.lost:
        assert time.monotonic() < end
        with suppress(ConnectionError):
            learner.sample(4, 0.4)
    assert learner.get_valid_sequences() == ENVS * (EPISODE - SIZE + 1)
    assert {*(learner.sample(64, 0.4)["indexes"] >> ROW_BITS)} == {1}


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
