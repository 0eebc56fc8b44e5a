"""A buffer with sequences beside a model of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from cpprb_impl import MPPrioritizedReplayBuffer, MPReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from .sequence_model import PADDED, SequenceModel

ALPHA, EPS = 0.7, 0.01
FIELDS = {
    "number": {"dtype": np.int64},
    "obs": {"shape": (2, 3), "dtype": np.float32},
    "state": {"shape": 2, "dtype": np.float64},
    "done": {"dtype": bool},
    "truncated": {"dtype": np.float32},
}


class Pair:
    """A buffer and a model, which get the same steps."""

    kind = ReplayBuffer
    batch = None  # the last one that was drawn from what is stored

    def __init__(self, capacity: int, streams: int = 1, *, options=None, **sequences) -> None:
        state = {"state": "state"} if sequences.pop("from_state", False) else {}
        given = {**sequences, **state}
        self.buffer = self.kind(capacity, FIELDS, n_envs=streams, sequences=given, seed=1, **(options or {}))
        self.model = SequenceModel(capacity, streams, **sequences, from_state=bool(state))
        self.is_first, self.is_last = [], []

    def rows(self, streams, rng, ends: float) -> dict[str, np.ndarray]:
        done, cut = rng.random(len(streams)) < ends / 2, rng.random(len(streams)) < ends / 2
        for stream, is_last in zip(streams, done | cut, strict=True):
            begun = self.model.episodes[stream]
            self.is_first.append(not begun or begun[-1][1])
            self.model.add(stream, is_last=bool(is_last))
        number = np.arange(self.model.added - len(streams), self.model.added)
        return {**values_of(number), "done": done, "truncated": cut * 0.5}

    def add(self, rng, groups: int = 1, ends: float = 0.2) -> None:
        """Add steps of all streams."""
        self.buffer.add(**self.rows([*range(self.model.streams)] * groups, rng, ends))

    def add_some(self, rng, streams=None, ends: float = 0.2) -> None:
        """Add steps of some streams, with some twice."""
        if streams is None:  # not as many as streams, which could be a mask
            streams = rng.integers(self.model.streams, size=rng.choice([1, 2, 4, 5]))
        self.buffer.add(env_ids=streams, **self.rows(streams, rng, ends))

    def interrupt(self, rng) -> None:
        """End all episodes, or clear the buffer, now and then."""
        if rng.random() < 0.1:
            self.end_episodes()
        if rng.random() < 0.03:
            self.buffer.clear()
            self.model.clear()
            self.batch = None

    def end_episodes(self) -> None:
        self.buffer.on_episode_end()
        self.model.end_episodes()

    def drawn(self, count: int, **options) -> list[tuple[int, ...]]:
        """Draw sequences, check all their values, and return the numbers of their steps."""
        batch = self.buffer.sample_sequences(count, **options)
        of_first_step = self.model.from_state
        if options.get("time_major"):
            batch = {
                name: array if name == "lengths" or (name == "state" and of_first_step) else array.swapaxes(0, 1)
                for name, array in batch.items()
            }
        length = self.model.burn_in + self.model.size
        mask = batch.get("mask", np.ones((count, length), bool))
        numbers = np.where(mask, batch["number"][..., 0], PADDED)
        for name, expected in values_of(numbers).items():
            if name == "state" and of_first_step:
                expected = expected[np.arange(count), mask.argmax(axis=1)]
            np.testing.assert_array_equal(batch[name], expected)
        assert not batch["number"][~mask].any() and not batch["done"][~mask].any()
        np.testing.assert_array_equal(batch["is_first"], np.array(self.is_first)[numbers] & mask)
        self.batch = batch
        if "lengths" in batch:
            np.testing.assert_array_equal(batch["lengths"], mask.sum(axis=1))
        return [tuple(each) for each in numbers.tolist()]

    def drawn_episodes(self, count: int) -> list[tuple[int, ...]]:
        """Draw episodes, check all their values, and return the numbers of their steps."""
        batch = self.buffer.sample_episodes(count)
        offsets = batch["offsets"]
        assert offsets.shape == (count + 1,) and offsets[0] == 0 and offsets[-1] == len(batch["number"])
        for name, expected in values_of(batch["number"][:, 0]).items():
            np.testing.assert_array_equal(batch[name], expected)
        return [tuple(batch["number"][i:j, 0].tolist()) for i, j in itertools.pairwise(offsets)]

    def check_episodes(self) -> None:
        if expected := self.model.whole_episodes():
            assert {*self.drawn_episodes(8)} <= expected
        else:
            with pytest.raises(ValueError, match="cannot sample an episode"):
                self.buffer.sample_episodes(1)

    def check_frequencies(self, *, time_major: bool) -> None:
        """Every sequence is drawn equally often."""
        expected = sorted(self.model.sequences())
        draws = 200 * len(expected)
        place = {sequence: n for n, sequence in enumerate(expected)}
        counts = np.bincount(
            [place[each] for each in self.drawn(draws, time_major=time_major)], minlength=len(expected)
        )
        assert stats.chisquare(counts).pvalue > 1e-6 and counts.min() > 0

    def check_frequencies_of_episodes(self) -> None:
        """Every episode is drawn equally often, and may be padded."""
        expected = sorted(self.model.whole_episodes())
        drawn = self.drawn_episodes(300 * len(expected))
        counts = np.bincount([expected.index(each) for each in drawn], minlength=len(expected))
        assert len(expected) > 20 and stats.chisquare(counts).pvalue > 1e-6
        batch = self.buffer.sample_episodes(20, padded=True)
        assert batch["obs"].shape == (20, batch["lengths"].max(), 2, 3)
        for number, mask, length, first in zip(
            *(batch[n] for n in ("number", "mask", "lengths", "is_first")), strict=True
        ):
            assert tuple(number[:length, 0]) in expected and mask[:length].all() and not mask[length:].any()
            assert not number[length:].any() and first[0] and not first[1:].any()

    def check(self, draws: int = 12) -> None:
        expected = self.model.sequences()
        assert self.buffer.get_valid_sequences() == len(expected)
        if expected:
            assert {*self.drawn(draws)} <= expected
        else:
            with pytest.raises(ValueError, match=r"steps (must be|are) stored"):
                self.buffer.sample_sequences(1)


class PrioritizedPair(Pair):
    """A prioritized buffer and a model, which get the same steps."""

    kind = PrioritizedReplayBuffer

    def __init__(self, *arguments, options=None, **sequences) -> None:
        super().__init__(*arguments, options={"alpha": ALPHA, "eps": EPS, **(options or {})}, **sequences)

    def ends(self) -> dict[int, tuple[int, ...]]:
        """Return the sequence that ends with each step."""
        return {max(sequence): sequence for sequence in self.model.sequences()}

    def leaves(self) -> dict[int, float]:
        """Return the positive leaves, by the numbers of their steps."""
        slots = np.arange(self.buffer.get_stored_size())
        leaves, numbers = self.buffer._get_leaves(slots), self.buffer.get(slots)["number"][:, 0]
        return {int(number): float(leaf) for number, leaf in zip(numbers, leaves, strict=True) if leaf > 0}

    def check(self, draws: int = 12) -> None:
        super().check(draws)
        assert self.leaves().keys() == self.ends().keys()


class SharedPair(Pair):
    """A shared buffer and a model, which get the same steps from one process."""

    kind = MPReplayBuffer

    def end_episodes(self) -> None:
        if any(episodes and not episodes[-1][1] for episodes in self.model.episodes):
            with pytest.raises(ValueError, match="must have ended it when the step was added"):
                self.buffer.on_episode_end()
        else:
            super().end_episodes()


class SharedPrioritizedPair(PrioritizedPair, SharedPair):
    """The same by priority. Leaves of sequences that lost a step may remain until they are drawn."""

    kind = MPPrioritizedReplayBuffer
    check = Pair.check


def values_of(number: np.ndarray) -> dict[str, np.ndarray]:
    """Return the fields that follow from the numbers of steps; zeros for padded ones."""
    whole = np.where(number == PADDED, 0, number)
    scale = (number != PADDED).astype(float)
    return {
        "number": whole[..., None],
        "obs": ((whole * 6)[..., None, None] + np.arange(6).reshape(2, 3)) * scale[..., None, None],
        "state": np.stack([whole + 0.5, -whole], axis=-1) * scale[..., None],
    }


# Each end, with and without burn-in, with a period that fits the size and ones that do not, alone and with others.
SHAPES = [
    {"size": size, "burn_in": burn_in, "period": period, "ends": ends, "from_state": from_state}
    for ends, (size, burn_in, period, from_state) in itertools.product(
        ("stop", "pad", "cross"),
        [(1, 0, 1, False), (3, 0, 1, False), (4, 2, 3, False), (3, 4, 2, True), (5, 0, 5, True), (2, 1, 2, False)],
    )
]


def named(shape: dict) -> str:
    return "-".join(map(str, shape.values()))
