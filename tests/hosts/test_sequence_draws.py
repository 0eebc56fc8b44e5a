"""Sequences of steps that are drawn from several shards, which are processes of this host."""

from __future__ import annotations

import time
from contextlib import closing, suppress

import numpy as np
import pytest
from scipy import stats

from cpprb_impl.hosts import wire
from cpprb_impl.hosts.explorer import LocalExplorer
from cpprb_impl.hosts.learner import ROW_BITS, Learner
from tests.cpprb_impl.test_shared_sequences import check_windows, steps

from .sequences import ENVS, EPISODE, OPTIONS, SIZE, Row, learner_of, rows_in


def fill(shards, explore) -> None:
    """Add the steps of explorers in this and in other processes, as many as each shard has room for."""
    for number, shard in enumerate(shards):
        with closing(LocalExplorer(shard.address)) as local:
            local.add(**steps(2 * number, 0, 50 * (number + 1), ENVS))
        remote = explore([shard])
        for first in range(0, 90 * (number + 1), 5):
            remote.add(**steps(2 * number + 1, first, 5, ENVS))
        remote.flush()


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
