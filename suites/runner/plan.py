"""The order of launches: a fixed number of blocks, or as many as fit into a time budget.

A block contains every launch at most once, and ratios between peers are taken within a block. With a budget, the first
block launches every peer once, and then variants that were not requested; it shows what each launch costs. Before the
suites that measure once begin, the launches that decide a job are repeated until the job has a verdict, for at most the
share `DECIDING` of the remaining time; this is done first for the peers, then for their variants. Each later block
contains the launches that the question needs (`suites.runner.needs`). A launch measures only those of its jobs that it
decides or that lack samples.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from results.facts import Facts
from results.record import Record
from results.verdicts import ENOUGH
from suites.runner.costs import LaunchCosts
from suites.runner.needs import Groups, Needs, SuiteLaunches, times_launched
from suites.suite import Launch

#: The share of the time left that may be spent on verdicts before the suites that measure once begin.
DECIDING = 0.4
#: Each launch may take this share of the time for all launches; `PATIENCE` and `LONGER` can permit more.
SHARE = 0.08
#: Seconds that a first launch may take if there is still time for the first launches of other peers: servers and
#: compiled libraries start slowly.
PATIENCE = 45.0
#: A later launch may take this many times its usual duration.
LONGER = 1.5
#: Seconds that an average launch takes: 3 to 6 in benches of two to ten minutes, with and without other work on the
#: machine.
USUAL_SECONDS = 5.0
#: Number of peers that a job's answer compares: the fastest, the runner-up and the reference.
CONTENDERS = 3
LEFT_OUT = "left out because of the {minutes:g}-minute budget"
CUT_SHORT = "the {minutes:g}-minute budget allows {seconds:.0f} s for this launch, which was not enough"


Scheduled = tuple[int, Launch]


def fixed(parts: Sequence[SuiteLaunches]) -> Fixed:
    """Return a plan with all blocks of one part, then all blocks of the next part, without the records that are already
    measured."""
    schedule = [each for part in parts for each in in_blocks(part.launches, part.blocks)]
    return Fixed([(block, launch) for block, launch in schedule if launch.due(block)])


def in_blocks(launches: Sequence[Launch], blocks: int, seed: int = 0) -> list[Scheduled]:
    """Schedule every launch once per block, or only in the first `launch.blocks` blocks. The order is shuffled, and
    reversed in every other block (ABBA), so that a slow period or a hot machine affects all launches equally."""
    order, shuffler, schedule = list(launches), random.Random(seed), []
    for block in range(blocks):
        order = order[::-1] if block % 2 else shuffled(order, shuffler)
        schedule += [(block, launch) for launch in order if launch.blocks is None or block < launch.blocks]
    return schedule


def shuffled(launches: Sequence[Launch], shuffler: random.Random) -> list[Launch]:
    """Return the launches in a random order in which launches of the same job follow each other: a machine may become
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

    def __init__(self, schedule: Sequence[Scheduled]) -> None:
        self.schedule = list(schedule)
        self._left = list(schedule)
        self._costs = LaunchCosts()

    def __iter__(self) -> Iterator[Scheduled]:
        while self._left:
            yield self._left.pop(0)

    def records(self, launch: Launch, block: int) -> list[Record]:
        """Return the records that the launch is to measure."""
        return launch.due(block)

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

    def shortage(self) -> str:
        """Return "": without a budget, there is none that could be too small."""
        return ""


