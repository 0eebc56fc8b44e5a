"""Steps that name themselves, added to a buffer in order, and the sequences in which it may return them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from adapters.base import Array, Columns, Field, WrongAnswer
from adapters.behaviours import Behaviour, SequenceBounds, SequencePadding
from adapters.checks import AddedRows, keyed_columns
from adapters.sequences import SequenceAdapter, SequenceContract

FIELDS: Mapping[str, Field] = {
    "obs": Field((4,), "float32"),
    "act": Field((), "int64"),
    "rew": Field((), "float32"),
    "next_obs": Field((4,), "float32"),
    "done": Field((), "bool"),
}
STORED, SEQUENCES = 192, 96  # steps, or sequences, per stream
STEPS_A_CALL, CALLS = 16, 20  # the ring wraps, and its oldest episode is cut
#: Steps of successive episodes: too short for a sequence, exactly long enough, and longer.
EPISODES = (5, 12, 30, 8, 13, 40, 12, 20, 3)
PADDED, REPEATED, GAP = -1, -2, -3  # in place of a step's number


@dataclass(frozen=True)
class Observed:
    """An observed behaviour, the evidence for it, and how many sequences were looked at."""

    word: Behaviour
    evidence: str
    looked_at: int


def capacity(streams: int, kind: type[SequenceAdapter]) -> int:
    """Return the capacity of a peer's buffer in the checks."""
    return streams * (SEQUENCES if kind.sequences.counts_sequences else STORED)


