"""What a peer's sequences are, observed on rows that name themselves, and compared with its contract.

Several streams of short and long episodes are added until the buffer has wrapped. Each returned row is then found among
the added ones, byte for byte, so that a sequence is a series of steps of known streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from adapters.base import Array, Columns, Field, WrongAnswer
from adapters.behaviours import (
    Behaviour,
    LastSteps,
    Meaning,
    SequenceBounds,
    SequencePadding,
    SequencePriorities,
    SequenceStarts,
)
from adapters.checks import SIGNIFICANCE, AddedRows, chi_square, keyed_columns
from adapters.sequences import SequenceAdapter, SequenceContract, SequenceSpec

FIELDS: Mapping[str, Field] = {
    "obs": Field((4,), "float32"),
    "act": Field((), "int64"),
    "rew": Field((), "float32"),
    "next_obs": Field((4,), "float32"),
    "done": Field((), "bool"),
}
STORED = 192  # steps per stream
SIZE, BURN_IN = 8, 4
STEPS_A_CALL, CALLS = 16, 20  # the ring wraps, and its oldest episode is cut
#: Steps of successive episodes: too short for a sequence, exactly long enough, and longer.
EPISODES = (5, 12, 30, 8, 13, 40, 12, 20, 3)
BATCH, DRAWS = 64, 8_000
UPDATES, LATE = 300, 100  # batches; the share of raised sequences is taken over the last ones
RAISED, LOWERED, RAISED_SHARE = 5_000.0, 1e-3, 0.9
WEIGHTS_WITHIN = 1.1  # a factor; a peer's eps changes the lowered priorities
EXPECTED = 10.0  # minimum expected draws per group of sequences in a chi-square test
PADDED = -1  # in place of a step's number


@dataclass(frozen=True)
class Observed:
    """An observed behaviour, the evidence for it, and how many sequences were looked at."""

    word: Behaviour
    evidence: str
    looked_at: int


class NumberedSteps:
    """Steps of several streams that are numbered in the order in which they are added, and those that are stored.

    `columns` are (steps, streams, *shape); step t of stream e has the number t * streams + e.
    """

    def __init__(self, columns: Columns, fields: Mapping[str, Field], stored: int | None = None) -> None:
        self.columns, self.fields = columns, fields
        self.steps, self.streams = columns["done"].shape
        self.oldest = 0 if stored is None else self.steps - stored
        flat = {name: column.reshape(-1, *column.shape[2:]) for name, column in columns.items()}
        self.known, self.done = AddedRows(flat, fields), flat["done"]

    @classmethod
    def made(cls, streams: int) -> NumberedSteps:
        steps = CALLS * STEPS_A_CALL
        columns = keyed_columns(FIELDS, steps * streams)
        shaped = {name: column.reshape(steps, streams, *column.shape[1:]) for name, column in columns.items()}
        for stream in range(streams):
            lengths = np.resize(np.roll(EPISODES, stream), steps)
            shaped["done"][:, stream] = np.isin(np.arange(steps), np.cumsum(lengths) - 1)
        goes_on = ~shaped["done"][:-1]
        shaped["next_obs"][:-1][goes_on] = shaped["obs"][1:][goes_on]
        return cls(shaped, FIELDS, STORED)

    def batches(self) -> Iterator[Columns]:
        """Yield all steps as the batches in which they are added."""
        for at in range(0, self.steps, STEPS_A_CALL):
            yield {name: column[at : at + STEPS_A_CALL] for name, column in self.columns.items()}

    def check(self, contract: SequenceContract, batch: Columns, sequences: int, length: int) -> None:
        """Check a batch from a buffer to which these steps, of one stream, were added again and again. Raises
        `WrongAnswer`."""
        numbers, has_mask = self.numbers(batch, sequences, length)
        if (numbers == PADDED).any() and (contract.padding is SequencePadding.NONE or not has_mask):
            raise WrongAnswer(f"padding: {_counted((numbers == PADDED).any(axis=1))} are padded, against the contract")
        pairs = (numbers[:, 1:] != PADDED) & (numbers[:, :-1] != PADDED)
        wrong = pairs & ((numbers[:, 1:] - numbers[:, :-1]) % self.steps != 1)
        if contract.bounds is SequenceBounds.ONE_EPISODE:
            wrong |= pairs & self.done[numbers[:, :-1]]
        if wrong.any():
            raise WrongAnswer(f"bounds: {_counted(wrong.any(axis=1))} are not consecutive steps of {contract.bounds}")

    def numbers(self, batch: Columns, sequences: int, length: int) -> tuple[Array, bool]:
        """Return the number of each step, (sequences, length), and whether a mask says which steps are padded. A padded
        step consists of zeros; a stored step never does."""
        flat = {}
        for name in self.fields:
            if name not in batch:
                raise WrongAnswer(f"{name}: missing from the batch, which has {', '.join(batch)}")
            column = np.asarray(batch[name])
            if column.shape[:2] != (sequences, length):
                raise WrongAnswer(f"{name}: shape {column.shape}, expected it to begin with {(sequences, length)}")
            flat[name] = column.reshape(-1, *column.shape[2:])
        is_stored = np.logical_or.reduce([column.reshape(len(column), -1).any(axis=1) for column in flat.values()])
        found = np.full(sequences * length, PADDED)
        found[is_stored] = self.known.check({name: column[is_stored] for name, column in flat.items()})
        mask = batch.get("mask")
        if mask is not None and (np.asarray(mask).reshape(-1) & ~is_stored).any():
            mask = None
        if mask is not None and (wrong := np.flatnonzero(~np.asarray(mask).reshape(-1) & is_stored)).size:
            raise WrongAnswer(f"mask: false for step {found[wrong[0]]}, which is stored")
        return found.reshape(sequences, length), mask is not None

    @cached_property
    def run_length(self) -> Array:
        """For each step, the number of stored steps of its episode up to and including it; 0 if it is not stored."""
        lengths = np.zeros((self.steps, self.streams), np.int64)
        done = self.done.reshape(self.steps, self.streams)
        for t in range(self.oldest, self.steps):
            continues = 0 if t == self.oldest else np.where(done[t - 1], 0, lengths[t - 1])
            lengths[t] = continues + 1
        return lengths.reshape(-1)

    def ends(self, crosses: bool, length: int, needed: int) -> Array:
        """Return the numbers of the steps with which a sequence of this length can end. If its episode begins in it, it
        needs only so many stored steps."""
        numbers = np.arange(self.steps * self.streams)
        if crosses:
            return numbers[(self.oldest + length - 1) * self.streams :]
        begins = self.episode_of(numbers)
        is_cut = (begins < (self.oldest + 1) * self.streams) & ~self.done[begins - self.streams]
        return numbers[self.run_length >= np.where(is_cut, length, needed)]

    def episode_of(self, ends: Array) -> Array:
        """Return the number of the first stored step of the episode of each of these steps."""
        first: Array = ends - (self.run_length[ends] - 1) * self.streams
        return first


def observe_uniform(
    adapter: SequenceAdapter, spec: SequenceSpec, steps: NumberedSteps, draws: int
) -> dict[str, Observed]:
    """Observe each behaviour of a full, uniform buffer that contains these steps. Raises `WrongAnswer`."""
    found, masked = [], True
    for _ in range(-(-draws // BATCH)):
        numbers, has_mask = steps.numbers(adapter.sample(BATCH), BATCH, spec.length)
        found.append(numbers)
        masked &= has_mask
    numbers = np.concatenate(found)
    bounds = _bounds(numbers, steps, spec)
    padding = _padding(numbers, masked)
    if bounds.word is SequenceBounds.BROKEN:  # what begins where means nothing then
        return {"bounds": bounds, "padding": padding}
    counts = np.bincount(numbers[:, -1], minlength=steps.steps * steps.streams)
    needed = spec.length if padding.word is SequencePadding.NONE else spec.size
    ends = steps.ends(bounds.word is SequenceBounds.ONE_STREAM, spec.length, needed)
    return {
        "bounds": bounds,
        "starts": _starts(counts, ends, steps),
        "padding": padding,
        "last_steps": _last_steps(counts, ends, steps),
    }


def _bounds(numbers: Array, steps: NumberedSteps, spec: SequenceSpec) -> Observed:
    real = numbers != PADDED
    pairs = real[:, 1:] & real[:, :-1]
    follows = (numbers[:, 1:] - numbers[:, :-1] == steps.streams) | ~pairs
    is_stored = (numbers >= steps.oldest * steps.streams) | ~real
    is_whole = (follows.all(axis=1) & is_stored.all(axis=1)) & real[:, spec.burn_in :].all(axis=1)
    is_whole &= ~(real[:, :-1] & ~real[:, 1:]).any(axis=1)  # padded in front only, before an episode's first step
    is_whole &= real[:, 0] | steps.done[np.where(real, numbers, steps.done.size).min(axis=1) - steps.streams]
    if not is_whole.all():
        wrong = numbers[~is_whole][0]
        about = f"{_counted(~is_whole)}, such as that of steps {', '.join(map(str, wrong))}"
        return Observed(SequenceBounds.BROKEN, f"{about}; each stream has every {steps.streams}. step", len(numbers))
    crosses = (pairs & steps.done[numbers[:, :-1]]).any(axis=1)
    if crosses.any():
        return Observed(SequenceBounds.ONE_STREAM, _counted(crosses), len(numbers))
    return Observed(SequenceBounds.ONE_EPISODE, f"{len(numbers):,} sequences of {steps.streams} streams", len(numbers))


def _padding(numbers: Array, masked: bool) -> Observed:
    padded = (numbers == PADDED).any(axis=1)
    if not padded.any():
        return Observed(SequencePadding.NONE, f"{len(numbers):,} sequences", len(numbers))
    about = f"{_counted(padded)} are padded with zeros"
    return Observed(SequencePadding.MASKED_BURN_IN if masked else SequencePadding.UNMASKED, about, len(numbers))


def _starts(counts: Array, ends: Array, steps: NumberedSteps) -> Observed:
    draws, drawn = int(counts.sum()), counts[ends]
    if drawn.sum() < draws:
        odd = np.flatnonzero(counts)[~np.isin(np.flatnonzero(counts), ends)][0]
        return Observed(SequenceStarts.UNEVEN, f"a sequence ends with step {odd}, which cannot end one", draws)
    _, episode, in_episode = np.unique(steps.episode_of(ends), return_inverse=True, return_counts=True)
    by_episode = 1 / in_episode[episode]
    fits = {SequenceStarts.EVEN: np.ones(len(ends)), SequenceStarts.EPISODES_EVEN: by_episode}
    p = {word: chi_square(drawn, shares, EXPECTED)[1] for word, shares in fits.items()}
    fitting = (word for word in fits if p[word] > SIGNIFICANCE and not _never(drawn, fits[word]))
    word = next(fitting, SequenceStarts.UNEVEN)
    most = f"the most frequent was drawn {drawn.max() * len(ends) / draws:.2g} times as often as the mean"
    about = f"{draws:,} draws from {len(ends)} sequences, p = {p[SequenceStarts.EVEN]:.2g} if all are alike; {most}"
    return Observed(word, about, draws)


def _never(drawn: Array, shares: Array) -> bool:
    """Return whether a sequence was never drawn that should have been."""
    missing = drawn == 0
    chance = np.exp(-shares[missing] / shares.sum() * drawn.sum()).sum()
    return bool(missing.any() and chance < SIGNIFICANCE)


def _last_steps(counts: Array, ends: Array, steps: NumberedSteps) -> Observed:
    last = ends[steps.done[ends]]
    never = last[counts[last] == 0]
    if never.size:
        about = f"{never.size} of {last.size} last steps, such as step {never[0]}, in {counts.sum():,} draws"
        return Observed(LastSteps.NEVER, about, int(counts.sum()))
    return Observed(LastSteps.DRAWN, f"all {last.size} last steps, in {counts.sum():,} draws", int(counts.sum()))


def _counted(which: Array) -> str:
    return f"{which.sum():,} of {len(which):,} sequences"


def observe_prioritized(adapter: SequenceAdapter, spec: SequenceSpec, steps: NumberedSteps) -> dict[str, Observed]:
    """Observe the sequences of a full, prioritized buffer, and whether updates take effect: sequences that end with
    every eighth step of a stream are raised when they are drawn, and others lowered, so that in the end nearly all
    draws must return raised ones. Raises `WrongAnswer`."""
    found, share, weighed, is_updated = [], [], [], np.zeros(len(steps.done), bool)
    for _ in range(UPDATES):
        batch = adapter.sample(BATCH)
        numbers, _ = steps.numbers(batch, BATCH, spec.length)
        ends = numbers[:, -1]
        raised = ends // steps.streams % 8 == 3
        priorities = np.where(raised, RAISED, LOWERED)
        found.append(numbers)
        share.append(raised.mean())
        weighed.append((np.array(batch["weights"]), priorities, is_updated[ends]))
        adapter.update_priorities(batch["indexes"], priorities)
        is_updated[ends] = True
    numbers, late = np.concatenate(found), float(np.mean(share[-LATE:]))
    about = f"{late:.1%} of the last {LATE * BATCH:,} draws returned sequences with a raised priority"
    word = SequencePriorities.BY_PRIORITY if late > RAISED_SHARE else SequencePriorities.OTHER
    bounds = _bounds(numbers, steps, spec)
    if bounds.word is not SequenceBounds.BROKEN and word is SequencePriorities.BY_PRIORITY:
        for each in weighed:
            _check_weights(*each, spec)
    return {"prioritized_bounds": bounds, "prioritized": Observed(word, about, len(numbers))}


def _check_weights(weights: Array, priorities: Array, is_updated: Array, spec: SequenceSpec) -> None:
    """Check a batch's importance weights relative to each other, for sequences that were updated to these priorities.
    Peers differ in what they divide all weights by."""
    if weights.shape != (BATCH,) or not (weights > 0).all():
        raise WrongAnswer(f"weights: shape {weights.shape}, from {weights.min()}, expected ({BATCH},), above 0")
    scaled = (weights * priorities ** (spec.alpha * spec.beta))[is_updated]
    if scaled.size and scaled.max() > WEIGHTS_WITHIN * scaled.min():
        raise WrongAnswer(f"weights: wrong by a factor of {scaled.max() / scaled.min():.3g}, relative to each other")


@contextmanager
def filled(
    kind: type[SequenceAdapter], *, prioritized: bool, streams: int, seed: int = 0
) -> Iterator[tuple[SequenceAdapter, SequenceSpec, NumberedSteps]]:
    """Yield a buffer of this peer that has wrapped, and the steps that were added to it."""
    steps = NumberedSteps.made(streams)
    spec = SequenceSpec(streams * STORED, FIELDS, SIZE, BURN_IN, streams, prioritized=prioritized, seed=seed)
    with closing(kind.make(spec)) as adapter:
        for columns in steps.batches():
            adapter.add(columns)
        yield adapter, spec, steps


def observed(
    kind: type[SequenceAdapter], *, prioritized: bool, streams: int, seed: int = 0, draws: int = DRAWS
) -> dict[str, Observed]:
    """Observe each behaviour of a peer's uniform buffer, or of its prioritized one. Raises `WrongAnswer`."""
    with filled(kind, prioritized=prioritized, streams=streams, seed=seed) as (adapter, spec, steps):
        if prioritized:
            return observe_prioritized(adapter, spec, steps)
        return observe_uniform(adapter, spec, steps, max(draws, DRAWS))


def check(kind: type[SequenceAdapter], *, prioritized: bool) -> None:
    """Check that a peer keeps its contract with one stream, before it is timed. Raises `WrongAnswer`."""
    for name, seen in observed(kind, prioritized=prioritized, streams=1).items():
        promised, word = kind.sequences.behaviours[name], seen.word
        if word.meaning is Meaning.FAULT or (word not in promised.kept_by and word.meaning is not Meaning.SOUND):
            raise WrongAnswer(f"{name}: {word}, but the adapter promises {promised.value!r} ({seen.evidence})")
