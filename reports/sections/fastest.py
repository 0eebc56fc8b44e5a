"""The fastest peer at each job, and the standings of all peers, for each suite that ranks peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from reports.figures.formatting import NOTHING, interval, scale_for
from reports.figures.ranking import WITHIN, Answer, Standing, answers_of, standings
from reports.figures.ratios import Ratio, figure_of
from reports.rendering import worded
from reports.sections.section import Context, Part, Section
from reports.tables import notes
from reports.tables.crowding import crowding_note, is_scaling
from results.jobs import Job
from results.statistics import Figure
from results.suites import Suite, suite_of
from results.verdicts import ENOUGH, MATTERS


@dataclass(frozen=True)
class AnswerRow:
    workload: str
    job: str
    fastest: str
    figure: str
    ratio: str  # to the reference
    reference: str  # its name and its own figure
    runner_up: str
    runner_up_ratio: str
    sureness: str
    clear: bool
    among_copying: bool


@dataclass(frozen=True)
class Ranking:
    """The answers and standings of one suite."""

    title: str
    reference: str | None
    note: str
    answers: Sequence[AnswerRow]
    answer_signs: Sequence[tuple[str, str]]
    standings: Sequence[tuple[str, Standing]]  # with the peer's name and signs


@dataclass(frozen=True)
class Fastest:
    rankings: Sequence[Ranking]
    copying_explained: str
    explained: str


def parts(context: Context) -> list[Part]:
    rankings = [_ranking(context, suite_of(name), jobs) for name, jobs in context.ranking.items()]
    if not rankings:
        return []
    note = partial(worded, "fastest_notes.j2")
    copying = note("copying", sign=notes.KEEPS_REFERENCES, meaning=notes.MEANINGS[notes.KEEPS_REFERENCES])
    limits = {"enough": ENOUGH, "matters": MATTERS, "within": WITHIN}
    explained = note("ratios", sign=notes.APPROXIMATE, meaning=notes.MEANINGS[notes.APPROXIMATE], **limits)
    return [Part("fastest", "fastest", "Fastest at what", Fastest(rankings, copying, explained))]


def _ranking(context: Context, suite: Suite, jobs: Sequence[Job]) -> Ranking:
    reference = context.reference(suite)
    answers = answers_of(context.run, jobs, reference)
    crowding = crowding_note(context.run, jobs) if is_scaling(jobs) else ""
    rows = [_answer_row(answer, context.signs) for answer in answers]
    return Ranking(
        title=suite.title,
        reference=reference,
        note=" ".join(filter(None, [_reference_note(reference, suite), crowding])),
        answers=rows,
        answer_signs=context.explained("".join(row.fastest + row.reference + row.runner_up for row in rows)),
        standings=[(context.signs[row.peer], row) for row in standings(context.run, jobs, answers, reference)],
    )


def _reference_note(reference: str | None, suite: Suite) -> str:
    """Return why ratios are not relative to the usual reference, or "" if they are."""
    if reference is None or reference == suite.reference:
        return ""
    return worded("fastest_notes.j2", "reference", usual=suite.reference, reference=reference)


def _answer_row(answer: Answer, unsafe: Mapping[str, str]) -> AnswerRow:
    def named(peer: str | None, mark: str = "") -> str:
        return f"{peer} {mark}{unsafe.get(peer or '', '')}".strip()

    job = answer.job
    reference = job.cells.get(answer.reference or "")
    mark = notes.KEEPS_REFERENCES if answer.keeps_references else ""
    return AnswerRow(
        workload=job.workload,
        job=job.label + (" (copying)" if answer.among_copying else ""),
        fastest=named(answer.winner, mark) if answer.winner else NOTHING,
        figure=_with_interval(answer.figure, job.unit) if answer.figure else NOTHING,
        ratio=_ratio(answer.over_reference)
        if answer.over_reference
        else "is the reference"
        if answer.winner and answer.winner == answer.reference
        else NOTHING,
        reference=f"{named(answer.reference)}, {_alone(figure_of(reference), job.unit)}" if reference else NOTHING,
        runner_up=f"{named(answer.runner_up)}, {_alone(answer.runner_up_figure, job.unit)}"
        if answer.runner_up and answer.runner_up_figure
        else NOTHING,
        runner_up_ratio=_ratio(answer.over_runner_up) if answer.over_runner_up else NOTHING,
        sureness=answer.sureness,
        clear=answer.clear,
        among_copying=answer.among_copying,
    )


def _with_interval(figure: Figure, unit: str) -> str:
    return f"{_alone(figure, unit)} {interval(figure, scale_for(unit, [figure.value]).factor)}"


def _alone(figure: Figure, unit: str) -> str:
    scale = scale_for(unit, [figure.value])
    return f"{scale.of(figure)} {scale.unit}"


def _ratio(ratio: Ratio) -> str:
    return f"{ratio.text} {ratio.interval}".strip()


SECTION = Section(parts)