class Budgeted:
    """As many launches as can be completed before `deadline` (a time of `clock`, in seconds)."""

    def __init__(
        self,
        parts: Sequence[SuiteLaunches],
        minutes: float,
        deadline: float,
        clock: Callable[[], float] = time.monotonic,
        share: float = SHARE,
        facts: Mapping[str, Facts] | None = None,
    ) -> None:
        self.parts, self.facts = parts, facts
        self.minutes, self.deadline, self._clock = minutes, deadline, clock
        self._begin, self._costs, self._shuffler = clock(), LaunchCosts(), random.Random(0)
        self._share = share * (deadline - self._begin)
        self._needed: Mapping[Launch, Collection[object]] = {}  # the jobs that are measured in this block; empty: all

    def __iter__(self) -> Iterator[Scheduled]:
        """Yield the launches in the order that the module describes."""
        blocks = itertools.count(1)
        for is_variant in (False, True):
            yield from self._first(True, is_variant)
            if any(self._unmeasured(False, is_variant)):
                yield from self._again(blocks, self._clock() + DECIDING * self._left(), only_undecided=True)
                yield from self._first(False, is_variant)
        yield from self._again(blocks, self.deadline)

    def _first(self, repeated: bool, is_variant: bool) -> Iterator[Scheduled]:
        """Yield the first launches of the repeated parts or of the other parts. In the latter, short launches come
        first."""
        launches = list(self._unmeasured(repeated, is_variant))
        for launch in launches if repeated else sorted(launches, key=self._costs.of):
            if self._left() > 0:
                yield 0, launch

    def _unmeasured(self, repeated: bool, is_variant: bool) -> Iterator[Launch]:
        for part in self.parts:
            if part.repeated is repeated:
                for launch in shuffled(part.launches, self._shuffler):
                    if part.is_variant(launch.peer) is is_variant:
                        yield launch

    def _again(self, blocks: Iterator[int], until: float, only_undecided: bool = False) -> Iterator[Scheduled]:
        """Yield blocks of the launches that are needed, as long as they can end before `until`."""
        while True:
            needs = Needs(self.parts, self._costs, self.facts)
            groups = needs.verdicts() if only_undecided else needs.groups()
            chosen = shuffled(self._chosen(groups, needs, until - self._clock()), self._shuffler)
            if not chosen:
                return
            block, self._needed = next(blocks), needs.jobs(chosen, only_undecided)
            for launch in chosen:
                if self._costs.of(launch) <= until - self._clock():
                    yield block, launch

    def _chosen(self, groups: Groups, needs: Needs, left: float) -> list[Launch]:
        """Return the launches of the next block, in order of need, as many as the remaining seconds permit. Time is
        reserved for all further launches that the first ones need. Launches that are compared are chosen together,
        since ratios are taken within a block."""
        chosen: list[Launch] = []
        planned = 0.0
        for together in groups:
            group = [each for each in dict.fromkeys(together) if each not in chosen]
            if planned + sum(map(self._costs.of, group)) > left:
                continue
            planned += sum(self._costs.of(each) * needs.further_launches(each) for each in group)
            chosen += group
        return chosen

    def records(self, launch: Launch, block: int) -> list[Record]:
        """Return the records that the launch is to measure: in a repetition, only the jobs that need samples, if there
        are any."""
        due = launch.due(block)
        needed = self._needed.get(launch, ()) if block else ()
        of_needed = {id(launch.by_job[job]) for job in needed}
        return [record for record in due if id(record) in of_needed] or due

    def shortage(self) -> str:
        """Say roughly how long the answer will take if that exceeds the budget; otherwise return ""."""
        launches = [launch for part in self.parts for launch in part.launches if launch.open_records]
        again = CONTENDERS * (ENOUGH - 1) if any(part.repeated for part in self.parts) else 0
        needed, fit = len(launches) + again, int(self._left() / USUAL_SECONDS)
        if needed <= fit:
            return ""
        figures = sum(len(launch.open_records) for launch in launches)
        peers = len({launch.peer for launch in launches})
        minutes = math.ceil(self.minutes + (needed - fit) * USUAL_SECONDS / 60)
        return (
            f"{figures} figures of {peers} buffers and variants need about {minutes} minutes. The "
            f"{self.minutes:g}-minute budget holds about {fit} of {needed} launches. For a first verdict, "
            f"interrupt this run and use MINUTES={minutes}."
        )

    def _left(self) -> float:
        return self.deadline - self._clock()

    def ended(self, launch: Launch, seconds: float) -> None:
        self._costs.add(launch, seconds)

    @property
    def done(self) -> float:
        return min(1.0, (self._clock() - self._begin) / max(0.1, self.deadline - self._begin))

    def remaining(self) -> float | None:
        return max(0.0, self._left())

    def limit(self, launch: Launch, seconds: float) -> float:
        """Return the launch's limit in seconds: the larger of its share of the time and a multiple of its cost so far
        (or `PATIENCE` for a first launch), capped by the time left and `seconds`."""
        if times_launched(launch):
            patience = LONGER * self._costs.of(launch)
        else:
            patience = min(PATIENCE, self._left() - self._first_launches_seconds(other_than=launch))
        return max(1.0, min(seconds, self._left(), max(self._share, patience)))

    def _first_launches_seconds(self, other_than: Launch) -> float:
        """Return the estimated seconds of the other launches that have not been made yet. For a peer's launch, launches
        of variants are not included."""
        is_variant = any(other_than in part.launches and part.is_variant(other_than.peer) for part in self.parts)
        others = [
            each
            for part in self.parts
            for each in part.launches
            if each is not other_than and (is_variant or not part.is_variant(each.peer))
        ]
        return sum(
            self._costs.of(each) or USUAL_SECONDS for each in others if each.open_records and not times_launched(each)
        )

    def cut_short(self, launch: Launch, seconds: float) -> None:
        """Mark each pending record as left out: the launch was ended after `seconds` because of the budget, and another
        block would not get any further."""
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
