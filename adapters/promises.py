"""What a peer promises, in the words of a small vocabulary, so that the conformance suite can see whether it holds.

A check sees one of its words. "ok" is a word that the peer's adapter states here and that is no fault; a hazard is
stated and still dangerous for who does not know it. A fault breaks what every buffer must hold: stating it helps
nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

SOUND, HAZARD, FAULT = "sound", "hazard", "fault"

_CHANCE = {"with": SOUND, "without": SOUND, "stratified": SOUND}
_UNHAPPY = {"waits": HAZARD, "gives garbage": HAZARD, "panics": HAZARD, "kills the process": HAZARD}
_BAD_PRIORITY = {
    "refused": SOUND,
    "ignored": SOUND,
    "poisons": HAZARD,
    "waits": HAZARD,
    "panics": HAZARD,
    "kills the process": HAZARD,
}

#: check -> the words it can see, and what each means for a user
VOCABULARY: Mapping[str, Mapping[str, str]] = {
    "round_trip": {"bit for bit": SOUND, "as 32 bits": HAZARD, "changed": FAULT},
    "dtype": {"kept": SOUND, "wider": HAZARD, "narrower": HAZARD, "another kind": FAULT},
    "shape": {"kept": SOUND, "scalars as (1,)": SOUND, "changed": FAULT},
    "ring_order": {"oldest first": SOUND, "another order": FAULT},
    "uniform": {"even": SOUND, "uneven": FAULT},
    "prioritized": {"by priority": SOUND, "never the last slot": FAULT, "not by priority": FAULT},
    "new_row_priority": {
        "the largest": SOUND,
        "the largest update": SOUND,
        "a fixed one": HAZARD,
        "the largest, rounded down": HAZARD,
        "another": FAULT,
    },
    "given_priority": {"taken": SOUND, "none on add": SOUND, "another": FAULT},
    "weights": {
        "over the buffer": SOUND,
        "over the batch": SOUND,
        "not normalised": SOUND,
        "none": SOUND,
        "another formula": FAULT,
    },
    "replacement": _CHANCE,
    "prioritized_replacement": _CHANCE,
    "stale_update": {
        "ignored": SOUND,
        "refused": SOUND,
        "not possible": SOUND,
        "changes the new row": HAZARD,
        "changes other rows": HAZARD,
    },
    "returned_batch": {
        "copies": SOUND,
        "next sample changes weights and indexes": HAZARD,
        "next sample changes it": HAZARD,
        "next add changes it": HAZARD,
        "writing to it changes the buffer": HAZARD,
    },
    "references": {"copies": SOUND, "keeps references": HAZARD, "keeps references to batches": HAZARD},
    "empty": {"refused": SOUND, "gives no rows": SOUND} | _UNHAPPY,
    "batch_over_stored": {"repeats rows": SOUND, "refused": SOUND, "gives fewer": SOUND} | _UNHAPPY,
    "nan_priority": _BAD_PRIORITY,
    "negative_priority": {"as its size": SOUND} | _BAD_PRIORITY,
    "infinite_priority": {"rules every draw": HAZARD} | _BAD_PRIORITY,
    "seed": {
        "own seed": SOUND,
        "global seed": SOUND,
        "uniform only": HAZARD,
        "none": HAZARD,
        "always the same": HAZARD,
    },
}

#: Beside itself, the words that keep a promise: where calls race, the same seed may now and then give the same rows.
KEPT_BY = {("seed", "none"): ("own seed", "global seed")}


@dataclass(frozen=True)
class Promises:
    """One peer's statement: a word of `VOCABULARY` for each check. The defaults are the most usual promise.

    Checks of priorities are skipped for a peer that has none; their words then mean nothing.
    """

    #: what was added comes back: "as 32 bits" where what is wider passes through float32 or int32
    round_trip: str = "bit for bit"
    #: of the batch's columns: "wider" where Python's own numbers are stored (float64 for float32)
    dtype: str = "kept"
    shape: str = "kept"
    #: which row a full buffer gives up
    ring_order: str = "oldest first"
    uniform: str = "even"
    #: at alpha 0, 0.6 and 1, over six decades of priorities, after updates and after the wrap
    prioritized: str = "by priority"
    #: of a row that is added without one: the largest so far, or only of those told by updates; "a fixed one": 1,
    #: whatever the others have
    new_row_priority: str = "the largest"
    #: whether `add_with_priorities` gives each row its own
    given_priority: str = "taken"
    #: Schaul et al. 2015, equation 2, and over what the largest weight is 1
    weights: str = "over the buffer"
    #: can one batch hold a row twice? "stratified": one draw from each of as many equal parts
    replacement: str = "with"
    prioritized_replacement: str = "with"
    #: new priorities for rows that were overwritten since they were sampled
    stale_update: str = "changes the new row"
    returned_batch: str = "copies"
    #: to the caller's arrays, on add
    references: str = "copies"
    #: sampling when nothing is stored yet
    empty: str = "refused"
    #: sampling more rows than are stored
    batch_over_stored: str = "repeats rows"
    #: told for a sampled row; "poisons": later draws fail, or are wrong, or have weights that are no numbers
    nan_priority: str = "refused"
    negative_priority: str = "refused"
    infinite_priority: str = "refused"
    #: "own seed": the constructor's, or a call's; "global seed": NumPy's, Python's or the framework's
    seed: str = "own seed"
    #: the page or docstring of the peer that says so, or "not documented; seen"
    source: str = "not documented; seen"

    @property
    def draws_last_slot(self) -> bool:
        """False where the row in the last occupied slot is never drawn by priority."""
        return self.prioritized != "never the last slot"

    @property
    def takes_out(self) -> bool:
        """Whether a row sampled by priority can't be sampled again before its priority is updated."""
        return self.prioritized_replacement == "without"

    def __post_init__(self) -> None:
        for check, word in self.words.items():
            if word not in VOCABULARY[check]:
                raise ValueError(f"{check}: {word!r} is none of {', '.join(VOCABULARY[check])}")

    @property
    def words(self) -> dict[str, str]:
        """check -> word"""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "source"}
