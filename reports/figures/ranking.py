"""Which peer is fastest at each job, by what factor and how certainly."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from reports.figures.ratios import Ratio, figure_of, ratio_of
from results import Record, Run
from results.jobs import Job, fastest_first
from results.statistics import Figure, speed_ups
from results.verdicts import ENOUGH, MATTERS, library_of, rivals

WITHIN = f"within {MATTERS - 1:.0%}"


@dataclass(frozen=True)
class Answer:
    """The fastest peer at one job, among all peers or among those that copy what they add, and its best rival: the
    fastest peer of another library, if there is one."""

    job: Job
    among_copying: bool  # peers that keep references to the caller's arrays were excluded
    winner: str | None
    figure: Figure | None = None
    over_reference: Ratio | None = None  # None if the winner is the reference or there is no reference
    reference: str | None = None
    runner_up: str | None = None
    runner_up_figure: Figure | None = None
    over_runner_up: Ratio | None = None
    blocks_won: tuple[int, int] | None = None  # against the runner-up: (blocks won, blocks in common)
    keeps_references: bool = False

    @property
    def clear(self) -> bool:
        return self.over_runner_up is not None and self.over_runner_up.clearly_faster

    @property
    def is_equal(self) -> bool:
        """Whether there are enough launches, and the whole interval lies between 1/MATTERS and MATTERS: the two peers
        differ by less than code placement can cause."""
        ratio = self.over_runner_up
        return self._has_enough and ratio.figure.low > 1 / MATTERS and ratio.figure.high < MATTERS

    @property
    def likely(self) -> bool:
        """Whether the difference is neither clear nor equal despite enough launches, but the whole interval is above
        1."""
        return self._has_enough and not (self.clear or self.is_equal) and self.over_runner_up.figure.low > 1

    @property
    def is_close(self) -> bool:
        """Whether the difference is neither clear nor likely despite enough launches, or the medians are in a different
        order from the ratios within blocks."""
        ratio = self.over_runner_up
        could_tell = ratio is not None and (self._has_enough or ratio.value <= 1)
        return could_tell and not (self.clear or self.likely)

    @property
    def _has_enough(self) -> bool:
        return self.over_runner_up is not None and self.over_runner_up.figure.launches >= ENOUGH

    @property
    def over_another_library(self) -> Ratio | None:
        """The ratio to the runner-up, unless no other library was measured."""
        is_variant = library_of(self.runner_up or "") == library_of(self.winner or "")
        return None if is_variant else self.over_runner_up

    @property
    def is_open(self) -> bool:
        """Whether a rival was measured, and more launches could tell which of the two is faster."""
        return self.runner_up is not None and not (self.clear or self.likely or self.is_equal)

    @property
    def how_close(self) -> str:
        """The words of the table if `is_close`."""
        return WITHIN if self.is_equal else "too close to call"

    @property
    def sureness(self) -> str:
        """The certainty in words, for the table's last column."""
        if self.winner is None:
            return "no peer was measured"
        if self.runner_up is None:
            return "no rival measured"
        if self.over_runner_up is None or self.blocks_won is None:
            return "no block in common"
        if not (self._has_enough or self.is_close):
            return f"too few launches ({self.over_runner_up.figure.launches})"
        won, blocks = self.blocks_won
        word = "clear" if self.clear else "likely" if self.likely else self.how_close
        return f"{word} ({won} of {blocks} blocks)"


def answers_of(run: Run, jobs: Sequence[Job], reference: str | None) -> list[Answer]:
    """Return one answer per job, or two if the fastest add keeps references instead of copying."""
    answers = []
    for job in jobs:
        careless = careless_peers(run, job)
        records = fastest_first(list(job.measured.values()))
        first = _answer(job, records, reference, careless, records)
        answers.append(first)
        if first.keeps_references:
            copying = [record for record in records if record.peer not in careless]
            answers.append(_answer(job, copying, reference, set(), copying, among_copying=True))
    return answers


def careless_peers(run: Run, job: Job) -> set[str]:
    """Return the measured peers that keep references to the caller's arrays."""
    return {name for name in job.measured if run.peer(name).known.keeps(job.benchmark, job.params)}


def answer_among(job: Job, peers: Collection[str], reference: str | None) -> Answer:
    """Return the fastest of these peers, with the best rival among all peers, which may be faster."""
    records = fastest_first(list(job.measured.values()))
    return _answer(job, [each for each in records if each.peer in peers], reference, set(), records)


def _answer(
    job: Job,
    records: list[Record],
    reference_name: str | None,
    careless: set[str],
    others: list[Record],
    among_copying: bool = False,
) -> Answer:
    """Return the answer for one job: the first of `records`, and its best rival among `others`. Both are sorted by
    their medians, fastest first."""
    if not records:
        return Answer(job, among_copying, None)
    winner = records[0]
    compared = {record.peer: record for record in others if record is not winner}
    runner_up = next((compared[peer] for peer in rivals(winner.peer, list(compared))), None)
    reference = job.shown.get(reference_name or "")
    ratios = speed_ups(winner, runner_up) if runner_up else {}
    return Answer(
        job=job,
        among_copying=among_copying,
        winner=winner.peer,
        figure=figure_of(winner),
        over_reference=ratio_of(winner, reference),
        reference=reference.peer if reference else None,
        runner_up=runner_up.peer if runner_up else None,
        runner_up_figure=figure_of(runner_up) if runner_up else None,
        over_runner_up=ratio_of(winner, runner_up),
        blocks_won=(sum(ratio > 1 for ratio in ratios.values()), len(ratios)) if ratios else None,
        keeps_references=winner.peer in careless,
    )
