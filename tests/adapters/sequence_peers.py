"""A sound buffer that draws sequences, and buffers that misbehave in one way each: negative controls."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from adapters.base import Columns
from adapters.behaviours import SequenceBounds, SequencePadding
from adapters.contract import Contract, Returns, RowFields, Stated, no, yes
from adapters.numbered_steps import PADDED
from adapters.sequences import SequenceAdapter, SequenceContract, SequenceSpec


class Sound(SequenceAdapter):
    """Draws all sequences within episodes alike, from a ring per stream. A sequence is named by its last step."""

    name = "sound"
    distribution = None
    usage = "made for the tests"
    contract = Contract(
        batch_add=yes(),
        fields=Stated(RowFields.ANY),
        priorities=yes(),
        returns=Stated(Returns.COLUMNS),
        n_step=no(),
        disk=no(),
        framework="NumPy",
        licence="none",
    )
    sequences = SequenceContract()

    def __init__(self, spec: SequenceSpec) -> None:
        self.spec, self.random = spec, np.random.default_rng(spec.seed)
        self.stored = spec.capacity // spec.streams
        self.columns: Columns = {}
        self.raw: np.ndarray = np.ones(0)

    def add(self, columns: Columns) -> None:
        """Keep the newest steps, oldest first."""
        old = self.columns or {name: column[:0] for name, column in columns.items()}
        self.columns = {name: np.concatenate([old[name], column])[-self.stored :] for name, column in columns.items()}
        self.ends = self.find_ends()
        self.raw = np.ones(len(self.ends))

    def find_ends(self) -> np.ndarray:
        """Return (step, stream) of the last step of each sequence, (sequences, 2)."""
        steps, streams = self.columns["done"].shape
        return np.array(
            [(t, e) for t in range(self.spec.length - 1, steps) for e in range(streams) if self.is_valid(t, e)]
        )

    def is_valid(self, step: int, stream: int) -> bool:
        return not self.columns["done"][step - self.spec.length + 1 : step, stream].any()

    def all_steps(self) -> np.ndarray:
        """Return (step, stream) of each stored step, (steps, 2)."""
        return np.argwhere(np.ones_like(self.columns["done"]))

    def first_steps(self) -> np.ndarray:
        """Return the first stored step of each step's episode, (steps, streams)."""
        done = self.columns["done"]
        first = np.zeros(done.shape, int)
        first[1:] = np.where(done[:-1], np.arange(1, len(done))[:, None], 0)
        return np.maximum.accumulate(first, axis=0)

    def shares(self) -> np.ndarray:
        return self.raw**self.spec.alpha

    def sample(self, batch_size: int) -> Columns:
        shares = self.shares()
        drawn = self.random.choice(len(self.ends), batch_size, p=shares / shares.sum())
        step, stream = self.ends[drawn].T
        batch = self.read(step[:, None] + np.arange(1 - self.spec.length, 1), stream[:, None])
        if self.spec.prioritized:
            batch |= {"weights": self.weights(drawn), "indexes": drawn}
        return batch

    def weights(self, drawn: np.ndarray) -> np.ndarray:
        return (self.raw[drawn] / self.raw.min()) ** -(self.spec.alpha * self.spec.beta)

    def read(self, steps: np.ndarray, streams: np.ndarray) -> Columns:
        return {name: column[steps, streams] for name, column in self.columns.items()}

    def update_priorities(self, indexes, priorities) -> None:
        self.raw[indexes] = priorities


class CrossesEnds(Sound):
    def is_valid(self, step: int, stream: int) -> bool:
        return True


class MixesStreams(Sound):
    """Takes the last step of a sequence from the next stream."""

    def read(self, steps: np.ndarray, streams: np.ndarray) -> Columns:
        streams = np.broadcast_to(streams, steps.shape).copy()
        streams[:, -1] = (streams[:, -1] + 1) % self.spec.streams
        return super().read(steps, streams)


