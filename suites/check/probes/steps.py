"""Probes of single steps: fields of one step, the final observation, time limits, and each episode's first and last
step. In all ways of use in which a row is a step, such as those that store observations once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from adapters.base import Array
from adapters.behaviours import FAULT, HAZARD, Behaviour
from suites.check.functions import NotApplicable
from suites.check.probes.oracle import CHARACTERS, OLD, Judge, Tally, Wrong, observe
from suites.check.probes.probing import Seen
from suites.check.probes.streams import (
    EPISODE,
    LENGTHS,
    NO_LIMITS,
    SIZE,
    StepRefused,
    Stream,
    StreamRun,
    column,
    never,
    plain_ways,
    tells_limits,
)
from suites.check.subject import Subject

CAPACITY, POINTS = 29, 190  # steps: the ring wraps six times, and episodes begin at all of its slots
LARGE, WRAPS, DRAWS = 97, 3.2, 3_000  # a row is missed by e^-31


class StepFields(Behaviour):
    """Whether the fields of a row belong to one step."""

    ONE_STEP = "of one step"
    MIXED = "fields of different steps", FAULT
    NO_STEP = "rows that are no steps", FAULT


class NextObservation(Behaviour):
    """The next observation of a row, which a row with `done` need not have."""

    OF_STEP = "of its step"
    OTHER = "of another step", FAULT
    OF_EPISODE = "of the next episode", FAULT


class DoneFlag(Behaviour):
    """Which steps have `done`, apart from time limits."""

    TERMINAL = "at terminal steps"
    WITHIN = "within episodes", FAULT
    MISSED = "not at terminal steps", FAULT


class TimeLimits(Behaviour):
    """What a step is that ends an episode by a time limit."""

    BOOTSTRAP = "bootstraps"
    REFUSED = "refused"
    TERMINAL_IN_A_WAY = "stored as terminal in one way of use", HAZARD
    TERMINAL = "stored as terminal", FAULT


class EpisodeEnds(Behaviour):
    """Whether the first and last step of each episode can be drawn."""

    DRAWN = "drawn"
    NEVER_LIMIT = "time limits are never drawn", HAZARD
    NEVER_FIRST = "first steps are never drawn", FAULT
    NEVER_LAST = "last steps are never drawn", FAULT


class ResetSteps(Behaviour):
    """Rows beside the step without a meaning that Gymnasium's autoreset NEXT_STEP makes after each episode."""

    AS_ADDED = "as they were added"
    CHANGED = "changed", FAULT


FIELDS = {Wrong.FIELD: StepFields.MIXED, Wrong.NO_STEP: StepFields.NO_STEP}
NEXT = {
    Wrong.NEXT: NextObservation.OTHER,
    Wrong.NEXT_OF_ENV: NextObservation.OTHER,
    Wrong.NEXT_OF_EPISODE: NextObservation.OF_EPISODE,
}
NO_DONE = "a batch has no column done"
DONE = {Wrong.DONE_WITHIN: DoneFlag.WITHIN, Wrong.DONE_MISSED: DoneFlag.MISSED}
ENDS = ("first", "last", "limit")


@contextmanager
def refusals(tally: Tally) -> Iterator[None]:
    """Note that the buffer refuses to be used in a way, and go on."""
    try:
        yield
    except StepRefused as error:
        tally.refused.append(str(error))


def rows(subject: Subject) -> dict[str, Seen]:
    """Feed a stream to the buffer in each way of use, and compare what is drawn after each step."""
    tally, limits, ends = Tally(), tells_limits(subject), EndsTally()
    for each, asked in plain_ways(subject):
        with refusals(tally):
            observe(StreamRun(each, CAPACITY, Stream(limits=limits), asked), tally, POINTS)
            ends.draw(StreamRun(each, LARGE, Stream(limits=limits), asked))
    if not tally.rows and limits:  # steps that end by a time limit are refused, perhaps
        for each, asked in plain_ways(subject):
            with refusals(tally):
                observe(StreamRun(each, CAPACITY, Stream(limits=False), asked), tally, POINTS)
                ends.draw(StreamRun(each, LARGE, Stream(limits=False), asked))
    looked_at(tally)
    found = {
        "step_fields": tally.seen(FIELDS, StepFields.ONE_STEP),
        "episode_ends": ends.seen(
            EpisodeEnds.DRAWN,
            last=EpisodeEnds.NEVER_LAST,
            first=EpisodeEnds.NEVER_FIRST,
            limit=EpisodeEnds.NEVER_LIMIT,
        ),
    }
    if "next_obs" in tally.columns:
        found["next_observation"] = tally.seen(NEXT, NextObservation.OF_STEP)
    if "done" in tally.columns:
        found["done_flag"] = tally.seen(DONE, DoneFlag.TERMINAL)
    return found