class NumberedSteps:
    """Steps of several streams that are numbered in the order in which they are added, and those that are stored.

    `columns` are (steps, streams, *shape); step t of stream e has the number t * streams + e. If `kept` is not None,
    only that many of the newest sequences can be drawn.
    """

    def __init__(self, columns: Columns, fields: Mapping[str, Field]) -> None:
        self.columns, self.fields = columns, fields
        self.steps, self.streams = columns["done"].shape
        flat = {name: column.reshape(-1, *column.shape[2:]) for name, column in columns.items()}
        self.known, self.done = AddedRows(flat, fields), flat["done"]
        self.is_stored = np.ones(len(self.done), bool)
        self.kept: int | None = None

    @classmethod
    def made(cls, streams: int, kind: type[SequenceAdapter]) -> NumberedSteps:
        """Return the steps of the checks, as far as a peer with the capacity `capacity(streams, kind)` stores them."""
        steps = CALLS * STEPS_A_CALL
        columns = keyed_columns(FIELDS, steps * streams)
        shaped = {name: column.reshape(steps, streams, *column.shape[1:]) for name, column in columns.items()}
        for stream in range(streams):
            lengths = np.resize(np.roll(EPISODES, stream), steps)
            shaped["done"][:, stream] = np.isin(np.arange(steps), np.cumsum(lengths) - 1)
        goes_on = ~shaped["done"][:-1]
        shaped["next_obs"][:-1][goes_on] = shaped["obs"][1:][goes_on]
        made = cls(shaped, FIELDS)
        made._keep_newest(kind, capacity(streams, kind))
        return made

    def _keep_newest(self, kind: type[SequenceAdapter], capacity: int) -> None:
        if kind.sequences.counts_sequences:
            self.kept = capacity
        elif kind.contract.whole_episodes:
            begins = self.episode_of(np.arange(len(self.done)))
            first, lengths = np.unique(begins, return_counts=True)
            self.is_stored = np.isin(begins, first[lengths[::-1].cumsum()[::-1] <= capacity])
            del self.run_length
        else:
            self.is_stored[:-capacity] = False

    def batches(self) -> Iterator[Columns]:
        """Yield all steps as the batches in which they are added."""
        for at in range(0, self.steps, STEPS_A_CALL):
            yield {name: column[at : at + STEPS_A_CALL] for name, column in self.columns.items()}

    def check(self, contract: SequenceContract, batch: Columns, sequences: int, length: int) -> None:
        """Check a batch from a buffer to which these steps, of one stream, were added again and again. Raises
        `WrongAnswer`."""
        numbers, has_mask = self.numbers(batch, sequences, length)
        padding = padding_of(numbers, has_mask)
        if padding.word not in (SequencePadding.NONE, contract.padding):
            raise WrongAnswer(f"padding: {padding.evidence}, against the contract")
        real, gaps, ends = numbers >= 0, numbers == GAP, self.done[numbers]
        starts = self.done[numbers - 1]
        pairs = real[:, 1:] & real[:, :-1]
        wrong = pairs & ((numbers[:, 1:] - numbers[:, :-1]) % self.steps != 1)
        if contract.bounds is not SequenceBounds.ONE_STREAM:
            wrong |= pairs & ends[:, :-1]
        if contract.bounds is not SequenceBounds.JOINED:
            wrong |= gaps[:, 1:] | gaps[:, :-1]
        wrong |= gaps[:, :-1] & ~(real & starts)[:, 1:]
        wrong |= _but_one(numbers[:, :-1], gaps[:, 1:] & ~(real & ends)[:, :-1])  # the newest step
        wrong |= _but_one(numbers[:, 1:], (numbers == REPEATED)[:, :-1] & (real & ~starts)[:, 1:])  # the oldest one
        if wrong.any():
            raise WrongAnswer(f"bounds: {counted(wrong.any(axis=1))} are not as promised, {contract.bounds.value!r}")

    def numbers(self, batch: Columns, sequences: int, length: int) -> tuple[Array, bool]:
        """Return the number of each step, (sequences, length), and whether a mask says which steps are padded.

        A padded step consists of zeros, which a stored step never does, or repeats the sequence's first step."""
        flat = {}
        for name in self.fields:
            if name not in batch:
                raise WrongAnswer(f"{name}: missing from the batch, which has {', '.join(batch)}")
            column = np.asarray(batch[name])
            if column.shape[:2] != (sequences, length):
                raise WrongAnswer(f"{name}: shape {column.shape}, expected it to begin with {(sequences, length)}")
            flat[name] = column.reshape(-1, *column.shape[2:])
        gaps = np.array(batch.get("gaps", np.zeros((sequences, length), bool))).reshape(-1)
        is_stored = np.logical_or.reduce([column.reshape(len(column), -1).any(axis=1) for column in flat.values()])
        is_stored &= ~gaps
        found = np.where(gaps, GAP, PADDED)
        found[is_stored] = self.known.check({name: column[is_stored] for name, column in flat.items()})
        mask = batch.get("mask")
        if mask is not None and (np.asarray(mask).reshape(-1) & ~is_stored).any():
            mask = None
        if mask is not None and (wrong := np.flatnonzero(~np.asarray(mask).reshape(-1) & is_stored)).size:
            raise WrongAnswer(f"mask: false for step {found[wrong[0]]}, which is stored")
        found = found.reshape(sequences, length)
        is_repeated = np.logical_and.accumulate((found[:, 1:] == found[:, :-1]) & (found[:, 1:] >= 0), axis=1)
        found[:, :-1][is_repeated] = REPEATED
        return found, mask is not None

    @cached_property
    def run_length(self) -> Array:
        """For each step, the number of stored steps of its episode up to and including it; 0 if it is not stored."""
        lengths = np.zeros((self.steps, self.streams), np.int64)
        done, is_stored = (each.reshape(self.steps, self.streams) for each in (self.done, self.is_stored))
        for t in range(self.steps):
            continues = np.where(done[t - 1], 0, lengths[t - 1]) if t else 0
            lengths[t] = np.where(is_stored[t], continues + 1, 0)
        return lengths.reshape(-1)

    def ends(self, crosses: bool, length: int, needed: int) -> Array:
        """Return the numbers of the steps with which a sequence of this length can end. If its episode begins in it, it
        needs only so many stored steps."""
        numbers = np.flatnonzero(self.is_stored)
        if crosses:
            numbers = numbers[(length - 1) * self.streams :]
        else:
            is_cut = ~self.begins(self.episode_of(numbers))
            numbers = numbers[self.run_length[numbers] >= np.where(is_cut, length, needed)]
        return numbers if self.kept is None else numbers[-self.kept :]

    def begins(self, numbers: Array) -> Array:
        """Return whether each of these steps is the first of its episode."""
        first: Array = (numbers < self.streams) | self.done[numbers - self.streams]
        return first

    def episode_of(self, numbers: Array) -> Array:
        """Return the number of the first stored step of the episode of each of these stored steps."""
        first: Array = numbers - (self.run_length[numbers] - 1) * self.streams
        return first


def _but_one(numbers: Array, wrong: Array) -> Array:
    """Return which steps are wrong, or none if they are all the same step."""
    return wrong & (len(np.unique(numbers[wrong])) > 1)


def padding_of(numbers: Array, masked: bool) -> Observed:
    """Return how sequences are padded."""
    zeros, repeated = ((numbers == each).any(axis=1) for each in (PADDED, REPEATED))
    if zeros.any():
        word = SequencePadding.MASKED_BURN_IN if masked else SequencePadding.UNMASKED
        return Observed(word, f"{counted(zeros)} are padded with zeros", len(numbers))
    if repeated.any():
        return Observed(SequencePadding.REPEATED, f"{counted(repeated)} repeat their first step", len(numbers))
    return Observed(SequencePadding.NONE, f"{len(numbers):,} sequences", len(numbers))


def counted(which: Array) -> str:
    return f"{which.sum():,} of {len(which):,} sequences"
