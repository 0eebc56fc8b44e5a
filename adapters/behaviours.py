"""Behaviours that the conformance suite can observe: one enum per kind of check, one member per behaviour.

A record stores a behaviour by its value, and the report shows that value, so the values must not change.
"""

from __future__ import annotations

from enum import Enum, StrEnum


class Meaning(Enum):
    """What an observed behaviour means for a user."""

    SOUND = "sound"
    HAZARD = "hazard"  # allowed if the contract states it, but dangerous for a user who does not know about it
    FAULT = "fault"  # violates what every buffer must do, whatever the contract states


SOUND, HAZARD, FAULT = Meaning.SOUND, Meaning.HAZARD, Meaning.FAULT


class Behaviour(StrEnum):
    """What a conformance check can observe."""

    meaning: Meaning

    def __new__(cls, word: str, meaning: Meaning = SOUND) -> Behaviour:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member

    @property
    def kept_by(self) -> tuple[Behaviour, ...]:
        """Return the behaviours that satisfy a contract in which this one is stated."""
        return (self,)


class RoundTrip(Behaviour):
    """Whether sampled values equal those that were added."""

    EXACT = "bit for bit"
    AS_32_BITS = "as 32 bits", HAZARD  # wider values are converted to float32 or int32
    CHANGED = "changed", FAULT


class Dtype(Behaviour):
    """The dtypes of a batch's columns."""

    KEPT = "kept"
    WIDER = "wider", HAZARD  # stored as Python numbers: a float32 becomes a float64
    NARROWER = "narrower", HAZARD
    FLOATS_OF_ACTIONS = "floats for integers", HAZARD  # of equal value; the API takes no dtype
    FLOATS = "floats for pixels", HAZARD  # bytes are stored as the floats that a network takes
    OTHER_KIND = "another kind", FAULT


class Shape(Behaviour):
    """The shapes of a batch's columns."""

    KEPT = "kept"
    SCALARS_HAVE_AN_AXIS = "scalars as (1,)"
    CHANGED = "changed", FAULT


class RingOrder(Behaviour):
    """Which row is overwritten when the buffer is full."""

    OLDEST_FIRST = "oldest first"
    OTHER = "another order", FAULT


class Uniform(Behaviour):
    """How rows are drawn without priorities."""

    EVEN = "even"
    UNEVEN = "uneven", FAULT


class Prioritized(Behaviour):
    """How rows are drawn with priorities: at alpha 0, 0.6 and 1, after updates, and after the ring has wrapped."""

    BY_PRIORITY = "by priority"
    NEVER_LAST_SLOT = "never the last slot", FAULT
    OTHER = "not by priority", FAULT


class NewRowPriority(Behaviour):
    """The priority of a row that is added without one."""

    LARGEST = "the largest"  # of all priorities so far
    LARGEST_UPDATE = "the largest update"  # of the priorities set by updates so far
    FIXED = "a fixed one", HAZARD  # 1, whatever the priorities of other rows
    LARGEST_ROUNDED_DOWN = "the largest, rounded down", HAZARD
    OTHER = "another", FAULT


class GivenPriority(Behaviour):
    """What happens to a priority that is passed with a row (`Adapter.add_with_priorities`)."""

    TAKEN = "taken"
    NOT_POSSIBLE = "none on add"
    OTHER = "another", FAULT


class ImportanceWeights(Behaviour):
    """Importance weights: Schaul et al. 2015, equation 2, divided by the largest of the buffer or of the batch."""

    OVER_BUFFER = "over the buffer"
    OVER_BATCH = "over the batch"
    NOT_NORMALISED = "not normalised"
    NONE = "none"
    OTHER = "another formula", FAULT


class Replacement(Behaviour):
    """Whether a batch can contain a row more than once."""

    WITH = "with"
    WITHOUT = "without"
    STRATIFIED = "stratified"  # the sum of priorities is split into batch-size equal parts: one draw from each


