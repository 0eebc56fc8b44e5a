"""Trainings: which reached their target, and, inside another library's learner, which have identical results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from reports.figures.ratios import Ratio, figure_of, ratio_of
from results import Record
from results.analysis.pairs import by_block
from results.jobs import Job, fastest_first
from results.words import counted

SCORE, WEIGHTS, SOLVED, NEEDED = "score", "weights", "solved", "needed"
STEPS, RELATIVE_SPEED = "steps", "relative_speed"


@dataclass(frozen=True)
class Trainings:
    """Trainings of one task, of which some may have reached its target."""

    target: float | None
    jobs: Mapping[str, Job]  # by benchmark, without the scores
    scores: Mapping[int, Job]  # by step, or by second
    reference: str | None  # the buffer to which others are compared

    @cached_property
    def solved(self) -> dict[str, dict[int, bool]]:
        """Peer -> block -> whether that training reached the target, for the peers of which this is known."""
        shown = self.jobs[SOLVED].shown if SOLVED in self.jobs else {}
        return {peer: {block: value > 0 for block, value in by_block(each).items()} for peer, each in shown.items()}

    def is_complete(self, peer: str) -> bool:
        return all(self.solved.get(peer, {0: False}).values())

    def count(self, peer: str) -> str:
        """Return how many trainings reached the target, such as "4 of 5"."""
        outcomes = self.solved[peer].values()
        return f"{sum(outcomes)} of {len(outcomes)}"

    def reached(self, name: str) -> Job:
        """Return the job with only the trainings that reached the target; the others give lower bounds."""
        job = self.jobs[name]
        cells = {
            peer: replace(record, samples=samples)
            for peer, record in job.shown.items()
            if (samples := [each for each in record.samples if self.solved.get(peer, {}).get(each.block)])
        }
        return replace(job, cells=cells)

    def fastest(self, name: str) -> str | None:
        """Return the best of the peers whose every training reached the target."""
        complete = [record for peer, record in self.reached(name).measured.items() if self.is_complete(peer)]
        return fastest_first(complete)[0].peer if complete else None


@dataclass(frozen=True)
class Task(Trainings):
    """The trainings of one algorithm on one environment, inside another library's learner."""

    name: str
    steps: int
    episodes: int  # whose mean return is a score

    @property
    def title(self) -> str:
        until = "" if self.target is None else f", target {self.target:g}"
        score = f", score over {counted(self.episodes, 'episode')}" if self.scores else ""
        return f"{self.name}, {self.steps:,} steps{score}{until}"

    @property
    def final(self) -> Job | None:
        """The scores at the end."""
        return self.scores[max(self.scores)] if self.scores else None

    @cached_property
    def speeds(self) -> dict[str, Ratio]:
        """The speed of the whole training relative to the reference's: from trainings that took turns, or, without
        those, from trainings that followed each other."""
        job = self.jobs.get(RELATIVE_SPEED)
        if job is None or not job.shown:
            return ratios_of(self.jobs.get(STEPS), self.reference)
        return {peer: Ratio(figure_of(record)) for peer, record in job.shown.items() if peer != self.reference}

    @cached_property
    def control(self) -> Ratio | None:
        """The relative speed of the reference, in turns with itself: the error of the method."""
        job = self.jobs.get(RELATIVE_SPEED)
        record = job.shown.get(self.reference or "") if job else None
        return Ratio(figure_of(record)) if record else None

    @cached_property
    def twins(self) -> dict[str, list[int]]:
        """Peers that draw the reference's rows -> the seeds with which their trainings differ from the reference's."""
        job = self.jobs.get(WEIGHTS)
        if job is None or self.reference not in job.shown:
            return {}
        compared = [job, *self.scores.values()]
        return {
            peer: sorted(
                {
                    block
                    for each in compared
                    if peer in each.shown and self.reference in each.shown
                    for block in _differing(each.shown[peer], each.shown[self.reference])
                }
            )
            for peer in job.shown
            if peer != self.reference
        }


def _differing(record: Record, reference: Record) -> list[int]:
    mine, theirs = by_block(record), by_block(reference)
    return [block for block in mine.keys() & theirs.keys() if mine[block] != theirs[block]]


def tasks_of(jobs: Sequence[Job], reference: str | None) -> list[Task]:
    """Return the tasks of which these jobs of the learners suite have a figure."""
    found: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        found.setdefault((job.workload, str(job.params["task"])), []).append(job)
    return [_task(name, jobs, reference) for (_, name), jobs in found.items() if any(job.shown for job in jobs)]


def _task(name: str, jobs: Sequence[Job], reference: str | None) -> Task:
    # Trainings that take turns are shorter: the longest is the one that is described.
    params = max((job.params for job in jobs), key=lambda params: int(str(params["steps"])))
    return Task(
        name=name,
        steps=int(str(params["steps"])),
        episodes=int(str(params["episodes"])),
        target=float(str(params["target"])) if "target" in params else None,
        jobs={job.benchmark: job for job in jobs if job.benchmark != SCORE},
        scores={int(str(job.params["step"])): job for job in jobs if job.benchmark == SCORE},
        reference=reference,
    )


def ratios_of(job: Job | None, reference: str | None) -> dict[str, Ratio]:
    """Return the ratio of each other peer to the reference."""
    if job is None or reference not in job.shown:
        return {}
    found = {peer: ratio_of(record, job.shown[reference]) for peer, record in job.shown.items()}
    return {peer: ratio for peer, ratio in found.items() if ratio is not None}
