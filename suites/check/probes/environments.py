"""Probes of several environments that add to one buffer, and of episodes that a program cuts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from adapters.behaviours import FAULT, HAZARD, Behaviour
from suites.check.functions import NotApplicable
from suites.check.probes.nstep import GAMMA, STEPS
from suites.check.probes.oracle import OF_ENVS, Tally, Wrong, observe
from suites.check.probes.probing import Seen
from suites.check.probes.stacks import FRAMES
from suites.check.probes.steps import CAPACITY, looked_at, refusals
from suites.check.probes.streams import Stream, StreamRun, plain_ways, tells_limits, ways_with
from suites.check.subject import Subject

ENVS, POINTS = 3, 240
SHARED = 46  # the capacity, which three environments may share


class KeptApart(Behaviour):
    """Whether rows have steps of one environment."""

    APART = "kept apart"
    ONLY_IN_TURN = "kept apart only if they step in turn", HAZARD
    OTHER = "wrong rows with several environments", FAULT
    MIXED = "mixes environments", FAULT


class CutEpisodes(Behaviour):
    """What becomes of an episode that the program cuts (`cut`)."""

    APART = "kept apart from the next"
    TERMINAL = "stored as terminal", FAULT
    WRONG = "wrong rows", FAULT
    JOINED = "joined with the next", FAULT


ANY = [each for each in Wrong if each not in (Wrong.NO_DISCOUNT, Wrong.BLANKED_OLD, Wrong.SHORT)]
JOINED = (Wrong.SUM_OF_EPISODES, Wrong.NEXT_OF_EPISODE, Wrong.STACK_OF_EPISODES, Wrong.STACK_OF_YOUNGER)


def every_way(subject: Subject) -> list[tuple[Subject, dict[str, Any]]]:
    """Return the ways of use whose rows can be compared, and what to ask `make` for."""
    found = plain_ways(subject)
    for option, value in (("n_step", STEPS), ("stack", FRAMES)):
        with suppress(NotApplicable):
            found += ways_with(subject, option, value, **({"gamma": GAMMA} if option == "n_step" else {}))
    found += [(each, {}) for each in subject.ways() if each.options.get("envs", 1) > 1]
    return [pair for k, pair in enumerate(found) if pair not in found[:k]]


def environments(subject: Subject) -> dict[str, Seen]:
    """Feed three environments that step in turn, and then irregularly."""
    tally, limits = Tally(), tells_limits(subject)
    for each, asked in every_way(subject):
        envs = int(each.options.get("envs", ENVS))
        with refusals(tally):
            observe(StreamRun(each, SHARED, Stream(envs, limits), asked), tally, POINTS)
    looked_at(tally)
    words = dict.fromkeys(ANY, KeptApart.OTHER) | dict.fromkeys(OF_ENVS, KeptApart.MIXED)
    seen = tally.seen(words, KeptApart.APART)
    if seen.word == KeptApart.APART:
        seen = _irregular(subject, limits) or seen
    return {"environments": seen}


def _irregular(subject: Subject, limits: bool) -> Seen | None:
    """Return what differs if environments do not step in turn, which a buffer may refuse."""
    tally = Tally()
    for each, asked in every_way(subject):
        if each.options.get("envs", ENVS) != ENVS:
            continue
        with refusals(tally), suppress(ValueError, RuntimeError, AssertionError, IndexError, KeyError):
            observe(StreamRun(each, SHARED, Stream(ENVS, limits, irregular=True), asked), tally, POINTS)
    seen = tally.seen(dict.fromkeys(ANY, KeptApart.ONLY_IN_TURN), KeptApart.APART)
    return seen if seen.word != KeptApart.APART else None


def cuts(subject: Subject) -> dict[str, Seen]:
    """Feed a stream of which every second episode is cut by the program."""
    subject.functions.require("cut")
    tally = Tally()
    for each, asked in every_way(subject):
        if each.options.get("envs", 1) == 1:
            with refusals(tally):
                observe(StreamRun(each, CAPACITY, Stream(cuts=True), asked), tally, POINTS)
    looked_at(tally)
    words = dict.fromkeys(ANY, CutEpisodes.WRONG) | dict.fromkeys(JOINED, CutEpisodes.JOINED)
    return {"cut_episodes": tally.seen(words | {Wrong.DONE_AT_LIMIT: CutEpisodes.TERMINAL}, CutEpisodes.APART)}


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {
    environments: ("environments",),
    cuts: ("cut_episodes",),
}
CHECKS: Mapping[str, type[Behaviour]] = {"environments": KeptApart, "cut_episodes": CutEpisodes}
