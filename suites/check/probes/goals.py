"""Probes of goals that are drawn for a row (HER): they must be the row's own, or achieved in its episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial

import numpy as np

from adapters.behaviours import FAULT, HAZARD, Behaviour
from suites.check.functions import NotApplicable
from suites.check.probes.oracle import Judge, Tally, observe
from suites.check.probes.probing import Seen
from suites.check.probes.steps import CAPACITY, POINTS, looked_at, refusals
from suites.check.probes.streams import (
    EPISODE,
    LENGTHS,
    SIZE,
    Stream,
    StreamRun,
    column,
    drawn,
    fed,
    plain_ways,
    tells_limits,
)
from suites.check.subject import Subject


class WrongGoal(StrEnum):
    """How a goal can differ from what it must be."""

    OTHER = "a goal that was neither given nor achieved"
    OF_EPISODE = "a goal of another episode"
    OF_CUT = "a goal of the episode after a cut"
    NOT_LATER = "a goal that was achieved before"


class Goals(Behaviour):
    """The goals of rows."""

    OF_EPISODE = "of the row's episode"
    NOT_LATER = "of its episode, also earlier ones", HAZARD
    OTHER = "never given or achieved", FAULT
    OF_CUT = "of the episode after a cut one", FAULT
    OF_OTHER_EPISODE = "of another episode", FAULT


WORDS = {
    WrongGoal.NOT_LATER: Goals.NOT_LATER,
    WrongGoal.OTHER: Goals.OTHER,
    WrongGoal.OF_EPISODE: Goals.OF_OTHER_EPISODE,
    WrongGoal.OF_CUT: Goals.OF_CUT,
}


class GoalJudge(Judge):
    """Compares the goals of one batch."""

    def judge(self) -> None:
        self.tally.rows += self.size
        goal = column(self.batch, "desired_goal", self.size)
        if goal is None:
            raise NotApplicable("batches have no column desired_goal")
        relabelled = self.is_step & (goal != -self.e)
        e, t = np.divmod(goal, EPISODE)
        known = (e >= 1) & (t == np.floor(t)) & (t <= np.array(LENGTHS)[e.astype(int) % 7])
        wrong = WrongGoal.OF_CUT if self.run.stream.cuts else WrongGoal.OF_EPISODE
        kinds = {
            WrongGoal.OTHER: relabelled & ~known & (goal >= 0),
            wrong: relabelled & ((known & (e != self.e)) | (goal < 0)),
            WrongGoal.NOT_LATER: relabelled & known & (e == self.e) & (t < self.t),
        }
        for kind, rows in kinds.items():
            for k in np.flatnonzero(rows)[:1]:
                number, last = int(self.number[k]), int(EPISODE * self.e[k] + self.n[k])
                about = f"step {number} has the goal {goal[k]:g}, not one of {number} to {last} or {-self.e[k]}"
                script = partial(other_goal, self.run, number, last)
                self.tally.note(kind, self.run, int(rows.sum()), about, script)


def other_goal(run: StreamRun, number: int, last: int) -> list[str]:
    """Return lines that show that the row of this step has a goal of another episode, or an earlier one."""
    obs = f'np.asarray(x["obs"]).reshape({SIZE}, -1)[:, -1]'
    goals = f'np.asarray(x["desired_goal"]).reshape({SIZE}, -1)[:, 0]'
    right = f"g == {-(number // EPISODE)} or {number} <= g <= {last}"
    return [
        *fed(run),
        f"for x in {drawn()}:",
        f"    for o, g in zip({obs}, {goals}): assert o != {number} or {right}, (o, g)",
    ]


def goals(subject: Subject) -> dict[str, Seen]:
    """Compare goals with those of the stream, with environments and with cut episodes, too."""
    if not subject.functions.accepts("add", "desired_goal"):
        raise NotApplicable("add has no argument desired_goal")
    limits, accepts = tells_limits(subject), subject.functions.accepts
    streams = [(CAPACITY, Stream(limits=limits))]
    if accepts("add", "env"):
        streams.append((2 * CAPACITY, Stream(3, limits)))
    if subject.functions.has("cut"):
        streams.append((CAPACITY, Stream(cuts=True)))
    tally = Tally()
    for each, asked in plain_ways(subject):
        for capacity, stream in streams:
            with refusals(tally):
                observe(StreamRun(each, capacity, stream, asked), tally, POINTS, judge=GoalJudge)
    looked_at(tally)
    return {"goals": tally.seen(WORDS, Goals.OF_EPISODE)}


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {goals: ("goals",)}
CHECKS: Mapping[str, type[Behaviour]] = {"goals": Goals}
