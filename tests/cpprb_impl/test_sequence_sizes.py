"""Sequences of another size than that of the option `sequences`, which a call asks for."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from cpprb_impl import MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from .sequence_pairs import FIELDS, SHAPES, Pair, named

EMPTY = pytest.raises(ValueError, match=r"steps (must be|are) stored")


class SizesPair(Pair):
    """A buffer and models of sequences of different sizes."""

    def drawn_of(self, size: int, count: int) -> list[tuple[int, ...]]:
        """Draw sequences of this size, check all their values, and return the numbers of their steps."""
        model = self.model
        self.model = replace(model, size=size)
        self.model.episodes, self.model.added, self.model.oldest = model.episodes, model.added, model.oldest
        try:
            return self.drawn(count, size=size)
        finally:
            self.model = model

    def sequences_of(self, size: int) -> set[tuple[int, ...]]:
        other = replace(self.model, size=size)
        other.episodes, other.oldest = self.model.episodes, self.model.oldest
        return other.sequences()

    def check_size(self, size: int) -> None:
        if expected := self.sequences_of(size):
            assert {*self.drawn_of(size, 12)} <= expected
        else:
            with EMPTY:
                self.buffer.sample_sequences(1, size=size)


@pytest.mark.parametrize("some", [False, True], ids=["all streams", "some streams"])
@pytest.mark.parametrize("shape", SHAPES, ids=named)
def test_sequences_of_each_size_are_those_of_the_model(shape, some):
    rng = np.random.default_rng([*map(ord, named(shape))])
    pair = SizesPair(36, 3, **shape)
    for _ in range(100):
        pair.add_some(rng) if some else pair.add(rng, int(rng.choice([1, 2, 30])))
        pair.interrupt(rng)
        if rng.random() < 0.3:
            pair.check()
        for size in rng.integers(shape["period"], 12 - shape["burn_in"] + 1, size=2):
            pair.check_size(int(size))


@pytest.mark.parametrize("size", [1, 2, 6, 11])
@pytest.mark.parametrize("ends", ["stop", "pad", "cross"])
def test_every_sequence_of_a_size_is_drawn_equally_often(ends, size):
    rng = np.random.default_rng(0)
    pair = SizesPair(60, size=3, burn_in=1, ends=ends)
    pair.add(rng, 40)
    pair.drawn_of(size, 1)
    pair.add(rng, 31, ends=0.1)  # the queue of this size catches up
    expected = sorted(pair.sequences_of(size))
    place = {sequence: n for n, sequence in enumerate(expected)}
    drawn = [place[each] for each in pair.drawn_of(size, 200 * len(expected))]
    counts = np.bincount(drawn, minlength=len(expected))
    assert stats.chisquare(counts).pvalue > 1e-6 and counts.min() > 0


def test_a_step_that_becomes_the_last_one_ends_a_sequence_of_each_size():
    pair = SizesPair(30, size=3, period=3, ends="pad")
    pair.add(np.random.default_rng(0), 8, ends=0)
    for size in (3, 4, 5):
        pair.check_size(size)
    pair.end_episodes()
    for size in (3, 4, 5):
        assert {*pair.drawn_of(size, 200)} == pair.sequences_of(size)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
@pytest.mark.parametrize("some", [False, True], ids=["all streams", "some streams"])
def test_a_copy_draws_the_same_sequences_of_each_size(how, some):
    rng = np.random.default_rng(1)
    pair = SizesPair(60, 3, size=3, ends="pad")
    for _ in range(50):
        pair.add_some(rng) if some else pair.add(rng)
        pair.check_size(5)
    other = copy.copy(pair)
    other.buffer = how(pair.buffer)
    assert other.drawn_of(5, 50) == pair.drawn_of(5, 50)
    assert other.drawn_of(2, 50) == pair.drawn_of(2, 50)


def test_only_the_queues_of_a_few_sizes_are_kept():
    pair = SizesPair(1000, size=3)
    pair.add(np.random.default_rng(0), 1000, ends=0)
    pair.check_size(3)
    sizes = [*range(4, 30), 3, 4, 5]
    needed = []
    for size in sizes:
        pair.check_size(size)
        needed.append(pair.buffer.nbytes)
    assert needed[0] < needed[1] < needed[2] < needed[3] and {*needed[3:]} == {needed[3]}


def test_the_size_of_the_option_may_be_given():
    pair = SizesPair(60, size=3)
    pair.add(np.random.default_rng(0), 50)
    pair.check_size(3)
    before = pair.buffer.nbytes
    for size in (3, np.int64(3), None):
        assert pair.buffer.sample_sequences(5, size=size)["obs"].shape == (5, 3, 2, 3)
    assert pair.buffer.nbytes == before
    assert pair.buffer.sample_sequences(5, time_major=True, size=7)["obs"].shape == (7, 5, 2, 3)


BAD = {
    "zero": (0, ValueError, "size must be from 2, the period, to 27, got 0"),
    "negative": (-5, ValueError, "size must be from 2, the period, to 27, got -5"),
    "below the period": (1, ValueError, "size must be from 2, the period, to 27, got 1"),
    "too large": (28, ValueError, "size must be from 2, the period, to 27, got 28"),
    "huge": (2**80, ValueError, "size must be from 2, the period, to 27, got 9223372036854775807"),
    "float": (3.0, TypeError, "size must be an int or None, got 3.0"),
    "bool": (True, TypeError, "size must be an int or None, got True"),
    "text": ("3", TypeError, "size must be an int or None, got '3'"),
}


@pytest.mark.parametrize(("size", "error", "message"), BAD.values(), ids=BAD)
def test_other_sizes_are_refused(size, error, message):
    pair = SizesPair(60, 2, size=3, burn_in=3, period=2)
    pair.add(np.random.default_rng(0), 30, ends=0)
    with pytest.raises(error, match=message):
        pair.buffer.sample_sequences(2, size=size)
    assert pair.buffer.sample_sequences(2, size=27)["done"].shape == (2, 30, 1)


def test_an_error_says_how_many_steps_of_the_size_are_missing():
    pair = SizesPair(60, size=3)
    pair.add(np.random.default_rng(0), 6, ends=0)
    with pytest.raises(ValueError, match="9 consecutive steps must be stored, got 6, so 3 are missing"):
        pair.buffer.sample_sequences(2, size=9)


def test_shared_and_prioritized_sequences_have_one_size():
    shared = MPReplayBuffer(60, FIELDS, sequences={"size": 3})
    with pytest.raises(ValueError, match="size must be that of the option `sequences` in a shared buffer, 3, got 4"):
        shared.sample_sequences(2, size=4)
    with pytest.raises(TypeError, match="has no argument 'size'"):
        PrioritizedReplayBuffer(60, FIELDS, sequences={"size": 3}).sample_sequences(2, size=4)
    with pytest.raises(ValueError, match="created with the option `sequences`"):
        ReplayBuffer(60, FIELDS).sample_sequences(2, size=4)


def test_python_code_may_ask_for_other_sizes_during_a_call():
    buffer = ReplayBuffer(60, {"obs": {}, "done": {}}, sequences={"size": 3})
    buffer.add(obs=np.arange(60), done=np.zeros(60))

    class Tensor:
        def __init__(self, array):
            self.array = array

        def numpy(self):
            for size in range(10, 20):
                buffer.sample_sequences(2, size=size)
            return self.array

        def data_ptr(self):
            return self.array.ctypes.data

    found = buffer.sample_sequences(50, size=5)
    out = {name: Tensor(array.copy()) for name, array in found.items()}
    buffer.sample_sequences(50, size=5, out=out)
    steps = out["obs"].array[..., 0]
    assert (np.diff(steps, axis=1) == 1).all() and steps.shape == (50, 5)