def time_limits(subject: Subject) -> dict[str, Seen]:
    """Compare `done` of steps that end an episode by a time limit."""
    if not tells_limits(subject):
        raise NotApplicable(NO_LIMITS)
    tally, word = Tally(), TimeLimits.TERMINAL_IN_A_WAY
    for each, asked in plain_ways(subject):
        with refusals(tally):
            observe(StreamRun(each, CAPACITY, Stream(), asked), tally, POINTS // 2)
        if Wrong.DONE_AT_LIMIT in tally.found and not each.way:
            word = TimeLimits.TERMINAL
    if not tally.rows and tally.refused:
        return {"time_limits": Seen(TimeLimits.REFUSED.value, tally.refused[0], 1)}
    looked_at(tally)
    if "done" not in tally.columns:
        raise NotApplicable(NO_DONE)
    return {"time_limits": tally.seen({Wrong.DONE_AT_LIMIT: word}, TimeLimits.BOOTSTRAP)}


def looked_at(tally: Tally) -> None:
    """Raise `NotApplicable` if no row was looked at."""
    if not tally.rows:
        raise NotApplicable(f"refused: {tally.refused[0]}" if tally.refused else "no way of use returns such rows")


class EndsTally:
    """Which first and last steps were never drawn."""

    def __init__(self) -> None:
        self.never: dict[str, tuple[str, list[str]]] = {}
        self.ends = 0

    def draw(self, run: StreamRun) -> None:
        run.add(int(WRAPS * run.capacity))
        batches = [run.buffer.sample(SIZE)["obs"] for _ in range(DRAWS // SIZE)]
        numbers = np.concatenate([run.frames(obs, SIZE)[:, -1] for obs in batches])
        must = inner_steps(run)
        e, t = np.divmod(must, EPISODE)
        n = np.array(LENGTHS)[e % 7]
        last, limit = t + 1 == n, run.stream.is_limit(e)
        first = (t == 0) & (n > run.n_step)  # the window of another one reaches the end
        gone = ~np.isin(must, numbers)
        self.ends += int(last.sum() + first.sum())
        for name, rows in zip(ENDS, (first, last & ~limit, last & limit), strict=True):
            if (rows & gone).any() and name not in self.never:
                missing = must[rows & gone]
                about = f"{len(missing)} of {rows.sum()} such as step {missing[0]} in {len(numbers):,} draws"
                self.never[name] = (f"{run.name}: {about}" if run.name else about, never(run, int(missing[0])))

    def seen(self, sound: Behaviour, **words: Behaviour) -> Seen:
        """Return the first of these words, by name in `ENDS`, that was found."""
        for name, word in words.items():
            if name in self.never:
                about, script = self.never[name]
                return Seen(word.value, about[:CHARACTERS], self.ends, "\n".join(script))
        return Seen(sound.value, f"all {self.ends} first and last steps", self.ends)


def inner_steps(run: StreamRun) -> Array:
    """Return the steps that any buffer must have, without those that need rows beyond the oldest or newest ones."""
    margin = (run.n_step + run.stack) * run.stream.envs + 1
    steps = np.array(run.steps[-int(OLD * run.capacity) + margin : -margin])
    return steps[run.known[steps // EPISODE] == np.array(LENGTHS)[steps // EPISODE % 7]]


class JudgeWithResets(Judge):
    """Compares the rows of a stream with reset steps, which begin with a final observation."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        last = np.maximum(self.number - 1, 0)
        is_final = (self.number > EPISODE) & (self.run.when[last] >= 0) & (self.t == self.n)
        self.is_reset = ~self.is_step & is_final

    def judge(self) -> None:
        right, is_reset = {"act": 0, "rew": 0, "done": 0}, self.is_reset
        if is_reset.any():
            self.number = np.where(is_reset, self.number, -1)
            for name, value in right.items():
                got = column(self.batch, name, self.size)
                if got is not None:
                    self._note(Wrong.FIELD, is_reset & (got != value), name, got, lambda k, v=value: [v])
            if self.next is not None:
                first = EPISODE * (self.e + 1)
                rows = is_reset & (self.next[:, -1] != first)
                self._note(Wrong.NEXT, rows, "next_obs", self.next[:, -1], lambda k: [int(first[k])])
        self.number = self.frames[:, -1]
        kept = np.flatnonzero(~is_reset)
        if kept.size:
            batch = {name: value[kept] for name, value in self.batch.items()}
            Judge(self.run, batch, kept.size, self.tally).judge()


def reset_steps(subject: Subject) -> dict[str, Seen]:
    """Feed also the steps in which an environment resets itself, which the user should leave out."""
    tally = Tally()
    for each, asked in plain_ways(subject):
        with refusals(tally):
            run = StreamRun(each, CAPACITY, Stream(limits=tells_limits(subject), resets=True), asked)
            observe(run, tally, POINTS, judge=JudgeWithResets)
    looked_at(tally)
    wrong = dict.fromkeys((*FIELDS, *NEXT, *DONE), ResetSteps.CHANGED)
    return {"reset_steps": tally.seen(wrong, ResetSteps.AS_ADDED)}


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {
    rows: ("step_fields", "next_observation", "done_flag", "episode_ends"),
    time_limits: ("time_limits",),
    reset_steps: ("reset_steps",),
}
CHECKS: Mapping[str, type[Behaviour]] = {
    "step_fields": StepFields,
    "next_observation": NextObservation,
    "done_flag": DoneFlag,
    "episode_ends": EpisodeEnds,
    "time_limits": TimeLimits,
    "reset_steps": ResetSteps,
}