class CrossesTheWritePosition(Sound):
    """Continues one sequence in a hundred with the oldest stored steps."""

    def read(self, steps: np.ndarray, streams: np.ndarray) -> Columns:
        some = self.random.random(len(steps)) < 0.01
        steps = np.where(some[:, None], np.arange(-self.spec.length // 2, self.spec.length // 2), steps)
        return super().read(steps, streams)


class ReturnsOverwrittenSteps(Sound):
    """Holds more steps than its capacity."""

    def __init__(self, spec: SequenceSpec) -> None:
        super().__init__(spec)
        self.stored += 16


class SkipsAStep(Sound):
    def read(self, steps: np.ndarray, streams: np.ndarray) -> Columns:
        return super().read(np.maximum(steps - (np.arange(steps.shape[1]) == 0), 0), streams)


class DrawsEpisodesAlike(Sound):
    """Draws an episode, then one of its sequences."""

    def shares(self) -> np.ndarray:
        done = self.columns["done"]
        episode = np.cumsum(done, axis=0) - done  # in each stream
        names = episode[self.ends[:, 0], self.ends[:, 1]] * self.spec.streams + self.ends[:, 1]
        _, inverse, counts = np.unique(names, return_inverse=True, return_counts=True)
        return self.raw / counts[inverse]


class DrawsOneTooOften(Sound):
    """Draws one sequence three times as often as the others."""

    def shares(self) -> np.ndarray:
        return np.where(np.arange(len(self.raw)) == len(self.raw) // 2, 3.0, self.raw)


class NeverDrawsLastSteps(Sound):
    def is_valid(self, step: int, stream: int) -> bool:
        return super().is_valid(step, stream) and not self.columns["done"][step, stream]


class PadsBurnIn(Sound):
    """Also draws sequences whose burn-in begins before the episode, with zeros in place of these steps."""

    @property
    def needed(self) -> int:
        return self.spec.size

    def find_ends(self) -> np.ndarray:
        steps, streams = self.columns["done"].shape
        return np.array([(t, e) for t in range(steps) for e in range(streams) if self.is_valid(t, e)])

    def is_valid(self, step: int, stream: int) -> bool:
        first, needed = step - self.spec.length + 1, step - self.needed + 1
        before = np.flatnonzero(self.columns["done"][max(0, first - 1) : step, stream]) + max(0, first - 1)
        if first < 0 and not before.size:  # the episode's first steps are no longer stored
            return False
        return needed >= 0 and not (before >= needed).any()

    def read(self, steps: np.ndarray, streams: np.ndarray) -> Columns:
        done = self.columns["done"]
        ended = np.where(steps < steps[:, -1:], done[steps, streams], False)
        ends_to_come = np.cumsum(ended[:, ::-1], axis=1)[:, ::-1]
        is_padded = (ends_to_come > 0) | (steps < 0)
        batch = {}
        for name, column in super().read(steps, streams).items():
            column[is_padded] = 0
            batch[name] = column
        return self.masked(batch, is_padded)

    def masked(self, batch: Columns, is_padded: np.ndarray) -> Columns:
        return {**batch, "mask": ~is_padded}


class PadsInsideEpisodes(PadsBurnIn):
    """Also leaves out the first stored step of each sequence."""

    def masked(self, batch: Columns, is_padded: np.ndarray) -> Columns:
        for column in batch.values():
            column[:, 0] = 0
        is_padded[:, 0] = True
        return super().masked(batch, is_padded)


class PadsMoreThanTheBurnIn(PadsBurnIn):
    needed = 1


class PadsWithoutMask(PadsBurnIn):
    def masked(self, batch: Columns, is_padded: np.ndarray) -> Columns:
        return batch


class MasksStoredSteps(PadsBurnIn):
    def masked(self, batch: Columns, is_padded: np.ndarray) -> Columns:
        return {**batch, "mask": np.zeros_like(is_padded)}


class MixesRows(Sound):
    """Returns rows that were never stored."""

    def read(self, steps: np.ndarray, streams: np.ndarray) -> Columns:
        batch = super().read(steps, streams)
        return {**batch, "act": batch["act"] + 1}


class WeighsAllAlike(Sound):
    def weights(self, drawn: np.ndarray) -> np.ndarray:
        return np.ones(len(drawn))


class WeighsWithoutBeta(Sound):
    def weights(self, drawn: np.ndarray) -> np.ndarray:
        return (self.raw[drawn] / self.raw.min()) ** -self.spec.alpha


class IgnoresPriorities(Sound):
    def update_priorities(self, indexes, priorities) -> None:
        pass


class UpdatesNeighbours(Sound):
    def update_priorities(self, indexes, priorities) -> None:
        self.raw[(indexes + 1) % len(self.raw)] = priorities


class DrawsAhead(Sound):
    """Returns each batch as it was drawn before the last update."""

    contract = replace(Sound.contract, batches_ahead=1)

    def __init__(self, spec: SequenceSpec) -> None:
        super().__init__(spec)
        self.ahead: deque[Columns] = deque()

    def sample(self, batch_size: int) -> Columns:
        while len(self.ahead) < 2:
            self.ahead.append(super().sample(batch_size))
        return self.ahead.popleft()


class DrawsAheadSilently(DrawsAhead):
    contract = Sound.contract


class HasNoPriorities(Sound):
    contract = replace(Sound.contract, priorities=no())


class RepeatsFirstSteps(Sound):
    """Draws any step, and repeats the first step of its episode if too few steps precede it."""

    sequences = replace(SequenceContract(), padding=SequencePadding.REPEATED)

    def find_ends(self) -> np.ndarray:
        return self.all_steps()

    def read(self, steps: np.ndarray, streams: np.ndarray) -> Columns:
        first = self.first_steps()[steps[:, -1], streams[:, 0]]
        return super().read(np.maximum(steps, first[:, None]), streams)


class RepeatsStepsOfTheMiddle(Sound):
    """Repeats the second step of each sequence in place of its first."""

    sequences = RepeatsFirstSteps.sequences

    def read(self, steps: np.ndarray, streams: np.ndarray) -> Columns:
        return super().read(np.maximum(steps, steps[:, 1:2]), streams)


class JoinsEpisodes(Sound):
    """Draws any step, and continues after the last step of its episode with random episodes, from their first steps."""

    sequences = replace(SequenceContract(), bounds=SequenceBounds.JOINED)

    def find_ends(self) -> np.ndarray:
        return self.all_steps()

    def read(self, steps: np.ndarray, streams: np.ndarray) -> Columns:
        rows = [self.row(*first) for first in zip(steps[:, -1], streams[:, 0], strict=True)]
        steps, streams = np.moveaxis(np.array(rows), -1, 0)
        return self.marked(super().read(steps, streams), steps == PADDED)

    def row(self, step: int, stream: int) -> list[tuple[int, int]]:
        """Return (step, stream) of each step, and (PADDED, stream) for each gap."""
        row: list[tuple[int, int]] = []
        while len(row) < self.spec.length:
            row += [(t, stream) for t in range(step, self.end_of(step, stream) + 1)]
            row += self.gap(stream)
            step, stream = self.random.choice(self.beginnings())
        return row[: self.spec.length]

    def end_of(self, step: int, stream: int) -> int:
        """Return the last stored step of this step's episode."""
        ends = np.flatnonzero(self.columns["done"][step:, stream])
        return step + int(ends[0]) if ends.size else len(self.columns["done"]) - 1

    def gap(self, stream: int) -> list[tuple[int, int]]:
        return [(PADDED, stream)]

    def beginnings(self) -> np.ndarray:
        return np.argwhere(self.columns["done"][:-1]) + np.array([1, 0])

    def marked(self, batch: Columns, gaps: np.ndarray) -> Columns:
        return {**batch, "gaps": gaps}


class JoinsWithoutGaps(JoinsEpisodes):
    def gap(self, stream: int) -> list[tuple[int, int]]:
        return []


class JoinsFromTheMiddle(JoinsEpisodes):
    """Continues with any steps of other episodes."""

    def beginnings(self) -> np.ndarray:
        return self.all_steps()


class JoinsBeforeTheEnd(JoinsEpisodes):
    """Leaves out the last step of an episode, except if a sequence begins with it."""

    def end_of(self, step: int, stream: int) -> int:
        return max(step, super().end_of(step, stream) - 1)


class JoinsAfterEvenEpisodes(DrawsEpisodesAlike, JoinsEpisodes):
    """Draws an episode, then one of its steps as the first of the sequence."""


class CountsSequences(Sound):
    """Holds as many sequences as its capacity."""

    sequences = replace(SequenceContract(), counts_sequences=True)

    def __init__(self, spec: SequenceSpec) -> None:
        super().__init__(spec)
        self.stored = 10_000

    def find_ends(self) -> np.ndarray:
        return super().find_ends()[-self.spec.capacity :]


class HoldsTooFewSequences(CountsSequences):
    def find_ends(self) -> np.ndarray:
        return super().find_ends()[8:]


class HoldsTooManySequences(CountsSequences):
    def find_ends(self) -> np.ndarray:
        return Sound.find_ends(self)[-self.spec.capacity - 8 :]


class OverwritesEpisodes(Sound):
    """Overwrites whole episodes, the one that began first before the others."""

    contract = replace(Sound.contract, whole_episodes=True)

    def __init__(self, spec: SequenceSpec) -> None:
        super().__init__(spec)
        self.stored, self.room = 10_000, spec.capacity

    def find_ends(self) -> np.ndarray:
        begins = self.first_steps() * self.spec.streams + np.arange(self.spec.streams)
        names, lengths = np.unique(begins, return_counts=True)
        while lengths.sum() > self.room:
            names, lengths = names[1:], lengths[1:]
        return np.array([(t, e) for t, e in super().find_ends() if begins[t, e] in names])


class OverwritesAnEpisodeTooMany(OverwritesEpisodes):
    def __init__(self, spec: SequenceSpec) -> None:
        super().__init__(spec)
        self.room -= 40
