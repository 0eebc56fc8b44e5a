"""Probes of n-step returns: what a row sums, where its window ends, and what it bootstraps from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adapters.behaviours import FAULT, HAZARD, Behaviour
from suites.check.probes.oracle import Tally, Wrong, observe
from suites.check.probes.probing import Seen
from suites.check.probes.steps import CAPACITY, LARGE, POINTS, EndsTally, looked_at, refusals
from suites.check.probes.streams import Stream, StreamRun, tells_limits, ways_with
from suites.check.subject import Subject

STEPS, GAMMA = 3, 0.9


class NStepRewards(Behaviour):
    """Which rewards a row sums."""

    OF_WINDOW = "of its window"
    SHORT = "stops within an episode", HAZARD
    OTHER = "another sum", FAULT
    NO_STEP = "rows that are no steps", FAULT
    OVER_NEWEST = "mixes the newest and the oldest steps", FAULT
    OF_EPISODES = "mixes episodes", FAULT
    OF_ENVS = "mixes environments", FAULT


class NStepNext(Behaviour):
    """The next observation of a row, which a row with `done` need not have."""

    AFTER_WINDOW = "after its window"
    OTHER = "of another step", FAULT
    OF_EPISODE = "of another episode", FAULT


class NStepBootstrap(Behaviour):
    """Whether the value of the next observation is added."""

    UNLESS_TERMINAL = "unless the window is terminal"
    WITHIN = "not within episodes", FAULT
    NOT_AT_LIMITS = "not at time limits", FAULT
    AT_TERMINAL = "at terminal steps", FAULT


class NStepDiscount(Behaviour):
    """The factor of that value."""

    OF_WINDOW = "of the window's length"
    NONE = "none for shorter windows", HAZARD
    OTHER = "another", FAULT


class NStepEnds(Behaviour):
    """Whether windows begin at each step up to the last of an episode."""

    DRAWN = "drawn"
    NEVER_LIMIT = "time limits are never drawn", HAZARD
    NEVER_LAST = "last steps are never drawn", HAZARD
    NEVER_FIRST = "first steps are never drawn", FAULT


REWARDS = {
    Wrong.SHORT: NStepRewards.SHORT,
    Wrong.SUM: NStepRewards.OTHER,
    Wrong.FIELD: NStepRewards.OTHER,
    Wrong.NO_STEP: NStepRewards.NO_STEP,
    Wrong.SUM_OVER_NEWEST: NStepRewards.OVER_NEWEST,
    Wrong.SUM_OF_EPISODES: NStepRewards.OF_EPISODES,
    Wrong.SUM_OF_ENVS: NStepRewards.OF_ENVS,
}
NEXT = {
    Wrong.NEXT: NStepNext.OTHER,
    Wrong.NEXT_OF_EPISODE: NStepNext.OF_EPISODE,
    Wrong.NEXT_OF_ENV: NStepNext.OF_EPISODE,
}
BOOTSTRAP = {
    Wrong.DONE_WITHIN: NStepBootstrap.WITHIN,
    Wrong.DONE_AT_LIMIT: NStepBootstrap.NOT_AT_LIMITS,
    Wrong.DONE_MISSED: NStepBootstrap.AT_TERMINAL,
}
DISCOUNT = {Wrong.NO_DISCOUNT: NStepDiscount.NONE, Wrong.DISCOUNT: NStepDiscount.OTHER}


def returns(subject: Subject) -> dict[str, Seen]:
    """Compare rows of n steps with the stream, after each step."""
    tally, ends, limits = Tally(), EndsTally(), tells_limits(subject)
    for each, asked in ways_with(subject, "n_step", STEPS, gamma=GAMMA):
        with refusals(tally):
            observe(StreamRun(each, CAPACITY, Stream(limits=limits), asked), tally, POINTS)
            ends.draw(StreamRun(each, LARGE, Stream(limits=limits), asked))
    looked_at(tally)
    found = {
        "n_step_rewards": tally.seen(REWARDS, NStepRewards.OF_WINDOW),
        "n_step_discount": tally.seen(DISCOUNT, NStepDiscount.OF_WINDOW),
        "n_step_ends": ends.seen(
            NStepEnds.DRAWN,
            first=NStepEnds.NEVER_FIRST,
            last=NStepEnds.NEVER_LAST,
            limit=NStepEnds.NEVER_LIMIT,
        ),
    }
    if "next_obs" in tally.columns:
        found["n_step_next"] = tally.seen(NEXT, NStepNext.AFTER_WINDOW)
    if "done" in tally.columns:
        found["n_step_bootstrap"] = tally.seen(BOOTSTRAP, NStepBootstrap.UNLESS_TERMINAL)
    return found


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {
    returns: ("n_step_rewards", "n_step_next", "n_step_bootstrap", "n_step_discount", "n_step_ends"),
}
CHECKS: Mapping[str, type[Behaviour]] = {
    "n_step_rewards": NStepRewards,
    "n_step_next": NStepNext,
    "n_step_bootstrap": NStepBootstrap,
    "n_step_discount": NStepDiscount,
    "n_step_ends": NStepEnds,
}
