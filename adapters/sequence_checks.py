"""What a peer's sequences are, observed on rows that name themselves, and compared with its contract.

Several streams of short and long episodes are added until the buffer has wrapped. Each returned row is then found among
the added ones, byte for byte, so that a sequence is a series of steps of known streams.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np

from adapters.base import Array, WrongAnswer
from adapters.behaviours import (
    LastSteps,
    Meaning,
    SequenceBounds,
    SequencePadding,
    SequencePriorities,
    SequenceStarts,
)
from adapters.checks import SIGNIFICANCE, chi_square
from adapters.numbered_steps import (
    FIELDS,
    GAP,
    PADDED,
    REPEATED,
    NumberedSteps,
    Observed,
    capacity,
    counted,
    padding_of,
)
from adapters.sequences import SequenceAdapter, SequenceSpec

SIZE, BURN_IN = 8, 4
BATCH, DRAWS = 64, 8_000
UPDATES, LATE = 300, 100  # batches; the share of raised sequences is taken over the last ones
RAISED, LOWERED, RAISED_SHARE = 5_000.0, 1e-3, 0.9
WEIGHTS_WITHIN = 1.1  # a factor; a peer's eps changes the lowered priorities
EXPECTED = 10.0  # minimum expected draws per group of sequences in a chi-square test


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
    padding = padding_of(numbers, masked)
    if bounds.word is SequenceBounds.BROKEN:  # what begins where means nothing then
        return {"bounds": bounds, "padding": padding}
    names = drawn = numbers[:, -1]
    if bounds.word is SequenceBounds.JOINED:  # any step begins a sequence
        names, drawn, possible = numbers[:, 0], numbers[numbers >= 0], np.flatnonzero(steps.is_stored)
    elif padding.word is SequencePadding.REPEATED:  # any step ends one
        possible = np.flatnonzero(steps.is_stored)
    else:
        needed = spec.length if padding.word is SequencePadding.NONE else spec.size
        possible = steps.ends(bounds.word is SequenceBounds.ONE_STREAM, spec.length, needed)
    return {
        "bounds": bounds,
        "starts": _starts(_counts(names, steps), possible, steps),
        "padding": padding,
        "last_steps": _last_steps(_counts(drawn, steps), possible, steps),
    }


def _counts(numbers: Array, steps: NumberedSteps) -> Array:
    return np.bincount(numbers, minlength=len(steps.done))


def _bounds(numbers: Array, steps: NumberedSteps, spec: SequenceSpec) -> Observed:
    real, gaps, repeated = numbers >= 0, numbers == GAP, numbers == REPEATED
    padded = repeated | (numbers == PADDED)
    pairs = real[:, 1:] & real[:, :-1]
    follows = (numbers[:, 1:] - numbers[:, :-1] == steps.streams) | ~pairs
    is_stored = steps.is_stored[numbers] | ~real
    is_whole = follows.all(axis=1) & is_stored.all(axis=1) & (numbers != PADDED)[:, spec.burn_in :].all(axis=1)
    is_whole &= ~(~padded[:, :-1] & padded[:, 1:]).any(axis=1)  # padded in front only, before an episode's first step
    first = numbers[np.arange(len(numbers)), real.argmax(axis=1)]
    is_oldest = repeated[:, 0] & ~steps.is_stored[first - steps.streams]
    is_whole &= ~padded[:, 0] | steps.begins(first) | is_oldest
    is_last = real & (steps.done[numbers] | (numbers >= len(steps.done) - steps.streams))  # an episode's, or the newest
    is_whole &= (is_last[:, :-1] | ~gaps[:, 1:]).all(axis=1) & ~gaps[:, 0]
    is_whole &= ((real & steps.begins(numbers))[:, 1:] | ~gaps[:, :-1]).all(axis=1)
    if not is_whole.all():
        wrong = numbers[~is_whole][0]
        about = f"{counted(~is_whole)}, such as that of steps {', '.join(map(str, wrong))}"
        return Observed(SequenceBounds.BROKEN, f"{about}; each stream has every {steps.streams}. step", len(numbers))
    crosses = (pairs & steps.done[numbers[:, :-1]]).any(axis=1)
    if crosses.any():
        return Observed(SequenceBounds.ONE_STREAM, counted(crosses), len(numbers))
    if gaps.any():
        return Observed(SequenceBounds.JOINED, counted(gaps.any(axis=1)), len(numbers))
    return Observed(SequenceBounds.ONE_EPISODE, f"{len(numbers):,} sequences of {steps.streams} streams", len(numbers))


def _starts(counts: Array, ends: Array, steps: NumberedSteps) -> Observed:
    draws, drawn = int(counts.sum()), counts[ends]
    if drawn.sum() < draws:
        odd = np.flatnonzero(counts)[~np.isin(np.flatnonzero(counts), ends)][0]
        return Observed(SequenceStarts.UNEVEN, f"a sequence was drawn at step {odd}, which has none", draws)
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


def observe_prioritized(adapter: SequenceAdapter, spec: SequenceSpec, steps: NumberedSteps) -> dict[str, Observed]:
    """Observe the sequences of a full, prioritized buffer, and whether updates take effect: sequences that end with
    every eighth step of a stream are raised when they are drawn, and others lowered, so that in the end nearly all
    draws must return raised ones. Raises `WrongAnswer`."""
    found, share, weighed, is_updated = [], [], [], np.zeros(len(steps.done), bool)
    pending: deque[Array] = deque()  # updates that a batch drawn ahead does not have
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
        pending.append(ends)
        if len(pending) > adapter.contract.batches_ahead:
            is_updated[pending.popleft()] = True
    numbers, late = np.concatenate(found), float(np.mean(share[-LATE:]))
    about = f"{late:.1%} of the last {LATE * BATCH:,} draws returned sequences with a raised priority"
    word = SequencePriorities.BY_PRIORITY if late > RAISED_SHARE else SequencePriorities.OTHER
    bounds = _bounds(numbers, steps, spec)
    if bounds.word is not SequenceBounds.BROKEN and word is SequencePriorities.BY_PRIORITY:
        # A batch that is drawn ahead mixes draws from before and after an update, with different sums of priorities.
        for each in weighed[-LATE:] if adapter.contract.batches_ahead else weighed:
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
    steps, stored = NumberedSteps.made(streams, kind), capacity(streams, kind)
    spec = SequenceSpec(stored, FIELDS, SIZE, BURN_IN, streams, prioritized=prioritized, seed=seed)
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
