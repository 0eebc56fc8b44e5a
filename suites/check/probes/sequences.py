"""Compares windows of consecutive steps with the stream that was fed."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np

from adapters.base import Array, Columns
from suites.check.functions import OPTIONS
from suites.check.probes.oracle import Tally
from suites.check.probes.probing import times
from suites.check.probes.streams import EPISODE, LENGTHS, SIZE, StreamRun, drawn_windows, fed, is_known

LENGTH = 4
BATCHES = 3  # drawn after each step


class WrongWindow(StrEnum):
    """How a window can differ from what it must be."""

    NO_STEP = "an observation that begins no step"
    NOT_CONSECUTIVE = "steps of an episode that do not follow each other"
    OVER_NEWEST = "older steps after newer ones"
    OF_EPISODES = "steps of other episodes than the next"
    OF_ENVS = "steps of several environments"
    CROSSES = "an end that the window shows"
    CROSSES_UNSEEN = "an end that the window does not show"
    UNMASKED = "padded without a mask"
    FIELD = "a field of another step"
    NEXT = "the next observation of another step"
    DONE_MISSED = "a terminal step without done"
    DONE_WITHIN = "done within an episode"
    DONE_AT_LIMIT = "done at a time limit"


class WindowJudge:
    """Compares the windows of one batch, (size, length)."""

    def __init__(self, run: StreamRun, batch: Columns, size: int, length: int, tally: Tally) -> None:
        self.run, self.batch, self.size, self.length, self.tally = run, batch, size, length, tally
        self.numbers = self._frames("obs")
        mask = self._column("mask")
        self.empty = mask < 0.5 if mask is not None else np.zeros((size, length), bool)
        padded = ~self.empty & ((self.numbers == 0) | self._repeated())
        self.unmasked = padded & (np.cumprod(padded, 1) | np.cumprod(padded[:, ::-1], 1)[:, ::-1]).astype(bool)
        self.real = ~self.empty & ~self.unmasked
        self.is_step = is_known(run, self.numbers) & self.real
        self.e, self.t = np.divmod(self.numbers, EPISODE)
        self.is_last = self.is_step & (self.t + 1 == np.array(LENGTHS)[self.e % 7])

    def _frames(self, name: str) -> Array:
        column = np.asarray(self.batch[name])
        column = column.reshape(-1, *column.shape[2:])
        stack = 1 if column.ndim <= 1 + len(OPTIONS["obs_shape"]) else self.run.stack  # windows may have single frames
        return self.run.frames(column, len(column), stack)[:, -1].reshape(self.size, self.length)

    def _column(self, name: str) -> Array | None:
        if name not in self.batch:
            return None
        return np.asarray(self.batch[name], float).reshape(self.size, self.length, -1)[:, :, 0]

    def _repeated(self) -> Array:
        """Return which places repeat an episode's first step before it, or its last after it."""
        same = self.numbers[:, 1:] == self.numbers[:, :-1]
        edge = np.zeros((self.size, 1), bool)
        is_last = self.numbers % EPISODE + 1 == np.array(LENGTHS)[self.numbers // EPISODE % 7]
        before = np.concatenate([same & (self.numbers[:, 1:] % EPISODE == 0), edge], 1)
        return before | np.concatenate([edge, same & is_last[:, 1:]], 1)

    def judge(self) -> None:
        self.tally.rows += self.size
        self._note(WrongWindow.NO_STEP, (self.real & ~self.is_step).any(1))
        self._note(WrongWindow.UNMASKED, self.unmasked.any(1))
        self._order()
        if self.run.n_step == 1:
            self._fields()

    def _order(self) -> None:
        first, second, run = self.numbers[:, :-1], self.numbers[:, 1:], self.run
        pairs = self.is_step[:, :-1] & self.is_step[:, 1:] & (second != first + 1)
        other_env = run.env_of(first) != run.env_of(second)
        backwards = run.when[second] < run.when[first]
        same = self.e[:, :-1] == self.e[:, 1:]
        follows = self.is_last[:, :-1] & (second == EPISODE * (self.e[:, :-1] + run.stream.envs))
        shown = np.zeros_like(follows)
        for name in ("done", "terminated", "truncated"):
            if (flags := self._column(name)) is not None:
                shown |= flags[:, :-1] > 0.5
        if (flags := self._column("first")) is not None:
            shown |= flags[:, 1:] > 0.5
        gap = self.is_step[:, :-2] & self.is_step[:, 2:] & ~self.is_step[:, 1:-1]  # a masked step between two others
        self._note(WrongWindow.OF_ENVS, (pairs & other_env).any(1))
        self._note(WrongWindow.OVER_NEWEST, (pairs & ~other_env & backwards).any(1))
        self._note(WrongWindow.NOT_CONSECUTIVE, (pairs & same & ~backwards).any(1) | gap.any(1))
        self._note(WrongWindow.OF_EPISODES, (pairs & ~other_env & ~same & ~backwards & ~follows).any(1))
        self._note(WrongWindow.CROSSES, (pairs & follows & shown).any(1))
        self._note(WrongWindow.CROSSES_UNSEEN, (pairs & follows & ~shown).any(1))

    def _fields(self) -> None:
        for name, right in (("act", (self.e + self.numbers) % 5), ("rew", self.numbers), ("info", self.numbers)):
            if (got := self._column(name)) is not None:
                self._note(WrongWindow.FIELD, (self.is_step & (got != right)).any(1), name)
        is_limit = self.run.stream.is_limit(self.e) & self.is_last
        done = self._column("done")
        is_done = np.zeros_like(is_limit) if done is None else done > 0.5
        if done is not None:
            self._note(WrongWindow.DONE_MISSED, (self.is_last & ~is_limit & ~is_done).any(1), "done")
            self._note(WrongWindow.DONE_WITHIN, (self.is_step & ~self.is_last & is_done).any(1), "done")
            if "truncated" not in self.batch and "terminated" not in self.batch:
                self._note(WrongWindow.DONE_AT_LIMIT, (is_limit & is_done).any(1), "done")
        if "next_obs" in self.batch:
            wrong = self.is_step & ~is_done & (self._frames("next_obs") != self.numbers + 1)
            self._note(WrongWindow.NEXT, wrong.any(1), "next_obs")

    def _note(self, wrong: WrongWindow, windows: Array, name: str = "obs") -> None:
        for k in np.flatnonzero(windows)[:1]:
            shown = self.numbers[k].tolist()
            value = self._frames(name) if name in ("obs", "next_obs") else self._column(name)
            assert value is not None
            got = value[k].astype(int).tolist()
            about = f"the window of steps {shown}" + (f" has {name} {got}" if name != "obs" else "")
            script = partial(no_window, self.run, self.length, shown, name, got)
            self.tally.note(wrong, self.run, int(windows.sum()), about, script)


def no_window(run: StreamRun, length: int, numbers: Sequence[int], name: str, got: Sequence[int]) -> list[str]:
    """Return lines that show that windows have these observations, and these values in another column."""
    size = f"{SIZE}, {length}, -1"
    odd = f'(np.asarray(x["obs"]).reshape({size})[:, :, -1] == {list(numbers)}).all(1)'
    if name != "obs":
        odd += f' & (np.asarray(x["{name}"]).reshape({size})[:, :, -1] == {list(got)}).all(1)'
    return [*fed(run), f"for x in {drawn_windows(length)}: assert not ({odd}).any(), x"]


def length_of(run_options: dict[str, Any]) -> int:
    return int(run_options.get("length", LENGTH))


def observe_windows(run: StreamRun, tally: Tally, points: int, length: int) -> None:
    """Judge windows that are drawn while `points` steps are added, or more in a long check, once the buffer is three
    quarters full."""
    tally.ways.append(run.name)
    for _ in range(points * times(run.subject.setting)):
        run.add()
        if len(run.steps) % run.stream.envs == 0 and len(run.steps) >= 3 * run.capacity // 4:
            for _ in range(BATCHES):
                WindowJudge(run, run.buffer.windows(SIZE, length), SIZE, length, tally).judge()
