"""Learners of several shards, which are processes of this host."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from cpprb_impl import PrioritizedReplayBuffer
from cpprb_impl.hosts import wire
from cpprb_impl.hosts.learner import ROW_BITS, Learner, ShardsLost
from cpprb_impl.hosts.shard import Server

from .conftest import ROWS, are_whole, rows_with, with_and_without_encryption

PATIENCE = 60.0  # seconds
SIZES = (300, 900, 1500)  # rows in each shard; their priorities differ as well


def fill(shards) -> np.ndarray:
    """Add rows with priorities; return the leaf of each row by id."""
    random = np.random.default_rng(1)
    leaves, first = [], 0
    for number, (shard, size) in enumerate(zip(shards, SIZES, strict=False)):
        priorities = random.uniform(0.1, 1.0, size) * (number + 1)
        shard.buffer.add(**rows_with(np.arange(first, first + size)), priorities=priorities)
        leaves.append(shard.buffer._get_leaves(np.arange(size)))
        first += size
    return np.concatenate(leaves)


@with_and_without_encryption
def test_weights_are_those_of_one_buffer_with_all_rows(make_shards, learn):
    shards = make_shards(3)
    leaves = fill(shards)
    for normalize in ("buffer", "batch", None):
        learner = learn(shards, normalize=normalize)
        for _ in range(5):
            batch = learner.sample(64, beta=0.7)
            assert are_whole(batch) and batch["weights"].dtype == np.float32
            drawn = leaves[batch["id"].ravel()]
            unit = {"buffer": leaves.min(), "batch": drawn.min(), None: leaves.mean()}[normalize]
            np.testing.assert_allclose(batch["weights"], (drawn / unit) ** -0.7, rtol=1e-6)


def excess(drawn: np.ndarray, leaves: np.ndarray) -> float:
    """Return the probability that draws in proportion to the leaves deviate at least as much."""
    expected = drawn.sum() * leaves / leaves.sum()
    return float(chi2.sf(((drawn - expected) ** 2 / expected).sum(), len(leaves) - 1))


@pytest.mark.parametrize("shares", ["by priority", "equal"])
def test_rows_of_all_shards_are_drawn_in_proportion_to_their_priorities(shares, make_shards, learn, monkeypatch):
    if shares == "equal":  # the negative control
        monkeypatch.setattr(Learner, "_shares", lambda _self, totals: np.full(len(totals), 1 / len(totals)))
    shards = make_shards(3)
    leaves, learner = fill(shards), learn(shards)
    drawn = sum(np.bincount(learner.sample(256, 0.4)["id"].ravel(), minlength=len(leaves)) for _ in range(400))
    assert (excess(drawn, leaves) > 1e-4) is (shares == "by priority")


def test_new_priorities_change_only_the_sampled_rows(make_shards, learn):
    shards = make_shards(2)
    fill(shards)
    learner = learn(shards, prefetch=0)
    batch = learner.sample(16, 0.4)
    index, row = batch["indexes"][:1].copy(), int(batch["id"][0, 0])
    late = batch["indexes"][-1:].copy()
    learner.update_priorities(index, np.array([1e20]))
    learner.sample(16, 0.4)  # so that the new sum of priorities is known
    assert set(learner.sample(32, 0.4)["id"].ravel()) == {row}

    learner.update_priorities(index, np.array([1e-3]))
    shards[1].buffer.add(**rows_with(np.arange(10_000, 10_000 + ROWS)))  # overwrites the row of `late`
    before = shards[1].buffer._get_leaves(np.arange(ROWS))
    learner.update_priorities(late, np.array([1e12]))
    learner.update_priorities(np.array([77 << ROW_BITS]), np.array([1e12]))  # the number of a shard that does not exist
    learner.sample(16, 0.4)
    learner.sample(16, 0.4)
    np.testing.assert_array_equal(shards[1].buffer._get_leaves(np.arange(ROWS)), before)


def test_a_copy_that_has_drawn_nothing_sends_new_priorities(make_shards, learn):
    shards = make_shards(2)
    fill(shards)
    batch = learn(shards).sample(8, 0.4)
    row = batch["indexes"][:1]
    learn(shards).update_priorities(row, [1e12])
    other = learn(shards)
    assert any(np.mean(other.sample(32, 0.4)["indexes"] == row) > 0.5 for _ in range(200))


@pytest.mark.parametrize(
    ("rows", "beta", "error", "what"),
    [
        (-1, 0.4, ValueError, "batch_size must not be negative"),
        (10**9, 0.4, ValueError, "a batch must have at most 1,073,741,824 bytes, got 1,000,000,000 rows"),
        (2.5, 0.4, TypeError, "batch_size must be an int, got 2.5"),
        (4, -1, ValueError, "beta must be finite"),
        (4, np.nan, ValueError, "beta must be finite"),
        (4, "x", TypeError, "beta must be a number"),
    ],
)
def test_bad_arguments_of_sample_are_refused(make_shards, learn, rows, beta, error, what):
    shards = make_shards(1)
    fill(shards)
    learner = learn(shards)
    with pytest.raises(error, match=what):
        learner.sample(rows, beta)
    assert len(learner.sample(True, 0.4)["indexes"]) == 1


def test_an_empty_batch_has_all_columns(make_shards, learn):
    shards = make_shards(2)
    fill(shards)
    batch = learn(shards).sample(0, 0.4)
    assert batch.keys() >= {"id", "weights", "indexes"} and not any(map(len, batch.values()))


def test_batch_sizes_may_change_between_calls(make_shards, learn):
    shards = make_shards(2)
    fill(shards)
    learner = learn(shards)
    for rows in (1, 64, 7, 64, 300):
        batch = learner.sample(rows, 0.4)
        assert are_whole(batch) and len(batch["id"]) == len(batch["weights"]) == len(batch["indexes"]) == rows


def test_a_learner_that_only_sends_priorities_finds_new_ports(make_shards, learn):
    shards = make_shards(1)
    fill(shards)
    (shard,) = shards
    drawn, learner = learn(shards).sample(8, 0.4), learn(shards)
    learner.update_priorities(drawn["indexes"], np.ones(8))
    server = Server(replace(shard.servers["drawing"]._settings, port=0))  # as a new supervisor would start it
    with closing(server):
        shard.servers["drawing"].close()
        shard.address = replace(shard.address, drawing_port=server.port)
        row, end = drawn["indexes"][:1], time.monotonic() + PATIENCE
        other = learn(shards)
        while np.mean(other.sample(32, 0.4)["indexes"] == row) < 0.5:
            assert time.monotonic() < end, "new priorities go nowhere"
            learner.update_priorities(row, [1e12])


@with_and_without_encryption
@pytest.mark.parametrize("most", [3, wire.MOST_UPDATED])
def test_more_priorities_than_fit_into_one_message_are_sent(most, make_shards, learn, monkeypatch):
    monkeypatch.setattr(wire, "MOST_UPDATED", most)
    shards = make_shards(1)
    fill(shards)
    learner = learn(shards)
    indexes = np.unique(learner.sample(64, 0.4)["indexes"])
    repeated = np.resize(indexes, max(2 * most, len(indexes)))
    learner.update_priorities(repeated, np.full(len(repeated), 7.0))
    slots = indexes & ((1 << ROW_BITS) - 1)
    samples_until(lambda _: np.allclose(shards[0].buffer._get_leaves(slots), (7.0 + 1e-4) ** 0.6), learner)


def test_a_buffer_whose_priorities_are_all_0_does_not_count_as_empty(make_shards, learn):
    shards = make_shards(2, eps=0.0)
    for shard in shards:
        shard.buffer.add(**rows_with(np.arange(10)), priorities=np.zeros(10))
    learner = learn(shards)
    with pytest.raises(ValueError, match="cannot sample: every stored priority is 0"):
        learner.sample(4, 0.4)
    assert learner.get_stored_size() == 20


def test_the_errors_for_an_empty_buffer_and_bad_priorities_say_what_is_wrong(make_shards, learn):
    shards = make_shards(2)
    learner = learn(shards)
    with pytest.raises(ValueError, match="cannot sample from an empty buffer"):
        learner.sample(4, 0.4)
    fill(shards[:1])
    batch = learner.sample(4, 0.4)  # the other shard is still empty
    with pytest.raises(ValueError, match=r"priorities\[2\] must be finite and not negative, got nan"):
        learner.update_priorities(batch["indexes"], [1, 2, np.nan, 4])
    with pytest.raises(ValueError, match="priorities must have one value per index, got 3 values for 4 indexes"):
        learner.update_priorities(batch["indexes"], [1, 2, 3])


@pytest.mark.parametrize(
    "given",
    [
        np.array([5.0]),
        5.0,
        np.float64(5.0),
        ["1", "2", "3", "4"],
        np.arange(4).astype("M8[s]"),
        np.arange(4).astype("m8[s]"),
        np.full(4, 1 + 9j),
        [1j] * 4,
        np.ma.array([1, 99, 1, 1], mask=[0, 1, 0, 0]),
        np.ma.array([1, 99, 1, 1]),
        np.full(4, 1e30),
        1e30,
        [1, 2, 1e39, 4],
        [1, 2, -1, 4],
        [1, 2, np.inf, 4],
        np.ones(3),
        np.ones((2, 2)),
        [True, False, True, True],
        np.ones(4, object),
        None,
    ],
    ids=repr,
)
def test_the_same_priorities_are_accepted_as_in_one_process(learn, given):
    def outcome(buffer):
        try:
            return buffer.update_priorities([0, 1, 2, 3], given)
        except (TypeError, ValueError) as error:
            return type(error), str(error)

    one = PrioritizedReplayBuffer(4, {"x": {}}, alpha=1.5)
    one.add(x=np.arange(4))
    assert outcome(learn([], alpha=1.5)) == outcome(one)


@pytest.mark.parametrize(
    ("index", "error", "what"),
    [
        (0.5, ValueError, r"indexes\[1\] must be a whole number, got 0.5"),
        (np.nan, ValueError, r"indexes\[1\] must be a whole number, got nan"),
        (-1, IndexError, r"indexes\[1\] is -1, where no transition is stored"),
        (2**63, IndexError, rf"indexes\[1\] is {2**63}, where no transition is stored"),
        ("x", ValueError, "indexes must be numbers"),
        (1j, TypeError, "indexes must be numbers"),
    ],
)
def test_the_error_names_bad_indexes(make_shards, learn, index, error, what):
    shards = make_shards(1)
    fill(shards)
    learner = learn(shards)
    with pytest.raises(error, match=what):
        learner.update_priorities([0, index], [1.0, 1.0])
    learner.update_priorities([], [])


@pytest.mark.parametrize("mask", [[False, True], np.array([False, True]), np.array([False, True], object)], ids=str)
def test_masks_are_refused_as_indexes(learn, mask):
    with pytest.raises(TypeError, match=r"indexes must be numbers, got .*: pass np\.flatnonzero\(mask\)"):
        learn([]).update_priorities(mask, [1.0, 1.0])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # interrupts are lost in destructors
def test_a_learner_continues_after_interrupted_calls(make_shards, learn):
    shards = make_shards(2)
    fill(shards)
    learner, random = learn(shards), np.random.default_rng(0)
    batch = learner.sample(64, 0.4)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before, interrupted = signal.signal(signal.SIGALRM, interrupt), 0
    try:
        for _ in range(310):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 3e-3))
                end = (
                    time.monotonic() + 1
                )  # Python ignores an interrupt in a destructor or in a callback of its garbage collector
                while time.monotonic() < end:
                    batch = learner.sample(64, 0.4)
                    learner.update_priorities(batch["indexes"], np.ones(64))
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert are_whole(batch)
            if not interrupted % 10:
                assert are_whole(learner.sample(64, 0.4))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interrupted >= 300
    assert learner.get_stored_size() == sum(SIZES[:2])


def test_no_call_depends_on_an_exception_of_pyzmq(make_shards, learn, exceptions_of_pyzmq):
    """While pyzmq's wheels for Python 3.12 and later create an exception, a KeyboardInterrupt is lost."""
    shards = make_shards(2)
    fill(shards)
    learner = learn(shards)
    for _ in range(50):
        batch = learner.sample(64, 0.4)
        learner.update_priorities(batch["indexes"], np.ones(64))
    assert learner.get_stored_size() == sum(SIZES[:2]) and exceptions_of_pyzmq == []


