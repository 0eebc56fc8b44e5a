"""Training runs: which of them reached their target and, inside another library's learner, which have identical
results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from reports.figures.ratios import Ratio, ratio_of
from results import Record
from results.analysis.pairs import by_block
from results.jobs import Job
from results.statistics import speed_up

SCORE, WEIGHTS, SOLVED, RELATIVE_SPEED = "score", "weights", "solved", "relative_speed"
#: suite -> the cost of reaching the target
NEEDED: Mapping[str, Sequence[str]] = {
    "solve_time": ("seconds", "transitions", "steps"),
    "paired_training": ("needed",),
}


@dataclass(frozen=True)
class ComparedTask:
    """The training runs of one algorithm on one environment."""

    suite: str
    name: str
    target: float | None
    jobs: Mapping[str, Job]  # by benchmark, without the scores
    scores: Mapping[int, Job]  # by step of the environment, or by second
    reference: str | None  # the buffer to which others are compared
    steps: int = 0  # of a training run; 0: until the target is reached
    episodes: int = 0  # whose mean return is a score; 0: all episodes that end within a second

    @cached_property
    def solved(self) -> dict[str, dict[int, bool]]:
        """Peer -> block -> whether that training reached the target, for the peers for which this is known."""
        shown = self.jobs[SOLVED].shown if SOLVED in self.jobs else {}
        return {peer: {block: value > 0 for block, value in by_block(each).items()} for peer, each in shown.items()}

    def count(self, peer: str) -> str:
        """Return how many training runs reached the target, such as "4 of 5"; "" if that is not known."""
        outcomes = self.solved.get(peer, {}).values()
        return f"{sum(outcomes)} of {len(outcomes)}" if outcomes else ""

    def reached(self, name: str) -> Job:
        """Return the job with only the training runs that reached the target; the others give lower bounds."""
        job = self.jobs[name]
        cells = {
            peer: replace(record, samples=samples)
            for peer, record in job.shown.items()
            if (samples := [each for each in record.samples if self.solved.get(peer, {}).get(each.block)])
        }
        return replace(job, cells=cells)

    def ratio(self, name: str, peer: str) -> Ratio | None:
        """Return the ratio to the reference. The cost of reaching the target is compared over the seeds with which both
        reached it; the ratio is a lower bound if the reference never did."""
        job, against = self.jobs[name], self.jobs[name].shown.get(self.reference or "")
        if peer == self.reference or against is None:
            return None
        if name not in NEEDED[self.suite]:
            return ratio_of(job.shown.get(peer), against)
        reached = self.reached(name).cells
        if peer not in reached or self.reference not in self.solved:
            return None
        if self.reference in reached:
            return ratio_of(reached[peer], reached[self.reference])
        found = speed_up(reached[peer], against)
        return Ratio(found, is_bound=True) if found else None

    @property
    def final(self) -> Job | None:
        """The last scores."""
        return self.scores[max(self.scores)] if self.scores else None

    @cached_property
    def twins(self) -> dict[str, list[int]]:
        """Peer that draws the reference's rows -> the seeds with which its results differ from the reference's."""
        job = self.jobs.get(WEIGHTS)
        if job is None or self.reference not in job.shown:
            return {}
        compared = [each for each in (job, *self.scores.values()) if self.reference in each.shown]
        return {
            peer: sorted(
                {
                    block
                    for each in compared
                    if peer in each.shown
                    for block in _differing(each.shown[peer], each.shown[self.reference])
                }
            )
            for peer in job.shown
            if peer != self.reference
        }


def _differing(record: Record, reference: Record) -> list[int]:
    mine, theirs = by_block(record), by_block(reference)
    return [block for block in mine.keys() & theirs.keys() if mine[block] != theirs[block]]


def tasks_of(jobs: Sequence[Job], reference: str | None) -> list[ComparedTask]:
    """Return the tasks for which these jobs of one suite have a figure."""
    found: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        found.setdefault((job.workload, str(job.params.get("task", job.workload))), []).append(job)
    return [_task(name, jobs, reference) for (_, name), jobs in found.items() if any(job.shown for job in jobs)]


def _task(name: str, jobs: Sequence[Job], reference: str | None) -> ComparedTask:
    # Training runs that take turns are shorter, so the longest run is described.
    params = max((job.params for job in jobs), key=lambda params: int(str(params.get("steps", 0))))
    return ComparedTask(
        suite=jobs[0].suite,
        name=name,
        target=float(str(params["target"])) if "target" in params else None,
        jobs={job.benchmark: job for job in jobs if job.benchmark != SCORE},
        scores={_moment(job): job for job in jobs if job.benchmark == SCORE},
        reference=reference,
        steps=int(str(params.get("steps", 0))),
        episodes=int(str(params.get("episodes", 0))),
    )


def _moment(score: Job) -> int:
    return int(str(score.params.get("step", score.params.get("second"))))
