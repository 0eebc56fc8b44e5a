"""The order of launches: a fixed number of blocks, or as many as fit into a time budget.

A block contains every launch at most once, and ratios between peers are taken within a block. With a budget, the first
block measures everything once, which shows what each launch costs. Each later block contains the launches that need it
most: first those with too few samples for an interval, then those whose intervals are widest relative to their cost.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from adapters.registry import REFERENCES, is_ours
from results.record import Record
from suites.suite import Launch

#: A launch is not repeated for an interval this narrow (the log of its upper end over its lower end).
NARROW = 0.02
#: Launches needed for a usable interval; the budget is spent on these before anything is measured more often.
ENOUGH = 5
#: The largest share of the budget that one launch may take. A launch of our own peers may always take OUR_SECONDS: if
#: it were cut short, its faults would go unnoticed.
SHARE, OUR_SECONDS = 0.08, 60.0
LEFT_OUT = "left out because of the time budget of {minutes:g} minutes"
CUT_SHORT = "the time budget of {minutes:g} minutes allows {seconds:.0f} s per launch, which was not enough"


@dataclass(frozen=True)
class Part:
    """The launches of one suite."""

    launches: Sequence[Launch]
    blocks: int  # in a run without a budget
    repeated: bool = True  # False: measured once; a budget is not spent on repeating it


Next = tuple[int, Launch]


def fixed(parts: Sequence[Part]) -> Fixed:
    """Return a plan with all blocks of one part, then those of the next part."""
    return Fixed([each for part in parts for each in in_blocks(part.launches, part.blocks) if each[1].open_records])


def in_blocks(launches: Sequence[Launch], blocks: int, seed: int = 0) -> list[Next]:
    """Schedule every launch once per block, or only in the first `launch.blocks` blocks. The order is shuffled, and
    reversed in every other block (ABBA), so that a slow period or a hot machine affects all launches alike."""
    order, shuffler, schedule = list(launches), random.Random(seed), []
    for block in range(blocks):
        order = order[::-1] if block % 2 else shuffled(order, shuffler)
        schedule += [(block, launch) for launch in order if launch.blocks is None or block < launch.blocks]
    return schedule


def shuffled(launches: Sequence[Launch], shuffler: random.Random) -> list[Launch]:
    """Return the launches in a random order in which those of the same job follow each other: a machine may become
    slower within minutes, and a block takes up to half an hour."""
    by_job: dict[object, list[Launch]] = {}
    for launch in launches:
        by_job.setdefault(launch.first_job, []).append(launch)
    order = list(by_job.values())
    shuffler.shuffle(order)
    for same in order:
        shuffler.shuffle(same)
    return list(itertools.chain.from_iterable(order))


class Fixed:
    """A schedule that is known before the first launch."""

    def __init__(self, schedule: Sequence[Next]) -> None:
        self.schedule = list(schedule)
        self._left = list(schedule)
        self._costs = Costs()

    def __iter__(self) -> Iterator[Next]:
        while self._left:
            yield self._left.pop(0)

    def ended(self, launch: Launch, seconds: float) -> None:
        self._costs.add(launch, seconds)

    @property
    def done(self) -> float:
        """The finished share of the run, from 0 to 1."""
        return 1 - len(self._left) / max(1, len(self.schedule))

    def remaining(self) -> float | None:
        """Return the estimated seconds until the end, or None before the first launch has ended."""
        if not self._costs:
            return None
        return sum(self._costs.of(launch) for _, launch in self._left if launch.open_records)

    def limit(self, _launch: Launch, seconds: float) -> float:
        """Return how many seconds the launch may take, at most `seconds`."""
        return seconds

    def cut_short(self, _launch: Launch, _seconds: float) -> None:
        """Do nothing: without a budget, no launch is ended early."""

    def leave_out(self) -> None:
        """Do nothing: without a budget, no launch is left out."""


class Costs:
    """How long each launch takes, estimated by the mean of its durations so far."""

    def __init__(self) -> None:
        self._took: dict[str, list[float]] = {}

    def __bool__(self) -> bool:
        return bool(self._took)

    def add(self, launch: Launch, seconds: float) -> None:
        self._took.setdefault(launch.name, []).append(seconds)

    def of(self, launch: Launch) -> float:
        """Return the seconds. For a launch that has not run, the median of the others, as one slow peer would dominate
        a mean."""
        if launch.name in self._took:
            return sum(self._took[launch.name]) / len(self._took[launch.name])
        return median(sum(took) / len(took) for took in self._took.values()) if self._took else 0.0


class Budgeted:
    """As many launches as can be completed before `deadline` (a time of `clock`, in seconds)."""

    def __init__(
        self,
        parts: Sequence[Part],
        minutes: float,
        deadline: float,
        clock: Callable[[], float] = time.monotonic,
        share: float = SHARE,
    ) -> None:
        self.parts = parts
        self.minutes, self.deadline, self._clock = minutes, deadline, clock
        self._begin, self._costs, self._shuffler = clock(), Costs(), random.Random(0)
        self._share = share * (deadline - self._begin)

    def __iter__(self) -> Iterator[Next]:
        """Yield each launch once, part after part, then blocks of the launches that need it most."""
        for part in self.parts:
            for launch in shuffled(part.launches, self._shuffler):
                if self._left() > 0:
                    yield 0, launch
        for block in itertools.count(1):
            chosen = shuffled(self._choose(), self._shuffler)
            if not chosen:
                return
            for launch in chosen:
                if self._costs.of(launch) <= self._left():
                    yield block, launch

    def _left(self) -> float:
        return self.deadline - self._clock()

    def _choose(self) -> list[Launch]:
        """Return the launches of the next block, in order of need, as far as time permits. Time is reserved to launch
        the first ones `ENOUGH` times. A launch is chosen with its partners, since ratios are taken within a block."""
        chosen: list[Launch] = []
        planned, left = 0.0, self._left()
        for launch in self._by_need():
            group = [each for each in (launch, *self._partners(launch)) if each not in chosen]
            if planned + sum(map(self._costs.of, group)) > left:
                continue
            planned += sum(self._costs.of(each) * max(1, ENOUGH - launches_of(each)) for each in group)
            chosen += group
        return chosen

    def _by_need(self) -> list[Launch]:
        """Return first the launches that ran fewer than `ENOUGH` times, with cheap ones of early parts at the front,
        then those whose intervals are widest relative to their cost."""
        open_ = [
            (number, launch)
            for number, part in enumerate(self.parts, start=1)
            if part.repeated
            for launch in part.launches
            if launch.open_records
        ]
        few = [(number * self._costs.of(each), each) for number, each in open_ if launches_of(each) < ENOUGH]
        wide = [
            (self._costs.of(each) / gain(each), each) for _, each in open_ if launches_of(each) >= ENOUGH and gain(each)
        ]
        return [launch for part in (few, wide) for _, launch in sorted(part, key=lambda pair: pair[0])]

    def _partners(self, launch: Launch) -> list[Launch]:
        """Return the launches of the reference peers that measure the same jobs or, for a launch of a reference peer,
        the cheapest launch of another peer."""
        same = [
            each
            for part in self.parts
            for each in part.launches
            if each is not launch and each.open_records and each.jobs & launch.jobs
        ]
        if launch.peer in REFERENCES:
            return sorted((each for each in same if each.peer not in REFERENCES), key=self._costs.of)[:1]
        return [each for each in same if each.peer in REFERENCES]

    def ended(self, launch: Launch, seconds: float) -> None:
        self._costs.add(launch, seconds)

    @property
    def done(self) -> float:
        return min(1.0, (self._clock() - self._begin) / max(0.1, self.deadline - self._begin))

    def remaining(self) -> float | None:
        return max(0.0, self._left())

    def limit(self, launch: Launch, seconds: float) -> float:
        share = max(self._share, OUR_SECONDS) if is_ours(launch.peer) else self._share
        return max(1.0, min(seconds, self._left(), share))

    def cut_short(self, launch: Launch, seconds: float) -> None:
        """Mark each pending record of a launch that the budget ended after `seconds` as left out: another block would
        not get any further."""
        for record in launch.records:
            if record.pending:
                record.fail("left_out", CUT_SHORT.format(minutes=self.minutes, seconds=seconds))

    def leave_out(self) -> None:
        """Mark each pending record as left out because of the budget."""
        for part in self.parts:
            for launch in part.launches:
                for record in launch.records:
                    if record.pending:
                        record.fail("left_out", LEFT_OUT.format(minutes=self.minutes))


def launches_of(launch: Launch) -> int:
    """Return how often it has been launched: the smallest number of samples among its open records."""
    return min((len(record.samples) for record in launch.open_records), default=0)


def gain(launch: Launch) -> float:
    """Return the average width of its cells' intervals; an interval narrower than `NARROW` counts as 0."""
    widths = [width(record) for record in launch.open_records]
    return sum(wide for wide in widths if wide > NARROW) / len(widths)


def width(record: Record) -> float:
    """Return the approximate width of the 95% interval of the median over launches, as log(high/low): 2 x 1.57
    IQR/sqrt(n), the notch of a box plot (McGill, Tukey and Larsen 1978), which is cheap to compute for every cell after
    every block. It is 0 if a sample is 0: no ratio to it exists, and more samples would not change that."""
    if not all(sample.value for sample in record.samples):
        return 0.0
    logs = [math.log(sample.value) for sample in record.samples]
    low, high = np.percentile(logs, [25, 75])
    return 2 * 1.57 * float(high - low) / math.sqrt(len(logs))
