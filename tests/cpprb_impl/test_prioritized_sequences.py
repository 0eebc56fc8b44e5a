"""Sequences that are drawn by priority: which have one, how often each is drawn, and with which weight."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy import stats

from cpprb_impl import PrioritizedReplayBuffer

from .sequence_pairs import ALPHA, EPS, FIELDS, SHAPES, PrioritizedPair, named, values_of


@pytest.mark.parametrize("some", [False, True], ids=["all streams", "some streams"])
@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_the_last_steps_of_sequences_have_priorities_and_no_others(shape, some):
    rng = np.random.default_rng([*map(ord, named(shape))])
    pair = PrioritizedPair(36, 3, **shape)
    for step in range(150):
        pair.add_some(rng) if some else pair.add(rng, int(rng.choice([1, 2, 7])))
        pair.interrupt(rng)
        if step % 2 == 0:
            pair.check(draws=5)
        if rng.random() < 0.3 and pair.batch is not None:  # of sequences some of which are then overwritten
            pair.add(rng, int(rng.choice([1, 5])))
            pair.buffer.update_priorities(pair.batch["indexes"], rng.random(5))


def filled(shape, **options) -> tuple[PrioritizedPair, dict[int, float]]:
    """Return a buffer whose sequences have different priorities, and the leaf of each, by its last step."""
    rng = np.random.default_rng(1)
    pair = PrioritizedPair(60, 2, **shape, options=options)
    pair.add(rng, 29, ends=0.15)
    pair.check()
    numbers = pair.buffer.get(np.arange(58))["number"][:, 0]
    ends = np.flatnonzero(np.isin(numbers, [*pair.ends()]))
    priorities = rng.random(len(ends)) * 3
    pair.buffer.update_priorities(ends, priorities)
    return pair, dict(zip(numbers[ends].tolist(), (priorities + EPS) ** ALPHA, strict=True))


@pytest.mark.parametrize("normalize", ["buffer", "batch", None])
@pytest.mark.parametrize("shape", SHAPES[1::3], ids=named)
def test_draws_and_weights_follow_the_priorities_of_the_sequences_that_can_be_drawn(shape, normalize):
    pair, leaves = filled(shape, normalize=normalize)
    total, draws = sum(leaves.values()), 60_000
    last = [max(each) for each in pair.drawn(draws, beta=0.6)]
    counts = np.bincount(last, minlength=max(leaves) + 1)[[*leaves]]
    assert counts.sum() == draws
    # The draws are stratified, so that they vary less than independent ones.
    assert stats.chisquare(counts, draws * np.array([*leaves.values()]) / total).pvalue > 1e-6
    raw = np.array([(len(leaves) * leaves[each] / total) ** -0.6 for each in last])
    largest = {
        "buffer": max((len(leaves) * leaf / total) ** -0.6 for leaf in leaves.values()),
        "batch": raw.max(),
        None: 1,
    }[normalize]
    np.testing.assert_allclose(pair.batch["weights"], raw / largest, rtol=1e-4)
    numbers = pair.buffer.get(pair.batch["indexes"])["number"][:, 0]
    np.testing.assert_array_equal(numbers, last)


def test_draws_of_equal_frequency_fail_the_test_of_draws_by_priority():
    _, leaves = filled(SHAPES[1])
    expected = np.array([*leaves.values()]) * 60_000 / sum(leaves.values())
    drawn = np.bincount(np.random.default_rng(0).integers(len(leaves), size=60_000), minlength=len(leaves))
    assert stats.chisquare(drawn, expected).pvalue < 1e-6


@pytest.mark.parametrize("eta", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_errors_of_steps_become_one_priority(shape, eta):
    rng = np.random.default_rng(2)
    pair = PrioritizedPair(60, 2, **shape)
    if eta != 0.9:
        options = {**pair.buffer._layout.options["sequences"], "eta": eta}
        pair.buffer = PrioritizedReplayBuffer(60, FIELDS, n_envs=2, alpha=ALPHA, eps=EPS, sequences=options)
    pair.add(rng, 29, ends=0.2)
    last = [max(each) for each in pair.drawn(8)]
    length = shape["burn_in"] + shape["size"]
    errors = rng.normal(size=(8, length))
    mask = pair.batch.get("mask", np.ones((8, length), bool)).copy()
    mask[:, : shape["burn_in"]] = False
    expected = {}
    for number, each, learned in zip(last, np.abs(errors), mask, strict=True):
        expected[number] = eta * each[learned].max() + (1 - eta) * each[learned].mean()
    pair.buffer.update_priorities(pair.batch["indexes"], errors)
    leaves = pair.leaves()
    for number, priority in expected.items():
        assert leaves[number] == pytest.approx((priority + EPS) ** ALPHA, rel=1e-5)


def test_a_priority_given_to_add_is_that_of_the_sequence_which_ends_there():
    buffer = PrioritizedReplayBuffer(9, FIELDS, alpha=1, eps=0, sequences={"size": 2, "period": 2})
    for number in range(6):
        row = {name: column[0] for name, column in values_of(np.array([number])).items()}
        buffer.add(**row, done=False, truncated=0, priorities=[number + 0.5])
    buffer.sample_sequences(1)
    assert buffer._get_leaves(np.arange(6)).tolist() == [0, 1.5, 0, 3.5, 0, 5.5]


def test_bad_priorities_change_nothing():
    pair, leaves = filled(SHAPES[0])
    index = pair.batch["indexes"]
    for bad, message in [
        (np.ones((12, 2)), r"must be of shape \(12,\), or errors of shape \(12, 1\), got \(12, 2\)"),
        (np.full((12, 1), np.nan), "finite and not negative"),
        (np.full((12, 1), np.inf), "finite and not negative"),
        (np.ones(11), "one value per index"),
        (-np.ones(12), "finite and not negative"),
    ]:
        with pytest.raises(ValueError, match=message):
            pair.buffer.update_priorities(index, bad)
    with pytest.raises(IndexError):
        pair.buffer.update_priorities([59], [1.0])
    assert pair.leaves() == pytest.approx(leaves, rel=1e-6)


def test_single_steps_cannot_be_drawn_by_priorities_of_sequences():
    pair, _ = filled(SHAPES[1])
    for call in (pair.buffer.sample, pair.buffer.sample_indexes):
        with pytest.raises(TypeError, match="is not supported by a prioritized buffer with sequences"):
            call(4)
    assert pair.buffer.get([3])["number"].shape == (1, 1)


def test_sequences_without_any_priority_cannot_be_drawn():
    buffer = PrioritizedReplayBuffer(9, {"obs": {}}, alpha=1, eps=0, sequences={"size": 2})
    buffer.add(obs=np.arange(5), priorities=np.zeros(5))
    with pytest.raises(ValueError, match="the priority of every sequence is 0"):
        buffer.sample_sequences(2)


@pytest.mark.parametrize("how", ["copy", "pickle", "file"])
@pytest.mark.parametrize("ends", ["stop", "pad", "cross"])
def test_a_copy_draws_the_same_sequences_by_priority(how, ends, tmp_path):
    pair, _ = filled({"size": 3, "burn_in": 1, "period": 2, "ends": ends})
    if how == "file":
        other = PrioritizedReplayBuffer(
            60, FIELDS, alpha=ALPHA, eps=EPS, n_envs=2, sequences=pair.buffer._layout.options["sequences"]
        )
        pair.buffer.save_transitions(tmp_path / "file")
        other.load_transitions(tmp_path / "file")
    else:
        other = copy.copy(pair.buffer) if how == "copy" else pickle.loads(pickle.dumps(pair.buffer))
    for _ in range(5):
        first, second = pair.buffer.sample_sequences(16), other.sample_sequences(16)
        for name in first:
            np.testing.assert_array_equal(first[name], second[name])


def test_late_updates_skip_sequences_that_were_overwritten():
    pair, _ = filled(SHAPES[1], check_for_update=True)
    last = pair.drawn(16)
    indexes = pair.batch["indexes"]
    pair.add(np.random.default_rng(3), 12, ends=0)
    pair.buffer.update_priorities(indexes, np.full(16, 50.0))
    kept = {max(each) for each in last} & pair.ends().keys()
    pair.check()
    high = {number for number, leaf in pair.leaves().items() if leaf > 49**ALPHA}
    assert kept and high == kept


@pytest.mark.parametrize("exponents", [{}, {"alpha": 0.4, "eps": 0.1}], ids=["equal", "converted"])
@pytest.mark.parametrize(
    "sequences", [{"size": 3, "period": 3}, {"size": 7, "ends": "cross"}, None], ids=["period", "cross", "single steps"]
)
def test_all_that_a_loaded_file_has_can_be_drawn(sequences, exponents, tmp_path):
    pair, leaves = filled({"size": 4, "period": 4})
    pair.buffer.save_transitions(tmp_path / "file")
    given = {"alpha": ALPHA, "eps": EPS, **exponents}
    other = PrioritizedReplayBuffer(60, FIELDS, n_envs=2, sequences=sequences, **given)
    other.load_transitions(tmp_path / "file")
    drawable = other.get_valid_sequences() if sequences else other.get_stored_size()
    numbers = other.get(np.arange(58))["number"][:, 0]
    found = dict(zip(numbers.tolist(), other._get_leaves(np.arange(58)), strict=True))
    assert sum(leaf > 0 for leaf in found.values()) == drawable > 0
    for number, leaf in found.items():  # sequences that end with the same step keep their priority; others get 1
        priority = leaves[number] ** (1 / ALPHA) - EPS if number in leaves else 1
        if leaf > 0:
            assert leaf == pytest.approx((priority + given["eps"]) ** given["alpha"], rel=1e-5)