class StaleUpdate(Behaviour):
    """The effect of new priorities for rows that were overwritten after being sampled."""

    IGNORED = "ignored"
    REFUSED = "refused"
    NOT_POSSIBLE = "not possible"
    CHANGES_NEW_ROW = "changes the new row", HAZARD
    CHANGES_OTHER_ROWS = "changes other rows", HAZARD


class ReturnedBatch(Behaviour):
    """The memory that a batch shares with the buffer."""

    COPIES = "copies"
    WEIGHTS_AND_INDEXES_REUSED = "next sample changes weights and indexes", HAZARD
    REUSED_BY_SAMPLE = "next sample changes it", HAZARD
    CHANGED_BY_ADD = "next add changes it", HAZARD
    VIEW = "writing to it changes the buffer", HAZARD


class References(Behaviour):
    """Whether the buffer keeps the caller's arrays after an add."""

    COPIES = "copies"
    KEPT = "keeps references", HAZARD
    KEPT_OF_BATCHES = "keeps references to batches", HAZARD  # single rows are copied


class Empty(Behaviour):
    """Sampling from an empty buffer."""

    REFUSED = "refused"
    NO_ROWS = "gives no rows"
    WAITS = "waits", HAZARD
    GARBAGE = "gives garbage", HAZARD
    PANICS = "panics", HAZARD
    KILLS = "kills the process", HAZARD


class BatchOverStored(Behaviour):
    """Sampling more rows than are stored."""

    REPEATS_ROWS = "repeats rows"
    REFUSED = "refused"
    FEWER_ROWS = "gives fewer"
    WAITS = "waits", HAZARD
    GARBAGE = "gives garbage", HAZARD
    PANICS = "panics", HAZARD
    KILLS = "kills the process", HAZARD


class BadPriority(Behaviour):
    """The effect of updating a priority with an invalid number."""

    REFUSED = "refused"
    IGNORED = "ignored"
    ABSOLUTE_VALUE = "as its size"
    POISONS = "poisons", HAZARD  # later draws fail, are wrong or have NaN weights
    RULES_EVERY_DRAW = "rules every draw", HAZARD
    WAITS = "waits", HAZARD
    PANICS = "panics", HAZARD
    KILLS = "kills the process", HAZARD


class Seed(Behaviour):
    """What makes draws repeatable."""

    OWN = "own seed"  # an argument of the constructor or of a call
    GLOBAL = "global seed"  # NumPy's, Python's or the framework's
    UNIFORM_ONLY = "uniform only", HAZARD
    NONE = "none", HAZARD
    ALWAYS_THE_SAME = "always the same", HAZARD

    @property
    def kept_by(self) -> tuple[Behaviour, ...]:
        # If calls race, a seed may happen to produce the same rows although this is not guaranteed.
        return (self, Seed.OWN, Seed.GLOBAL) if self is Seed.NONE else (self,)


class SequenceBounds(Behaviour):
    """Which rows follow each other in a sequence."""

    ONE_EPISODE = "one episode"
    ONE_STREAM = "crosses the ends of episodes", HAZARD
    JOINED = "continues with random episodes", HAZARD  # each from its first step
    BROKEN = "not consecutive steps", FAULT


class SequenceStarts(Behaviour):
    """How sequences are drawn without priorities."""

    EVEN = "even"
    EPISODES_EVEN = "even over episodes", HAZARD  # sequences of short episodes are drawn more often
    UNEVEN = "uneven", FAULT


class SequencePadding(Behaviour):
    """Which steps of a sequence are no stored rows."""

    NONE = "none"
    MASKED_BURN_IN = "missing burn-in, masked"  # an episode begins after the first step of the burn-in
    UNMASKED = "without a mask", HAZARD
    REPEATED = "repeats the first step, without a mask", HAZARD


class LastSteps(Behaviour):
    """Whether sequences contain the last step of each episode that is long enough."""

    DRAWN = "drawn"
    NEVER = "some never drawn", HAZARD


class SequencePriorities(Behaviour):
    """How sequences are drawn with priorities, after updates."""

    BY_PRIORITY = "by priority"
    OTHER = "not by priority", FAULT
