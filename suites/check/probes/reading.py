"""Probes of reading: rows read again by their indexes, and what reading changes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np

from adapters.base import Columns
from adapters.behaviours import FAULT, Behaviour
from suites.check.functions import NotApplicable
from suites.check.probes.oracle import Tally, Wrong, observe
from suites.check.probes.probing import Seen
from suites.check.probes.steps import CAPACITY, POINTS, looked_at, refusals
from suites.check.probes.streams import SIZE, Stream, StreamRun, drawn, fed, plain_ways, tells_limits
from suites.check.subject import Subject

READS = 100
READ = ("obs", "act", "rew", "next_obs", "done", "info")


class WrongRead(StrEnum):
    """What reading can change."""

    INDEXES = "the caller's indexes"
    OTHER_ROWS = "indexes of other rows"
    CHANGED = "a row, from one read to the next"


class ReadEffect(Behaviour):
    """What reading changes."""

    NOTHING = "changes nothing"
    OTHER_ROWS = "its indexes are those of other rows", FAULT
    INDEXES = "changes the caller's indexes", FAULT
    ROWS = "changes rows", FAULT


class Info(Behaviour):
    """Whether a step's `info` is that of the same step."""

    OF_STEP = "of its step"
    OTHER = "of another step", FAULT


WORDS = {
    WrongRead.OTHER_ROWS: ReadEffect.OTHER_ROWS,
    WrongRead.INDEXES: ReadEffect.INDEXES,
    WrongRead.CHANGED: ReadEffect.ROWS,
}


def twice(subject: Subject) -> dict[str, Seen]:
    """Draw rows again and again, and read them by their indexes, without adding any."""
    tally, by_index = Tally(), 0
    for each, asked in plain_ways(subject):
        with refusals(tally):
            run = StreamRun(each, CAPACITY, Stream(limits=tells_limits(subject)), asked)
            run.add(int(2.3 * CAPACITY))
            tally.ways.append(run.name)
            by_index += _read(run, tally)
    looked_at(tally)
    about = f"{tally.rows:,} rows, {by_index:,} of them by their indexes"
    return {"reading": tally.seen(WORDS, ReadEffect.NOTHING, about)}


def _read(run: StreamRun, tally: Tally) -> int:
    """Return how many rows were read by their indexes."""
    first: dict[int, list[Any]] = {}
    by_index = 0
    for _ in range(READS):
        batch = run.buffer.sample(SIZE)
        tally.rows += SIZE
        number = run.frames(batch["obs"], SIZE)[:, -1]
        for k, row in enumerate(_rows(batch)):
            done = "done" in batch and bool(np.any(batch["done"][k]))
            row = [value for name, value in row if name != "next_obs" or not done]
            if number[k] >= 0 and first.setdefault(int(number[k]), row) != row:
                about = f"step {number[k]} was first read as {first[int(number[k])][:3]} and then as {row[:3]}"
                tally.note(WrongRead.CHANGED, run, 1, about[:120], partial(same_rows, run, int(number[k])))
        if "indexes" in batch and run.subject.functions.has("at"):
            kept = copy.deepcopy(batch["indexes"])
            given = copy.deepcopy(kept)
            again = run.frames(run.buffer.at(given)["obs"], SIZE)[:, -1]
            by_index += SIZE
            if not np.array_equal(np.asarray(given), np.asarray(kept)):
                about = f"indexes {np.asarray(kept).tolist()} are {np.asarray(given).tolist()} after a read"
                tally.note(WrongRead.INDEXES, run, SIZE, about[:120], partial(same_indexes, run))
            if (again != number).any():
                about = f"steps {number.tolist()} were read by their indexes as {again.tolist()}"
                tally.note(WrongRead.OTHER_ROWS, run, int((again != number).sum()), about, partial(same_steps, run))
    return by_index


def _rows(batch: Columns) -> list[list[tuple[str, list[Any]]]]:
    fixed = [name for name in READ if name != "rew" or "desired_goal" not in batch]  # a goal may change the reward
    names = [name for name in fixed if name in batch]
    return [[(name, np.asarray(batch[name][k]).ravel().tolist()) for name in names] for k in range(SIZE)]


def same_rows(run: StreamRun, number: int) -> list[str]:
    names = f"[n for n in {READ[1:3]} if n in x]"
    return [
        *fed(run),
        f"rows = {{tuple(float(x[n][k]) for n in {names}) for x in {drawn()} for k in range({SIZE})",
        f'    if np.asarray(x["obs"])[k].ravel()[-1] == {number}}}',
        "assert len(rows) == 1, rows",
    ]


def same_indexes(run: StreamRun) -> list[str]:
    return [
        *fed(run),
        "import copy",
        f'i = sample(b, {SIZE})["indexes"]; j = copy.deepcopy(i); at(b, i)',
        "assert np.array_equal(np.asarray(i), np.asarray(j)), (i, j)",
    ]


def same_steps(run: StreamRun) -> list[str]:
    obs = 'np.asarray(x["obs"])'
    return [
        *fed(run),
        f'for x in {drawn()}: assert ({obs} == np.asarray(at(b, x["indexes"])["obs"])).all(), x["indexes"]',
    ]


def info(subject: Subject) -> dict[str, Seen]:
    """Compare the column info with the step's."""
    if not subject.functions.accepts("add", "info"):
        raise NotApplicable("add has no argument info")
    tally = Tally()
    for each, asked in plain_ways(subject):
        with refusals(tally):
            run = StreamRun(each, CAPACITY, Stream(limits=tells_limits(subject)), asked)
            observe(run, tally, POINTS // 2)
    looked_at(tally)
    return {"info": tally.seen({Wrong.INFO: Info.OTHER}, Info.OF_STEP)}


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {twice: ("reading",), info: ("info",)}
CHECKS: Mapping[str, type[Behaviour]] = {"reading": ReadEffect, "info": Info}
