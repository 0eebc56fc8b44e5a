"""Probes of windows of consecutive steps (`windows`): where they begin and end, and which steps they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from adapters.base import Array
from adapters.behaviours import FAULT, HAZARD, Behaviour
from adapters.checks import SIGNIFICANCE
from suites.check.functions import NotApplicable
from suites.check.probes.oracle import CHARACTERS, Tally
from suites.check.probes.probing import Seen, fit
from suites.check.probes.sequences import LENGTH, WindowJudge, WrongWindow, length_of, observe_windows
from suites.check.probes.steps import inner_steps, looked_at, refusals
from suites.check.probes.streams import (
    EPISODE,
    LENGTHS,
    SIZE,
    Stream,
    StreamRun,
    drawn_windows,
    fed,
    tells_limits,
)
from suites.check.subject import Subject

CAPACITY, POINTS = 47, 230
LARGE, WRAPS = 130, 2.3
EXPECTED = 40  # draws per step at which a window can begin, at least


class WindowSteps(Behaviour):
    """Which steps follow each other in a window."""

    ONE_EPISODE = "of one episode"
    CROSSES = "cross ends, which they show", HAZARD
    NO_STEP = "have rows that are no steps", FAULT
    NOT_CONSECUTIVE = "not consecutive", FAULT
    CROSSES_UNSEEN = "cross ends unseen", FAULT
    OVER_NEWEST = "continue with older steps", FAULT
    OF_EPISODES = "mix episodes", FAULT
    OF_ENVS = "mix environments", FAULT


class WindowFields(Behaviour):
    """Whether the fields of each place in a window belong to its step."""

    OF_STEP = "of each step"
    WITHIN = "done within episodes", FAULT
    AT_LIMIT = "time limits stored as terminal", FAULT
    MISSED = "terminal steps without done", FAULT
    NEXT = "next observations of other steps", FAULT
    MIXED = "of other steps", FAULT


class WindowPadding(Behaviour):
    """Which places of a window have no step."""

    NONE_OR_MASKED = "none, or masked"
    UNMASKED = "without a mask", HAZARD


class WindowStarts(Behaviour):
    """How often windows begin or end at each step."""

    EVEN = "even"
    SOME_NEVER = "even, some never", HAZARD
    EPISODES_EVEN = "even over episodes", HAZARD
    UNEVEN = "uneven", FAULT


class WindowEnds(Behaviour):
    """Whether windows contain the last step of each episode that is long enough."""

    DRAWN = "drawn"
    NEVER = "some are never drawn", HAZARD


STEPS = {
    WrongWindow.CROSSES: WindowSteps.CROSSES,
    WrongWindow.NO_STEP: WindowSteps.NO_STEP,
    WrongWindow.NOT_CONSECUTIVE: WindowSteps.NOT_CONSECUTIVE,
    WrongWindow.CROSSES_UNSEEN: WindowSteps.CROSSES_UNSEEN,
    WrongWindow.OVER_NEWEST: WindowSteps.OVER_NEWEST,
    WrongWindow.OF_EPISODES: WindowSteps.OF_EPISODES,
    WrongWindow.OF_ENVS: WindowSteps.OF_ENVS,
}
FIELDS = {
    WrongWindow.DONE_WITHIN: WindowFields.WITHIN,
    WrongWindow.DONE_AT_LIMIT: WindowFields.AT_LIMIT,
    WrongWindow.DONE_MISSED: WindowFields.MISSED,
    WrongWindow.NEXT: WindowFields.NEXT,
    WrongWindow.FIELD: WindowFields.MIXED,
}


def ways(subject: Subject) -> Iterator[tuple[Subject, dict[str, Any]]]:
    """Yield the ways of use, and what to ask `make` for."""
    subject.functions.require("windows")
    for each in subject.ways():
        more = {"length": LENGTH} if each.can(length=None) and "length" not in each.options else {}
        yield each, more
        if subject.has_priorities and each.can(prioritized=None) and "prioritized" not in each.options:
            yield each, more | {"prioritized": True}


def steps(subject: Subject) -> dict[str, Seen]:
    """Compare windows with the stream after each step, of one environment and of three."""
    tally, limits = Tally(), tells_limits(subject)
    for each, asked in ways(subject):
        length = length_of(asked | dict(each.options))
        for envs in (1, 3) if subject.functions.accepts("add", "env") else (1,):
            if each.options.get("envs", envs) == envs:
                with refusals(tally):
                    run = StreamRun(each, CAPACITY if envs == 1 else 2 * CAPACITY, Stream(envs, limits), asked)
                    observe_windows(run, tally, POINTS, length)
    looked_at(tally)
    return {
        "window_steps": tally.seen(STEPS, WindowSteps.ONE_EPISODE),
        "window_fields": tally.seen(FIELDS, WindowFields.OF_STEP),
        "window_padding": tally.seen({WrongWindow.UNMASKED: WindowPadding.UNMASKED}, WindowPadding.NONE_OR_MASKED),
    }


def starts(subject: Subject) -> dict[str, Seen]:
    """Count at which steps windows begin and end."""
    found: list[tuple[WindowStarts, str, list[str]]] = []
    never: list[tuple[str, list[str]]] = []
    draws = subject.setting.draws
    for each, asked in ways(subject):
        with refusals(Tally()):
            run = StreamRun(each, LARGE, Stream(limits=tells_limits(subject)), asked)
            length = length_of(asked | dict(each.options))
            run.add(int(WRAPS * LARGE))
            counted = max(draws, EXPECTED * LARGE)
            batches = [run.buffer.windows(SIZE, length) for _ in range(counted // SIZE)]
            judges = [WindowJudge(run, batch, SIZE, length, Tally()) for batch in batches]
            numbers = np.concatenate([judge.numbers for judge in judges])
            real = np.concatenate([judge.is_step for judge in judges])
            if real.any():
                found.append(_evenness(run, length, numbers, real))
                never += _never(run, length, numbers, real)
    if not found:
        raise NotApplicable("no windows of steps in any way of use")
    order = list(WindowStarts)
    word, about, body = max(found, key=lambda each: order.index(each[0]))
    script = "\n".join(body) if word is not WindowStarts.EVEN else ""
    ends = Seen(WindowEnds.DRAWN.value, "all last steps of episodes", draws)
    if never:
        ends = Seen(WindowEnds.NEVER.value, never[0][0][:CHARACTERS], draws, "\n".join(never[0][1]))
    return {"window_starts": Seen(word.value, about[:CHARACTERS], draws, script), "window_ends": ends}


def _evenness(run: StreamRun, length: int, numbers: Array, real: Array) -> tuple[WindowStarts, str, list[str]]:
    kept = real.any(1)
    numbers, real = numbers[kept], real[kept]
    rows = np.arange(len(numbers))
    begin, end = numbers[rows, real.argmax(1)], numbers[rows, length - 1 - real[:, ::-1].argmax(1)]
    p = {}
    for name, places in (("begin", begin), ("end", end)):
        drawn, counts = np.unique(places, return_counts=True)
        _, episode, steps = np.unique(drawn // EPISODE, return_inverse=True, return_counts=True)
        p[name, WindowStarts.EVEN] = fit(counts, np.ones(len(drawn)))
        p[name, WindowStarts.EPISODES_EVEN] = fit(counts, 1 / steps[episode])
    best = max(p[name, WindowStarts.EVEN] for name in ("begin", "end"))
    prefix = f"{run.name}: " if run.name else ""
    drawn, counts = np.unique(begin, return_counts=True)
    share, odd = counts / counts.sum(), int(np.abs(counts - counts.mean()).argmax())
    about = f"{prefix}{len(rows):,} windows begin at {len(drawn)} steps, p = {best:.1g} if all are alike"
    fair = 1 / len(drawn)
    about += f"; {share[odd] / fair:.2g} times as many as the mean at step {drawn[odd]}"
    body = [
        *fed(run),
        f'n = [np.asarray(x["obs"]).reshape({SIZE}, {length}, -1)[:, 0, -1] for x in {drawn_windows(length)}]',
        f"assert abs(np.mean(np.concatenate(n) == {drawn[odd]}) - {fair:.4f}) < {abs(share[odd] - fair) / 2:.4f}",
    ]
    if best > SIGNIFICANCE:
        whole = real.all() and len(np.unique(begin % EPISODE)) > 1
        missing = _missing(run, length, drawn) if whole else []
        if missing:
            about = f"{prefix}no window of {len(rows):,} begins at step {missing[0]} and {len(missing) - 1} others"
            return WindowStarts.SOME_NEVER, about, [*body[:-1], f"assert {missing[0]} in np.concatenate(n)"]
        return WindowStarts.EVEN, about, []
    by_episode = max(p[name, WindowStarts.EPISODES_EVEN] for name in ("begin", "end"))
    return (WindowStarts.EPISODES_EVEN if by_episode > SIGNIFICANCE else WindowStarts.UNEVEN), about, body


def _missing(run: StreamRun, length: int, drawn: Array) -> list[int]:
    """Return the steps of which windows within an episode must begin, and do not."""
    inner = inner_steps(run)
    whole = inner[inner % EPISODE + length <= np.array(LENGTHS)[inner // EPISODE % 7]]
    return [int(each) for each in whole if each not in drawn and each + length - 1 in inner]


def _never(run: StreamRun, length: int, numbers: Array, real: Array) -> list[tuple[str, list[str]]]:
    """Return which last steps of long episodes are in no window."""
    inner, seen = inner_steps(run), np.unique(numbers[real])
    n = np.array(LENGTHS)[inner // EPISODE % 7]
    must = inner[(inner % EPISODE + 1 == n) & (n >= length) & np.isin(inner - length + 1, inner)]
    missing = must[~np.isin(must, seen)]
    if not missing.size:
        return []
    about = f"{run.name}: " if run.name else ""
    about += f"{missing.size} of {must.size} such as step {missing[0]} in {len(numbers):,} windows"
    drawn = f'np.concatenate([np.asarray(x["obs"]).ravel() for x in {drawn_windows(length)}])'
    return [(about, [*fed(run), f"assert {missing[0]} in {drawn}"])]


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {
    steps: ("window_steps", "window_fields", "window_padding"),
    starts: ("window_starts", "window_ends"),
}
CHECKS: Mapping[str, type[Behaviour]] = {
    "window_steps": WindowSteps,
    "window_fields": WindowFields,
    "window_padding": WindowPadding,
    "window_starts": WindowStarts,
    "window_ends": WindowEnds,
}
