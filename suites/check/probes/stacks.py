"""Probes of stacked frames: which frames a stack has, what precedes an episode's first, and the next stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adapters.behaviours import FAULT, HAZARD, Behaviour
from suites.check.probes.oracle import Tally, Wrong, observe
from suites.check.probes.probing import Seen
from suites.check.probes.steps import CAPACITY, LARGE, POINTS, EndsTally, EpisodeEnds, looked_at, refusals
from suites.check.probes.streams import Stream, StreamRun, tells_limits, ways_with
from suites.check.subject import Subject

FRAMES = 4


class StackedFrames(Behaviour):
    """Which frames the stack of a step has."""

    OF_EPISODE = "of its episode"
    BLANKED_OLD = "misses frames at the oldest rows", HAZARD
    BLANKED = "misses frames of its episode", FAULT
    OTHER = "not consecutive", FAULT
    NO_STEP = "rows that are no steps", FAULT
    OF_YOUNGER = "has frames of younger steps", FAULT
    OF_ENVS = "mixes environments", FAULT
    OF_EPISODES = "mixes episodes", FAULT


class StackPadding(Behaviour):
    """What precedes the first frame of an episode."""

    FIRST_OR_EMPTY = "the first frame or empty ones"
    OTHER = "other frames", FAULT


class NextStack(Behaviour):
    """The next stack, which a row with `done` need not have."""

    SHIFTED = "shifted by one"
    OTHER_FRAMES = "other frames before the newest", FAULT
    OTHER = "of another step", FAULT
    OF_EPISODE = "of the next episode", FAULT


class StackFields(Behaviour):
    """Whether the other fields belong to the step of the newest frame."""

    OF_STEP = "of the newest frame's step"
    MIXED = "of another step", FAULT
    WITHIN = "done within episodes", FAULT
    AT_LIMIT = "time limits stored as terminal", FAULT
    MISSED = "terminal steps without done", FAULT


FOUND = {
    Wrong.BLANKED_OLD: StackedFrames.BLANKED_OLD,
    Wrong.BLANKED: StackedFrames.BLANKED,
    Wrong.STACK: StackedFrames.OTHER,
    Wrong.NO_STEP: StackedFrames.NO_STEP,
    Wrong.STACK_OF_YOUNGER: StackedFrames.OF_YOUNGER,
    Wrong.STACK_OF_ENVS: StackedFrames.OF_ENVS,
    Wrong.STACK_OF_EPISODES: StackedFrames.OF_EPISODES,
}
NEXT = {
    Wrong.NEXT_STACK: NextStack.OTHER_FRAMES,
    Wrong.NEXT: NextStack.OTHER,
    Wrong.NEXT_OF_EPISODE: NextStack.OF_EPISODE,
    Wrong.NEXT_OF_ENV: NextStack.OF_EPISODE,
}
FIELDS = {
    Wrong.FIELD: StackFields.MIXED,
    Wrong.DONE_WITHIN: StackFields.WITHIN,
    Wrong.DONE_AT_LIMIT: StackFields.AT_LIMIT,
    Wrong.DONE_MISSED: StackFields.MISSED,
}


def frames(subject: Subject) -> dict[str, Seen]:
    """Compare rows of stacked frames with the stream, after each step."""
    tally, ends, limits = Tally(), EndsTally(), tells_limits(subject)
    for each, asked in ways_with(subject, "stack", FRAMES):
        with refusals(tally):
            observe(StreamRun(each, CAPACITY, Stream(limits=limits), asked), tally, POINTS)
            ends.draw(StreamRun(each, LARGE, Stream(limits=limits), asked))
    looked_at(tally)
    return {
        "stack_frames": tally.seen(FOUND, StackedFrames.OF_EPISODE),
        "stack_padding": tally.seen({Wrong.PADDING: StackPadding.OTHER}, StackPadding.FIRST_OR_EMPTY),
        "stack_next": tally.seen(NEXT, NextStack.SHIFTED),
        "stack_fields": tally.seen(FIELDS, StackFields.OF_STEP),
        "stack_ends": ends.seen(
            EpisodeEnds.DRAWN,
            last=EpisodeEnds.NEVER_LAST,
            first=EpisodeEnds.NEVER_FIRST,
            limit=EpisodeEnds.NEVER_LIMIT,
        ),
    }


PROBES: Mapping[Callable[[Subject], dict[str, Seen]], tuple[str, ...]] = {
    frames: ("stack_frames", "stack_padding", "stack_next", "stack_fields", "stack_ends"),
}
CHECKS: Mapping[str, type[Behaviour]] = {
    "stack_frames": StackedFrames,
    "stack_padding": StackPadding,
    "stack_next": NextStack,
    "stack_fields": StackFields,
    "stack_ends": EpisodeEnds,
}
