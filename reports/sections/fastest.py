"""The fastest peer at each job, for each suite that ranks peers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from reports.figures.formatting import interval, scale_for
from reports.figures.ranking import WITHIN, Answer, answers_of
from reports.figures.ratios import Ratio
from reports.rendering import bold
from reports.sections.section import Context, Part
from reports.tables import notes
from results.statistics import Figure
from results.suites import suite_of
from results.verdicts import ENOUGH, MATTERS


def parts(context: Context) -> Iterator[Part]:
    rankings = []
    for name, jobs in context.ranking.items():
        suite, reference = suite_of(name), context.reference(suite_of(name))
        answers = answers_of(context.run, jobs, reference)
        rows = [_row(context, answer) for answer in answers]
        rankings.append(
            {
                "suite": suite,
                "reference": reference,
                "rows": rows,
                "signs": context.explained("".join(cell for row in rows for cell in row)),
                "has_copying": any(answer.among_copying for answer in answers),
            }
        )
    if rankings:
        kept, about = notes.KEEPS_REFERENCES, notes.APPROXIMATE
        values = {
            "rankings": rankings,
            "kept": (kept, notes.MEANINGS[kept]),
            "about": (about, notes.MEANINGS[about]),
            "enough": ENOUGH,
            "matters": MATTERS,
            "within": WITHIN,
        }
        yield Part("fastest", "fastest", "Fastest at what", values)


def _row(context: Context, answer: Answer) -> list[str]:
    job = answer.job
    figure = partial(_figure, job.unit)
    mark = notes.KEEPS_REFERENCES if answer.keeps_references else ""
    is_reference = answer.winner is not None and answer.winner == answer.reference
    return [
        job.workload,
        job.label + (" (copying)" if answer.among_copying else ""),
        bold(context.signed(answer.winner, mark)) if answer.winner else "",
        figure(answer.figure),
        "is the reference" if is_reference else _words(answer.over_reference),
        context.signed(answer.runner_up) if answer.runner_up else "",
        figure(answer.runner_up_figure),
        _words(answer.over_runner_up),
        answer.sureness,
    ]


def _figure(unit: str, figure: Figure | None) -> str:
    if figure is None:
        return ""
    scale = scale_for(unit, [figure.value])
    return f"{scale.of(figure)} {scale.unit} {interval(figure, scale.factor)}"


def _words(ratio: Ratio | None) -> str:
    return ratio.words if ratio else ""
