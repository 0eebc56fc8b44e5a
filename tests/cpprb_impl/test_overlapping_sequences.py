"""Errors of steps that change the priorities of all sequences that contain these steps, as brute force finds them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from cpprb_impl import MPPrioritizedReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from .sequence_model import PADDED
from .sequence_pairs import ALPHA, EPS, FIELDS, SHAPES, PrioritizedPair, named

ETA = 0.7


class OverlappingPair(PrioritizedPair):
    """A buffer and a model, which computes the priority of every sequence with an updated step from all its errors."""

    def __init__(self, capacity: int, streams: int = 1, *, options=None, **shape) -> None:
        super().__init__(capacity, streams, options=options, **shape)
        sequences = {**self.buffer._layout.options["sequences"], "eta": ETA, "overlap": "all"}
        given = {"alpha": ALPHA, "eps": EPS, **(options or {})}
        self.buffer = PrioritizedReplayBuffer(capacity, FIELDS, n_envs=streams, sequences=sequences, seed=1, **given)
        self.errors: list[float] = []  # by number
        self.priorities: dict[int, float] = {}  # by the number of a sequence's last step
        self.is_checked = self.buffer._layout.options.get("check_for_update", False)

    def rows(self, streams, rng, ends: float) -> dict[str, np.ndarray]:
        rows = super().rows(streams, rng, ends)
        if rng.random() < 0.3:
            rows["priorities"] = rng.random(len(streams)) * 2
        priorities = rows.get("priorities", [self.buffer.get_max_priority()] * len(streams))
        self.priorities |= dict(zip(rows["number"].ravel().tolist(), priorities, strict=True))
        self.errors += [*priorities]
        return rows

    def end_episodes(self) -> None:
        self.buffer.get_valid_sequences()
        before, largest = self.ends(), self.buffer.get_max_priority()
        super().end_episodes()
        self.priorities |= dict.fromkeys(self.ends().keys() - before.keys(), largest)

    def learned(self, sequence) -> dict[int, int]:
        """Return the numbers of the steps to learn from, each with its place in the sequence."""
        return {number: t for t, number in enumerate(sequence) if t >= self.model.burn_in and number != PADDED}

    def update(self, rng) -> None:
        """Update the sequences that were drawn last, some of which may have been overwritten."""
        indexes = self.batch["indexes"]
        errors = rng.normal(size=(len(indexes), self.model.burn_in + self.model.size))
        numbers = self.buffer.get(indexes)["number"][:, 0].tolist()
        mask = self.batch.get("mask", np.ones(errors.shape, bool))
        drawn = (np.where(mask, self.in_order("number")[..., 0], PADDED)).max(axis=1)
        self.buffer.update_priorities(indexes, errors)
        ends, updated = self.ends(), set()
        for number, last, own in zip(numbers, drawn, np.abs(errors), strict=True):
            if number not in ends or (self.is_checked and number != last):
                continue
            for step, t in self.learned(ends[number]).items():
                self.errors[step] = own[t]
                updated.add(step)
        for number, sequence in ends.items():
            steps = self.learned(sequence).keys()
            if steps & updated:
                those = [self.errors[step] for step in steps]
                self.priorities[number] = ETA * max(those) + (1 - ETA) * sum(those) / len(those)

    def in_order(self, name: str) -> np.ndarray:
        return self.batch[name]

    def check(self, draws: int = 12) -> None:
        super().check(draws)
        for number, leaf in self.leaves().items():
            assert leaf == pytest.approx((self.priorities[number] + EPS) ** ALPHA, rel=1e-4)


@pytest.mark.parametrize("check_for_update", [False, True])
@pytest.mark.parametrize("streams", [1, 3, "some of 3"])
@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_priorities_are_those_of_brute_force(shape, streams, check_for_update):
    rng = np.random.default_rng([*map(ord, named(shape))])
    some = streams == "some of 3"
    streams = 3 if some else streams
    pair = OverlappingPair(18 * streams, streams, options={"check_for_update": check_for_update}, **shape)
    for _ in range(100):
        pair.add_some(rng) if some else pair.add(rng, int(rng.choice([1, 2, 7])), ends=float(rng.choice([0, 0.2])))
        pair.interrupt(rng)
        if rng.random() < 0.2 and pair.model.sequences():
            pair.check()
        if rng.random() < 0.4 and pair.batch is not None:
            pair.update(rng)
    pair.check()


def test_only_the_drawn_sequences_change_by_default():
    sequences = {"size": 3, "burn_in": 1}
    own = PrioritizedPair(40, **sequences)
    own.add(np.random.default_rng(0), 30)
    own.drawn(4)
    before = own.leaves()
    own.buffer.update_priorities(own.batch["indexes"], np.full((4, 4), 7.0))
    changed = {number for number, leaf in own.leaves().items() if leaf != before[number]}
    assert changed == {*own.batch["number"][:, -1, 0].tolist()}
    explicit = PrioritizedReplayBuffer(40, FIELDS, sequences={**sequences, "overlap": "own"}, alpha=ALPHA, eps=EPS)
    assert explicit._layout == own.buffer._layout


def filled(shape, **options) -> tuple[OverlappingPair, np.random.Generator]:
    rng = np.random.default_rng(3)
    pair = OverlappingPair(60, 2, options=options, **shape)
    for _ in range(9):
        pair.add(rng, 10)
        pair.drawn(5)
        pair.update(rng)
    return pair, rng


def loaded(pair, path):
    other = copy.copy(pair)
    sequences = pair.buffer._layout.options["sequences"]
    other.buffer = PrioritizedReplayBuffer(60, FIELDS, n_envs=2, alpha=ALPHA, eps=EPS, sequences=sequences)
    pair.buffer.save_transitions(path)
    other.buffer.load_transitions(path)
    return other.buffer


COPIES = {
    "copy": lambda pair, _: copy.copy(pair.buffer),
    "deepcopy": lambda pair, _: copy.deepcopy(pair.buffer),
    "pickle": lambda pair, _: pickle.loads(pickle.dumps(pair.buffer)),
    "pickle 2": lambda pair, _: pickle.loads(pickle.dumps(pair.buffer, 2)),
    "file": loaded,
}


@pytest.mark.parametrize("how", COPIES.values(), ids=COPIES)
def test_a_copy_has_the_same_errors(how, tmp_path):
    pair, rng = filled({"size": 4, "burn_in": 1, "period": 2, "ends": "pad"})
    pair.buffer = how(pair, tmp_path / "file")
    for _ in range(4):
        pair.check()
        pair.update(rng)
        pair.add(rng, 3)
    pair.check()


def test_rows_that_are_appended_from_a_file_keep_their_errors(tmp_path):
    pair, _ = filled({"size": 4})
    pair.buffer.save_transitions(tmp_path / "file")
    sequences = pair.buffer._layout.options["sequences"]
    other = PrioritizedReplayBuffer(50, FIELDS, n_envs=2, alpha=ALPHA, eps=EPS, sequences={**sequences, "size": 3})
    other.load_transitions(tmp_path / "file")
    np.testing.assert_array_equal(other._get_errors(0, 50), pair.buffer._get_errors(10, 60))


def test_rows_of_a_buffer_without_errors_have_the_largest_priority(tmp_path):
    own = PrioritizedPair(60, 2, size=3)
    own.add(np.random.default_rng(0), 20)
    own.drawn(5)
    own.buffer.update_priorities(own.batch["indexes"], np.full(5, 9.0))
    own.buffer.save_transitions(tmp_path / "file")
    pair = OverlappingPair(60, 2, size=3)
    pair.buffer.load_transitions(tmp_path / "file")
    assert pair.buffer._get_errors(0, 40).tolist() == [9.0] * 40
    pair.buffer.save_transitions(tmp_path / "file")
    own = PrioritizedPair(60, 2, size=3)
    own.buffer.load_transitions(tmp_path / "file")  # the errors are left out
    assert own.buffer.get_stored_size() == 40


@pytest.mark.parametrize("bad", [-1, np.nan, np.inf])
def test_a_file_with_bad_errors_is_refused(bad, tmp_path, monkeypatch):
    pair, _ = filled({"size": 4})
    with monkeypatch.context() as context:
        errors = lambda _, begin, end: np.full(end - begin, bad, np.float32)  # noqa: E731
        context.setattr(PrioritizedReplayBuffer, "_get_errors", errors, raising=False)
        pair.buffer.save_transitions(tmp_path / "file")
    other = OverlappingPair(60, 2, size=4).buffer
    with pytest.raises(ValueError, match=r"file\.npz: errors\[0\] must be finite and not negative"):
        other.load_transitions(tmp_path / "file")
    assert other.get_stored_size() == 0


@pytest.mark.parametrize("priorities", [np.ones(5), 1.0, np.float64(1)])
def test_one_priority_per_sequence_is_refused(priorities):
    pair, _ = filled({"size": 4})
    before = pair.leaves()
    pair.drawn(5)
    with pytest.raises(ValueError, match=r"priorities must be errors of shape \(5, 4\), because .* overlap='all'"):
        pair.buffer.update_priorities(pair.batch["indexes"], priorities)
    assert pair.leaves() == before


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_bad_errors_change_nothing(bad):
    pair, _ = filled({"size": 4, "burn_in": 1})
    pair.drawn(5)
    before, errors = pair.leaves(), pair.buffer._get_errors(0, 60)
    given = np.ones((5, 5))
    given[3, 2] = bad
    with pytest.raises(ValueError, match=r"priorities\[3\] must be"):
        pair.buffer.update_priorities(pair.batch["indexes"], given)
    assert pair.leaves() == before
    np.testing.assert_array_equal(pair.buffer._get_errors(0, 60), errors)


def test_the_largest_errors_have_finite_priorities():
    pair = OverlappingPair(60, options={"alpha": 1.0}, size=8, ends="pad")
    pair.add(np.random.default_rng(0), 60, ends=0.1)
    pair.drawn(20)
    pair.buffer.update_priorities(pair.batch["indexes"], np.full((20, 8), 3e38))
    assert np.isfinite([*pair.leaves().values()]).all() and np.isfinite(pair.buffer.sample_sequences(5)["obs"]).all()


@pytest.mark.parametrize(
    ("kind", "overlap", "message"),
    [
        (PrioritizedReplayBuffer, "some", "overlap must be 'own' or 'all', got 'some'"),
        (ReplayBuffer, "all", "overlap must be 'own' except in a PrioritizedReplayBuffer, got 'all'"),
        (MPPrioritizedReplayBuffer, "all", "overlap must be 'own' except in a PrioritizedReplayBuffer, got 'all'"),
    ],
)
def test_other_overlaps_are_refused(kind, overlap, message):
    with pytest.raises(ValueError, match=message):
        kind(10, FIELDS, sequences={"size": 3, "overlap": overlap})


def test_errors_take_four_bytes_per_transition():
    own = PrioritizedReplayBuffer(10**5, FIELDS, sequences={"size": 3})
    every = PrioritizedReplayBuffer(10**5, FIELDS, sequences={"size": 3, "overlap": "all"})
    assert every.nbytes - own.nbytes == 4 * 10**5
