"""The launches that the next block of a run with a time budget needs, most urgent first.

For each job, the fastest peer, possible runners-up and the reference come first, until they clearly differ. They are
followed by all other peers with too few launches for an interval, except peers that are far behind. Jobs that many
blocks could not decide, and launches whose intervals are widest relative to their cost, come last. Suites that do not
rank buffers wait for those that do, but not for jobs that many blocks could not decide.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from adapters.registry import REFERENCES
from results.facts import Facts
from results.record import Record
from results.statistics import figure
from results.verdicts import ENOUGH, library_of
from suites.runner.contests import FEW, Contest, contests_of
from suites.runner.costs import LaunchCosts
from suites.suite import Launch

#: A launch is not repeated for an interval this narrow (the log of its upper end over its lower end).
NARROW = 0.02

Groups = Iterator[list[Launch]]  # each contains launches that are compared


@dataclass(frozen=True)
class SuiteLaunches:
    """The launches of one suite."""

    launches: Sequence[Launch]
    blocks: int  # in a run without a budget
    repeated: bool = True  # False: measured once; a budget is not spent on repeating it
    named: Collection[str] = ()  # peers that were asked for by name
    compared: Collection[str] | None = None  # the benchmarks that compare buffers (`Suite.compared`); None: all
    ranks: bool = True  # False: its ratios do not rank buffers, and it waits for the verdicts of other suites

    def is_variant(self, peer: str) -> bool:
        """Return whether the peer is a variant of another measured peer and was not itself requested."""
        return (
            peer not in self.named
            and library_of(peer) != peer
            and any(each.peer == library_of(peer) for each in self.launches)
        )


class Needs:
    """The current needs: a snapshot that is created anew for each block."""

    def __init__(
        self, parts: Sequence[SuiteLaunches], costs: LaunchCosts, facts: Mapping[str, Facts] | None = None
    ) -> None:
        self._parts, self._costs, self._facts = parts, costs, facts
        repeated = {
            launch: number
            for number, part in enumerate(parts, start=1)
            if part.repeated
            for launch in part.launches
            if launch.open_records
        }
        self._part_number = {each: number for each, number in repeated.items() if parts[number - 1].ranks}
        self._contests = self._contests_of(self._part_number)
        if not any(contest.undecided and not contest.is_long for contest in self._contests):
            self._part_number, self._contests = repeated, self._contests_of(repeated)

    def _contests_of(self, part_number: Mapping[Launch, int]) -> list[Contest]:
        compared = {launch: self._parts[number - 1].compared for launch, number in part_number.items()}
        return contests_of(compared, self._facts)

    def verdicts(self) -> Groups:
        """Yield the groups of launches that decide a job, except jobs that are without a verdict after many
        repetitions."""
        yield from self._deciding([each for each in self._contests if each.undecided and not each.is_long])

    def groups(self) -> Groups:
        """Yield groups of launches that are compared, in the order that the module describes."""
        near = dict.fromkeys(launch for contest in self._contests for launch in contest.near())
        few = [each for each in self._part_number if times_launched(each) < (ENOUGH if each in near else FEW)]
        wide = [each for each in near if each not in few and average_width(each)]
        yield from self.verdicts()
        for launch in sorted(few, key=lambda each: (each not in near, self._part_number[each] * self._costs.of(each))):
            yield [launch, *self._partners(launch)]
        yield from self._deciding([contest for contest in self._contests if contest.is_long])
        for launch in sorted(wide, key=lambda each: self._costs.of(each) / average_width(each)):
            yield [launch, *self._partners(launch)]

    def further_launches(self, launch: Launch) -> int:
        """Return how many further launches this one needs, at least one."""
        samples = [contest.samples for contest in self._contests if launch in contest.undecided]
        return max(1, ENOUGH - min(samples, default=times_launched(launch)))

    def jobs(self, chosen: Sequence[Launch], only_undecided: bool) -> Mapping[Launch, set[object]]:
        """Return the jobs that each of these launches is to measure: the jobs that it decides and, unless
        `only_undecided`, the jobs with too few samples in any of the launches. A launch that would have none measures
        all of its jobs. A reference measures the same jobs as the others.
        """
        needed: dict[Launch, set[object]] = {launch: set() for launch in chosen}
        for contest in self._contests:
            for launch in needed.keys() & set(contest.undecided):
                needed[launch].add(contest.job)
        if not only_undecided:
            few = {job for launch in chosen for job, record in launch.by_job.items() if _has_few_samples(record)}
            for launch in chosen:
                needed[launch] |= few & launch.by_job.keys()
                if launch.peer not in REFERENCES and not needed[launch]:  # its intervals are wide
                    needed[launch] |= launch.by_job.keys()
        together = set().union(*needed.values())
        for launch in chosen:
            if launch.peer in REFERENCES or not needed[launch]:
                needed[launch] |= together & launch.by_job.keys()
        return needed

    def _deciding(self, contests: Sequence[Contest]) -> Groups:
        """Yield the launches that decide these jobs. Launches with too few samples come first, then important suites,
        and within a suite launches that decide many jobs per second."""
        by_launches: dict[tuple[Launch, ...], list[Contest]] = defaultdict(list)
        for contest in contests:
            by_launches[tuple(contest.undecided)].append(contest)

        def early(group: tuple[Launch, ...]) -> tuple[bool, int, float]:
            jobs = by_launches[group]
            is_enough = all(contest.samples >= ENOUGH for contest in jobs)
            return is_enough, self._part_number[group[0]], sum(map(self._costs.of, group)) / len(jobs)

        for group in sorted(by_launches, key=early):
            yield [*group, *self._partners(group[0])]

    def _partners(self, launch: Launch) -> list[Launch]:
        """Return the launches of the reference peers that measure the same jobs or, for a launch of a reference peer,
        the cheapest launch that is compared with it."""
        same = [
            each
            for part in self._parts
            for each in part.launches
            if each is not launch and each.open_records and each.by_job.keys() & launch.by_job.keys()
        ]
        if launch.peer in REFERENCES:
            others = (each for each in same if each.peer not in REFERENCES or each.peer == launch.peer)
            return sorted(others, key=self._costs.of)[:1]
        return [each for each in same if each.peer in REFERENCES]


def _has_few_samples(record: Record) -> bool:
    return (record.ok or record.pending) and len(record.samples) < ENOUGH


def times_launched(launch: Launch) -> int:
    """Return how often the launch has been made: the smallest number of samples among its open records."""
    return min((len(record.samples) for record in launch.open_records), default=0)


def average_width(launch: Launch) -> float:
    """Return the average width of the intervals of the launch's cells; an interval narrower than `NARROW` counts as
    0."""
    widths = [width(record) for record in launch.open_records]
    return sum(wide for wide in widths if wide > NARROW) / len(widths)


def width(record: Record) -> float:
    """Return the width of the interval of the median over launches, as log(high/low). It is 0 if a sample is 0, since
    ratios to it do not exist and more samples would not change that."""
    if not all(sample.value for sample in record.samples):
        return 0.0
    found = figure([sample.value for sample in record.samples])
    return math.log(found.high / found.low)