def test_new_priorities_are_sent_immediately_after_an_interrupted_call(make_shards, learn):
    shards = make_shards(1)
    fill(shards)
    learner = learn(shards)
    row = learner.sample(64, 0.4)["indexes"][:1]
    with pytest.raises(KeyboardInterrupt), learner._whole_messages():
        raise KeyboardInterrupt
    learner.update_priorities(row, [1e12])
    samples_until(lambda batch: np.mean(batch["indexes"] == row) > 0.5, learner)


def samples_until(condition, learner: Learner) -> None:
    """Draw batches, all of which must be whole, until one meets the condition."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        batch = learner.sample(64, 0.4)
        assert are_whole(batch)
        if condition(batch):
            return
    raise AssertionError(f"no such batch within {PATIENCE} s")


@with_and_without_encryption
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.usefixtures("started_servers")
def test_a_learner_continues_without_a_lost_shard_and_resumes_with_its_rows(how, make_shards, learn):
    shards = make_shards(2)
    fill(shards)
    learner = learn(shards)
    learner.sample(64, 0.4)
    victim = shards[0].get_servers()["drawing"]
    os.kill(victim, how)
    samples_until(lambda batch: learner.lost == ["127.0.0.1"] and batch["id"].min() >= SIZES[0], learner)
    if how == signal.SIGSTOP:
        os.kill(victim, signal.SIGCONT)
    samples_until(lambda batch: not learner.lost and batch["id"].min() < SIZES[0], learner)
    assert learner.get_stored_size() == sum(SIZES[:2])


def test_a_learner_without_shards_raises_an_error(make_shards, learn):
    shards = make_shards(1)
    fill(shards)
    learner = learn(shards, deadline=0.5)
    learner.sample(4, 0.4)
    for server in shards[0].servers.values():
        server.close()
    with pytest.raises(ShardsLost, match=r"no shard answered within 0\.5 s"):
        for _ in range(10):  # more than one, since some batches were requested ahead
            learner.sample(4, 0.4)


def test_only_a_shared_buffer_can_draw_and_update_by_row_number():
    buffer = PrioritizedReplayBuffer(10, {"obs": {}})
    buffer.add(obs=1.0)
    with pytest.raises(TypeError, match=r"_draw\(\) requires a shared buffer"):
        buffer._draw(1)
    with pytest.raises(TypeError, match=r"_update_rows\(\) requires a shared buffer"):
        buffer._update_rows([0], [1.0])
