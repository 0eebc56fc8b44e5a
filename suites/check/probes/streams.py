"""Streams of steps that name themselves, fed to a buffer, and scripts that feed them again.

Step `t` of episode `e` has the number 100 e + t, from 100. The number is in each cell of obs and is the reward, and the
next number is in next_obs, where it is no step's at an episode's end. Episode `e` has LENGTHS[e % 7] steps and belongs
to environment (e - 1) % envs. Episodes with an even number are cut by a time limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adapters.base import Array, Columns
from suites.check.functions import OPTIONS, NotApplicable
from suites.check.probes.probing import said
from suites.check.reproduction import added, made
from suites.check.subject import Subject

LENGTHS = (1, 1, 3, 2, 14, 4, 6)
EPISODE = 100
EPISODES = 1_500
IRREGULAR = (0, 0, 1, 2, 1, 0, 2, 2, 1)  # three environments
SIZE = 8  # of a batch: fewer rows than any buffer holds when it is first sampled
DRAWN = 3_000  # rows that a script draws
NO_LIMITS = (
    "add has one flag for the end of an episode, so a time limit cannot be told from a terminal state; "
    "here all episodes end in terminal states"
)


@dataclass(frozen=True)
class Stream:
    """How steps are fed."""

    envs: int = 1
    limits: bool = True  # False: all episodes end in a terminal state
    irregular: bool = False  # False: the environments step in turn
    resets: bool = False  # after each episode, the step in which Gymnasium's autoreset NEXT_STEP ignores the action
    cuts: bool = False  # time limits are not told with the step, but by the function `cut` after it

    @property
    def order(self) -> Sequence[int]:
        return IRREGULAR if self.irregular else range(self.envs)

    def steps(self) -> Iterator[tuple[int, int]]:
        """Yield the episode and the place in it of each step, in the order in which they are added."""
        each = [
            iter([(e, t) for e in range(env + 1, EPISODES, self.envs) for t in range(LENGTHS[e % 7])])
            for env in range(self.envs)
        ]
        while True:
            for env in self.order:
                yield next(each[env])

    def is_limit(self, episode: Any) -> Any:
        """Return whether an episode ends by a time limit, for an episode or an array of them."""
        return (episode % 2 == 0) & self.limits


class StepRefused(Exception):  # noqa: N818 (what the buffer did)
    """The buffer refuses to be made in this way, or a step that ends by a time limit."""


class StreamRun:
    """A buffer that is fed a stream, and what was fed so far."""

    def __init__(self, subject: Subject, capacity: int, stream: Stream, asked: dict[str, Any]) -> None:
        self.subject, self.capacity, self.stream, self.asked = subject, capacity, stream, asked
        if stream.envs > 1 and not subject.functions.accepts("add", "env"):
            raise NotApplicable("add has no argument env")
        if stream.envs > 1 and "envs" not in asked and subject.can(envs=None):
            self.asked = {**asked, "envs": stream.envs}
        expected = {"n_step": 1, "stack": 1, "gamma": OPTIONS["gamma"]} | self.asked | dict(subject.options)
        self.n_step, self.stack, self.gamma = int(expected["n_step"]), int(expected["stack"]), float(expected["gamma"])
        self.when = np.full(EPISODES * EPISODE, -1)  # step -> how many were added before it
        self.known = np.zeros(EPISODES, int)  # episode -> its steps so far
        self.steps: list[int] = []  # in the order in which they were added
        self._steps = stream.steps()
        try:
            self.buffer = subject.make(capacity, **self.asked).ignore_priorities()
        except NotApplicable:
            raise
        except Exception as error:
            if not (subject.way or asked):
                raise
            raise StepRefused(said(error)) from error

    @property
    def name(self) -> str:
        """Return what this way of using the buffer is called in evidence."""
        return ", ".join([*filter(None, [self.subject.way]), *(f"{k}={v}" for k, v in self.asked.items())])

    def env_of(self, numbers: Any) -> Any:
        return (numbers // EPISODE - 1) % self.stream.envs

    def add(self, steps: int = 1) -> None:
        for _ in range(steps):
            e, t = next(self._steps)
            number = EPISODE * e + t
            end, limit = t + 1 == LENGTHS[e % 7], bool(self.stream.is_limit(e))
            truncated = end and limit and not self.stream.cuts
            step = step_of(number) | {"terminated": end and not limit, "truncated": truncated, "first": t == 0}
            try:
                self.buffer.add(**step, env=self.env_of(number))
            except Exception as error:
                if truncated:
                    raise StepRefused(said(error)) from error
                raise
            if end and limit and self.stream.cuts:
                self.buffer.cut()
            if end and self.stream.resets:
                reset = step_of(number + 1) | {"next_obs": observation(EPISODE * (e + 1)), "act": 0, "rew": 0.0}
                self.buffer.add(**reset, first=False)
            self.when[number], self.known[e] = len(self.steps), t + 1
            self.steps.append(number)

    def frames(self, column: Any, size: int, stack: int | None = None) -> Array:
        """Return the numbers in a column of observations, (size, stack); -1 is no number, 0 an empty frame."""
        cells, stack = np.asarray(column, float), stack or self.stack
        if stack > 1 and (cells.ndim < 2 or cells.shape[-1] != stack):
            return np.full((size, stack), -1)
        cells = cells.reshape(size, -1, stack)
        with np.errstate(invalid="ignore"):
            is_number = (cells == cells[:, :1]).all(1) & (cells[:, 0] >= 0) & (cells[:, 0] < EPISODES * EPISODE)
            is_number &= cells[:, 0] == np.floor(cells[:, 0])
        return np.where(is_number, cells[:, 0], -1).astype(int)


def step_of(number: int) -> dict[str, Any]:
    """Return a step as arguments of `CheckedBuffer.add`, without its end."""
    goal = np.full(1, number, "float32")
    return {
        "obs": observation(number),
        "act": (number // EPISODE + number) % 5,
        "rew": float(number),
        "next_obs": observation(number + 1),
        "info": number,
        "achieved_goal": goal,
        "next_achieved_goal": goal + 1,
        "desired_goal": np.full(1, -(number // EPISODE), "float32"),
    }


def observation(number: int) -> Array:
    return np.full(OPTIONS["obs_shape"], number, OPTIONS["obs_dtype"])


def tells_limits(subject: Subject) -> bool:
    """Return whether a time limit can be told from a terminal state when a step is added."""
    accepts = subject.functions.accepts
    return accepts("add", "truncated") or (
        accepts("add", "terminated") and (accepts("add", "done") or accepts("add", "first"))
    )


def plain_ways(subject: Subject) -> list[tuple[Subject, dict[str, Any]]]:
    """Return the ways of use in which a batch has the rows that were added, and no more options."""
    return [(each, {}) for each in subject.ways() if not each.other_rows]


def ways_with(subject: Subject, option: str, value: int, **more: Any) -> list[tuple[Subject, dict[str, Any]]]:
    """Return the ways of use with this option, and what to ask `make` for: `value`, unless the way has one, and `more`
    as far as possible."""
    found = []
    for each in subject.ways():
        is_offered = not each.other_rows and each.can(**{option: None}) and option not in each.options
        if each.options.get(option, 1) > 1 or is_offered:
            asked = {option: value} | {name: more[name] for name in more if each.can(**{name: None})}
            found.append((each, {name: asked[name] for name in asked if name not in each.options}))
    if not found:
        raise NotApplicable(f"make has no argument {option}, and there is no way with one")
    return found


# Lines of scripts


def fed(run: StreamRun) -> list[str]:
    """Return lines that make a buffer `b` and feed it as many steps of the stream."""
    stream, count = run.stream, len(run.steps)
    steps, each = "for t in range(L[e % 7])", "e, t"
    lines = [f"L = {LENGTHS}; b = {made(run.subject, run.capacity, **run.asked)}"]
    if stream.envs == 1:
        lines.append(f"for e, t in [(e, t) for e in range(1, {EPISODES}) {steps}][:{count}]:")
    else:
        episodes = f"range(j, {EPISODES}, {stream.envs})"
        envs = tuple(range(1, stream.envs + 1))
        lines.append(f"s = [iter([({each}) for e in {episodes} {steps}]) for j in {envs}]")
        lines.append(f"for e, t in (next(s[{tuple(stream.order)}[i % {len(stream.order)}]]) for i in range({count})):")
    limit = "e % 2 == 0" if stream.limits else "False"
    lines.append(f"    v, end, limit = {EPISODE} * e + t, t + 1 == L[e % 7], {limit}")
    step = {
        "act": "(e + v) % 5",
        "done": "end" if not stream.cuts else "end and not limit",
        "terminated": "end and not limit",
        "truncated": "end and limit" if not stream.cuts else "False",
        "first": "t == 0",
        "env": f"(e - 1) % {stream.envs}" if stream.envs > 1 else "0",
        "info": "v",
        "achieved_goal": "np.full(1, v, 'float32')",
        "next_achieved_goal": "np.full(1, v + 1, 'float32')",
        "desired_goal": "np.full(1, -e, 'float32')",
    }
    lines.append(f"    {added(run.subject, 'v', **step)}")
    if stream.cuts:
        lines.append("    if end and limit: cut(b)")
    if stream.resets:
        other = dict.fromkeys(("done", "terminated", "truncated", "first"), "False") | {"act": "0", "rew": "0.0"}
        obs = {"next_obs": f"np.full({OPTIONS['obs_shape']}, 100 * e + 100, {OPTIONS['obs_dtype']!r})"}
        lines.append(f"    if end: {added(run.subject, 'v + 1', **step | other | obs)}")
    return lines


def drawn() -> str:
    return f"[sample(b, {SIZE}) for _ in range({DRAWN // SIZE})]"


def drawn_windows(length: int) -> str:
    return f"[windows(b, {SIZE}, {length}) for _ in range({DRAWN // SIZE})]"


def never(run: StreamRun, number: int) -> list[str]:
    """Return lines that show that a step is never drawn."""
    obs = f'np.asarray(x["obs"]).reshape({SIZE}, -1)[:, -1]'
    return [*fed(run), f"assert {number} in np.concatenate([{obs} for x in {drawn()}])"]


def row_differs(run: StreamRun, number: int, column: str, accepted: Sequence[Any]) -> list[str]:
    """Return lines that compare a column of the row of this step with values that are right."""
    obs = f'np.asarray(x["obs"]).reshape({SIZE}, -1)[:, -1]'
    right = f"any(np.allclose(y, z) for z in {list(accepted)})"
    return [
        *fed(run),
        f"for x in {drawn()}:",
        f'    for o, y in zip({obs}, np.asarray(x["{column}"])): assert o != {number} or {right}, (o, y)',
    ]


def no_row(run: StreamRun, number: int) -> list[str]:
    """Return lines that show that an observation is returned which begins no step; -1: one of different cells."""
    obs = f'np.asarray(x["obs"]).reshape({SIZE}, -1)'
    is_odd = f"{obs}[:, -1] == {number}" if number >= 0 else f"np.ptp({obs}, axis=1) > 0"
    return [*fed(run), f"for x in {drawn()}: assert not ({is_odd}).any(), x"]


def no_short_row(run: StreamRun, number: int) -> list[str]:
    """Return lines that show that a step is returned which must not be, since its batch has no discount."""
    obs = f'np.asarray(x["obs"]).reshape({SIZE}, -1)[:, -1]'
    return [*fed(run), f'for x in {drawn()}: assert "discount" in x or {number} not in {obs}']


def is_known(run: StreamRun, numbers: Array) -> Array:
    """Return which numbers are those of steps that were added."""
    return (numbers >= EPISODE) & (run.when[numbers] >= 0)


def column(batch: Columns, name: str, size: int) -> Array | None:
    """Return a column of one number per row."""
    return np.asarray(batch[name], float).reshape(size, -1)[:, 0] if name in batch else None
