"""What each row of a batch must be, given the stream of steps that was fed: with n-step returns and stacks, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np

from adapters.base import Array, Columns
from adapters.behaviours import Behaviour
from suites.check.probes.probing import Seen, times
from suites.check.probes.streams import (
    EPISODE,
    LENGTHS,
    SIZE,
    StreamRun,
    column,
    is_known,
    no_row,
    no_short_row,
    row_differs,
)

CHARACTERS = 160
BATCHES = 3  # drawn after each step
WITHIN = 1e-5  # relative, of a sum of rewards
OLD = 0.6  # of the capacity: an older frame may have been overwritten, since episodes may take further slots


class Wrong(StrEnum):
    """How a row can differ from what it must be."""

    NO_STEP = "its observation begins no step"
    FIELD = "a field of another step"
    INFO = "the info of another step"
    SUM = "another sum of rewards"
    SHORT = "a window that stops within an episode"
    SUM_OF_EPISODES = "rewards of several episodes"
    SUM_OF_ENVS = "rewards of several environments"
    SUM_OVER_NEWEST = "rewards of the newest and the oldest steps"
    NEXT = "another next observation"
    NEXT_OF_EPISODE = "the next observation of another episode"
    NEXT_OF_ENV = "the next observation of another environment"
    DONE_MISSED = "a terminal step without done"
    DONE_WITHIN = "done within an episode"
    DONE_AT_LIMIT = "done at a time limit"
    DISCOUNT = "another discount"
    NO_DISCOUNT = "a shorter window without a discount"
    STACK = "frames of other steps of the episode"
    STACK_OF_EPISODES = "frames of several episodes"
    STACK_OF_ENVS = "frames of several environments"
    STACK_OF_YOUNGER = "frames of younger steps"
    BLANKED = "frames missing that the episode has"
    BLANKED_OLD = "frames missing that may have been overwritten"
    PADDING = "other frames than the first before an episode"
    NEXT_STACK = "a next stack that is not shifted by one"


OF_ENVS = (Wrong.SUM_OF_ENVS, Wrong.NEXT_OF_ENV, Wrong.STACK_OF_ENVS)


@dataclass
class OracleFinding:
    """Rows that are wrong in one way, and one of them."""

    rows: int
    about: str
    script: Sequence[str]


class Tally:
    """What was wrong in all rows that were looked at, in several ways of using a buffer."""

    def __init__(self) -> None:
        self.found: dict[StrEnum, OracleFinding] = {}
        self.rows = 0
        self.columns: set[str] = set()  # of those that a batch may lack: which ones were compared
        self.ways: list[str] = []
        self.refused: list[str] = []

    def note(self, wrong: StrEnum, run: StreamRun, rows: int, about: str, body: Callable[[], list[str]]) -> None:
        if wrong in self.found:
            self.found[wrong].rows += rows
        else:
            text = f"after {len(run.steps)} steps, {about}"
            self.found[wrong] = OracleFinding(rows, f"{run.name}: {text}" if run.name else text, body())

    def seen(self, words: Mapping[StrEnum, Behaviour], sound: Behaviour, about: str = "") -> Seen:
        """Return the worst of these words that was found: the one that is declared last."""
        kind = list(type(sound))
        wrong = max((each for each in words if each in self.found), key=lambda e: kind.index(words[e]), default=None)
        if wrong is None:
            ways = f" ({'; '.join(filter(None, self.ways))})" if any(self.ways) else ""
            return Seen(sound.value, f"{about or f'{self.rows:,} rows'}{ways}"[:CHARACTERS], self.rows)
        found = self.found[wrong]
        text = f"{found.rows:,} of {self.rows:,} rows; {found.about}"
        return Seen(words[wrong].value, text[:CHARACTERS], self.rows, "\n".join(found.script))


class Judge:
    """Compares the rows of one batch."""

    def __init__(self, run: StreamRun, batch: Columns, size: int, tally: Tally) -> None:
        self.run, self.batch, self.size, self.tally = run, batch, size, tally
        self.frames = run.frames(batch["obs"], size)
        self.number = self.frames[:, -1]
        self.is_step = is_known(run, self.number)
        self.next = run.frames(batch["next_obs"], size) if "next_obs" in batch else None
        self.discount, self.reward = column(batch, "discount", size), column(batch, "rew", size)
        done = column(batch, "done", size)
        if done is None and self.discount is not None:
            done = self.discount == 0
        self.done = None if done is None else done > 0.5
        self.e, self.t = np.divmod(self.number, EPISODE)
        self.n = np.array(LENGTHS)[self.e % 7]
        self.left = np.minimum(run.n_step, run.known[self.e] - self.t)  # steps that a window must have
        self.taken = self.left

    def judge(self) -> None:
        self.tally.rows += self.size
        self.tally.columns |= {"done"} if self.done is not None else set()
        self.tally.columns |= {"next_obs"} if self.next is not None else set()
        for k in np.flatnonzero(~self.is_step)[:1]:
            number, obs = int(self.number[k]), np.asarray(self.batch["obs"][k]).ravel()[-4:].tolist()
            rows = int((~self.is_step).sum())
            script = partial(no_row, self.run, number)
            self.tally.note(Wrong.NO_STEP, self.run, rows, f"obs {obs}", script)
        goal = column(self.batch, "desired_goal", self.size)
        own = self.is_step & ((goal == -self.e) if goal is not None else True)  # others may have another reward
        fields = {
            "act": ((self.e + self.number) % 5, Wrong.FIELD, self.is_step),
            "info": (self.number, Wrong.INFO, self.is_step),
            "rew": (self.number, Wrong.FIELD, own),
        }
        for name, (values, wrong, rows) in fields.items():
            got = column(self.batch, name, self.size)
            if got is not None and not (name == "rew" and self.run.n_step > 1):
                self._note(wrong, rows & (got != values), name, got, lambda k, v=values: [int(v[k])])
        if self.run.n_step > 1 and self.reward is not None:
            self._returns(self.reward)
        if self.done is not None:
            self._done(self.done)
        if self.next is not None:
            self._next(self.next)
        if self.run.n_step > 1:
            self._discount()
        if self.run.stack > 1:
            self._stack()

    def _note(self, wrong: Wrong, rows: Array, name: str, got: Any, accepted: Callable[[int], list[Any]]) -> None:
        """Note these rows, of which each must have one of the `accepted` values in a column."""
        for k in np.flatnonzero(rows)[:1]:
            number, right = int(self.number[k]), accepted(k)
            value = got[k].tolist() if np.ndim(got[k]) else f"{got[k]:.6g}"
            about = f"step {number} has {name} {value}, not {' or '.join(map(str, right))}"
            script = partial(row_differs, self.run, number, name, right)
            self.tally.note(wrong, self.run, int(rows.sum()), about, script)

    # n-step returns

    def _sum(self, numbers: Sequence[int] | Array, steps: int) -> float:
        return sum(self.run.gamma**k * float(numbers[k]) for k in range(min(steps, len(numbers))))

    def _returns(self, got: Array) -> None:
        steps = np.arange(1, self.run.n_step + 1)
        sums = np.cumsum(
            self.run.gamma ** (steps - 1) * (self.number[:, None] + steps - 1), axis=1
        )  # (size, n): of each length of a window, were the episode long enough
        is_sum = (np.abs(sums - got[:, None]) <= WITHIN * np.abs(sums) + 1e-3) & (steps <= self.left[:, None])
        length = np.where(is_sum.any(1), is_sum.argmax(1) + 1, 0)
        self.taken = np.where(length > 0, length, self.left)
        right = lambda k: [round(float(sums[k, self.left[k] - 1]), 4)]  # noqa: E731
        short = (length > 0) & (length < self.left) & (not self.run.stream.irregular)
        self._note(Wrong.SHORT, self.is_step & short, "rew", got, right)
        for k in np.flatnonzero(self.is_step & (length == 0)):
            self._note(self._origin(k, got[k]), np.arange(self.size) == k, "rew", got, right)

    def _origin(self, k: int, got: float) -> Wrong:
        """Return which rewards were summed instead."""
        run, steps, number, left = self.run, self.run.steps, int(self.number[k]), int(self.left[k])
        of_env = [each for each in steps[run.when[number] :] if run.env_of(each) == run.env_of(number)]
        oldest = steps[max(0, len(steps) - run.capacity) :]
        hypotheses = (
            (Wrong.SUM_OF_EPISODES, of_env),
            (Wrong.SUM_OF_ENVS, steps[run.when[number] :]),
            (Wrong.SUM_OVER_NEWEST, [*of_env[:left], *oldest]),
        )
        for wrong, numbers in hypotheses:
            for length in range(2, run.n_step + 1):
                if abs(self._sum(numbers, length) - got) <= WITHIN * abs(got) + 1e-3:
                    return wrong
        return Wrong.SUM

    def _discount(self) -> None:
        if self.done is None:
            return
        goes_on = self.is_step & ~self.done
        if self.discount is None:
            short = goes_on & (self.taken < self.run.n_step)
            for k in np.flatnonzero(short)[:1]:
                about = f"step {self.number[k]} has a window of {self.taken[k]}, and no discount"
                script = partial(no_short_row, self.run, int(self.number[k]))
                self.tally.note(Wrong.NO_DISCOUNT, self.run, int(short.sum()), about, script)
            return
        right = self.run.gamma**self.taken
        wrong = goes_on & (np.abs(self.discount - right) > WITHIN)
        self._note(Wrong.DISCOUNT, wrong, "discount", self.discount, lambda k: [round(float(right[k]), 6)])

    # Ends

    def _done(self, done: Array) -> None:
        is_end = self.is_step & (self.t + self.taken == self.n)
        is_limit = self.run.stream.is_limit(self.e)
        self._note(Wrong.DONE_MISSED, is_end & ~is_limit & ~done, "done", done, lambda k: [1])
        self._note(Wrong.DONE_AT_LIMIT, is_end & is_limit & done, "done", done, lambda k: [0])
        self._note(Wrong.DONE_WITHIN, self.is_step & ~is_end & done, "done", done, lambda k: [0])

    def _next(self, frames: Array) -> None:
        """Compare the newest frame of next_obs, which a terminal row need not have."""
        right, got = self.number + self.taken, frames[:, -1]
        counts = self.is_step & (~self.done if self.done is not None else np.ones(self.size, bool))
        wrong, of = counts & (got != right), got // EPISODE
        other = wrong & (of != self.e) & (got >= EPISODE)
        other_env = other & (self.run.env_of(got) != self.run.env_of(self.number))
        of_episode = other & ~other_env
        kinds = {Wrong.NEXT_OF_ENV: other_env, Wrong.NEXT_OF_EPISODE: of_episode, Wrong.NEXT: wrong & ~other}
        for kind, rows in kinds.items():
            self._note(kind, rows, "next_obs", got, lambda k: self._stacks(int(self.e[k]), int(right[k]) % EPISODE))
        if self.run.stack > 1:
            stacks = [self._stacks(int(e), int(r % EPISODE)) for e, r in zip(self.e, right, strict=True)]
            differs = np.array([f.tolist() not in s for f, s in zip(frames, stacks, strict=True)])
            shifted = counts & (got == right) & differs
            if shifted.any():  # a frame that may be overwritten is judged with the stack
                same = (frames[:, :-1] == self.frames[:, 1:]).all(1) & (self.taken == 1)
                shifted &= ~same
            self._note(Wrong.NEXT_STACK, shifted, "next_obs", frames, lambda k: stacks[k])

    # Stacks

    def _stacks(self, e: int, t: int) -> list[Any]:
        """Return the stacks that are right with the newest frame `t` of an episode."""
        size = self.run.stack
        if size == 1:
            return [EPISODE * e + t]
        numbers = [EPISODE * e + each for each in range(t - size + 1, t + 1)]
        repeated = [max(each, EPISODE * e) for each in numbers]
        return [repeated, [each if each >= EPISODE * e else 0 for each in numbers]] if t < size - 1 else [repeated]

    def _stack(self) -> None:
        for k in np.flatnonzero(self.is_step):
            right = self._stacks(int(self.e[k]), int(self.t[k]))
            if self.frames[k].tolist() not in right:
                wrong = self._frame(self.frames[k], int(self.number[k]), int(self.t[k]))
                self._note(wrong, np.arange(self.size) == k, "obs", self.frames, lambda _, r=right: r)

    def _frame(self, frames: Array, number: int, t: int) -> Wrong:
        """Return what is wrong with the stack whose newest frame is this step."""
        run, first = self.run, number - t
        wanted = number - np.arange(len(frames))[::-1]
        before = wanted < first
        odd = np.where(before, ~np.isin(frames, (first, 0)), frames != wanted)
        foreign = frames[odd & (frames // EPISODE != number // EPISODE) & (frames >= EPISODE)]
        if foreign.size:
            if (run.env_of(foreign) != run.env_of(number)).any():
                return Wrong.STACK_OF_ENVS
            is_younger = (run.when[foreign] > run.when[number]).any()
            return Wrong.STACK_OF_YOUNGER if is_younger else Wrong.STACK_OF_EPISODES
        is_blank = (frames == 0) | (frames == frames[~odd].min(initial=number))
        missing = odd & ~before
        if missing.any() and is_blank[odd].all():
            age = len(run.steps) - run.when[wanted[missing]].max()
            if age > OLD * run.capacity:
                return Wrong.BLANKED_OLD
        if (odd & before).any() or not odd.any():  # not odd: the empty and the first frame mixed
            return Wrong.PADDING
        return Wrong.BLANKED if is_blank[odd].all() else Wrong.STACK


def observe(run: StreamRun, tally: Tally, points: int, judge: type[Judge] = Judge) -> None:
    """Judge batches that are drawn while `points` steps are added, or more in a long check, once the buffer is half
    full."""
    tally.ways.append(run.name)
    for _ in range(points * times(run.subject.setting)):
        run.add()
        whole = len(run.steps) % run.stream.envs == 0 or run.stream.irregular
        if whole and len(run.steps) >= max(run.capacity // 2, 12):
            batch = joined([run.buffer.sample(SIZE) for _ in range(BATCHES)])
            judge(run, batch, BATCHES * SIZE, tally).judge()


def joined(batches: Sequence[Columns]) -> Columns:
    """Return the rows of several batches, without their indexes."""
    names = [name for name in batches[0] if name != "indexes"]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in names}
