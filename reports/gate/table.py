"""The verdicts as a table, in the terminal and in Markdown, and the sentence that sums them up."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from functools import partial

from reports.figures import formatting
from reports.figures.formatting import percent, span
from reports.rendering import table as markdown_table
from reports.rendering import worded
from results.analysis.rules import COUNTS, FALSE_ALARM
from results.analysis.verdict import FASTER, LESS_WORK, Verdict, Word
from results.record import first_line

#: The verdicts in the order of the table: those that need a reader's attention come first.
ORDER = (Word.REGRESSION, Word.CANT_TELL, Word.NOT_JUDGED, Word.PASS)
COLUMNS = ("verdict", "benchmark", "base", "head", "unit", "change", "90% interval", "matters from", "pairs", "")
TO_THE_RIGHT = {2, 3, 5, 6, 7, 8}
#: In the terminal, a table of these columns has at most WIDTH characters; notes follow in lines of their own.
IN_TEXT = (0, 1, 5, 6, 7, 8)
WIDTH = 100
said = partial(worded, "answer.j2")


def in_order(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return sorted(verdicts, key=lambda each: ORDER.index(each.word))


def rows_of(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Return the cells of each verdict, with those that need attention first. A change above 0 is for the worse.

    Counts of work share a row if they have not changed, or could not be counted for the same reason, because there are
    dozens of them. Benchmarks that head can no longer run share a row if the reason is the same, because they have one
    cause.
    """
    rows: list[list[str]] = []
    alike: dict[tuple[Word, str], list[Verdict]] = {}
    for verdict in in_order(verdicts):
        is_loud = verdict.word in (Word.REGRESSION, Word.CANT_TELL) or verdict.note == LESS_WORK
        if (verdict.job.suite == COUNTS and not is_loud) or verdict.is_lost:
            alike.setdefault((verdict.word, _cause_of(verdict)), []).append(verdict)
        else:
            rows.append(_row(verdict))
    shared = [_shared_row(some) if len(some) > 1 else _row(some[0]) for some in alike.values()]
    return sorted([*rows, *shared], key=lambda row: ORDER.index(Word(row[0])))


def _cause_of(verdict: Verdict) -> str:
    """Return the first line of the note without its numbers, which are specific to one benchmark."""
    return re.sub(r"\d[\d.,]*", "", first_line(verdict.note))


def _shared_row(verdicts: Sequence[Verdict]) -> list[str]:
    first, count = verdicts[0], len(verdicts)
    kinds = [kind.replace("_", " ") for kind in dict.fromkeys(verdict.job.benchmark for verdict in verdicts)]
    counts = all(verdict.job.suite == COUNTS for verdict in verdicts)
    what = said("alike", count=count, is_work=counts, kinds=kinds)
    if not first.pairs:
        return [first.word, what, "", "", "", "", "", "", "", first_line(first.note)]
    largest = max(abs(verdict.change) for verdict in verdicts)
    return [first.word, what, "", "", "", said("at_most", change=largest), "counted", "", str(first.pairs), first.note]


def _row(verdict: Verdict) -> list[str]:
    if not verdict.pairs:
        empty = ["", "", verdict.job.unit, "", "", "", ""]
        return [verdict.word, verdict.job.full_label, *empty, verdict.note]
    scale = formatting.scale_for(verdict.job.unit, [verdict.base, verdict.head])
    return [
        verdict.word,
        verdict.job.full_label,
        scale.number(verdict.base),
        scale.number(verdict.head),
        scale.unit,
        grown(verdict.change),
        _interval(verdict),
        percent(verdict.rule.effect),
        str(verdict.pairs),
        verdict.note,
    ]


def _interval(verdict: Verdict) -> str:
    if not verdict.differences:
        return "counted"
    if not all(math.isfinite(bound) and abs(bound) < 1e3 for bound in verdict.bounds):
        return "not yet known"
    return span(verdict.bounds, percent)


def grown(change: float) -> str:
    """Return a change as the table shows it; it is infinite if the count was 0."""
    return "was 0" if math.isinf(change) else percent(change)


def text(verdicts: Sequence[Verdict]) -> str:
    """Return aligned text of at most `WIDTH` columns, with each note below its row."""
    rows = [list(COLUMNS), *rows_of(verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    left = WIDTH - sum(2 + widths[column] for column in IN_TEXT if column != 1)
    labels = [textwrap.wrap(row[1], left, subsequent_indent="  ") for row in rows]
    widths[1] = max(len(line) for wrapped in labels for line in wrapped)
    lines = []
    for row, (label, *more) in zip(rows, labels, strict=True):
        cells = {**dict(enumerate(row)), 1: label}
        told = [
            cells[column].rjust(widths[column]) if column in TO_THE_RIGHT else cells[column].ljust(widths[column])
            for column in IN_TEXT
        ]
        indent = " " * (widths[0] + 2)
        below = [*more, *textwrap.wrap(row[-1], WIDTH - len(indent), initial_indent="  ", subsequent_indent="  ")]
        lines += ["  ".join(told).rstrip(), *(indent + line for line in below)]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def markdown(verdicts: Sequence[Verdict], commands: Sequence[str], answer: str) -> str:
    """Return the summary for a pull request: the answer, the verdicts that need attention, and the rest folded away."""
    rows = rows_of(verdicts)
    loud = [row for row in rows if row[0] != Word.PASS]
    quiet = [row for row in rows if row[0] == Word.PASS]
    parts = [f"**{answer}**"]
    if loud:
        parts.append(markdown_table(COLUMNS, loud).strip())
    if commands:
        parts.append("\n".join(["```", *commands, "```"]))
    if quiet:
        parts.append(said("folded", passed=len(quiet), table=markdown_table(COLUMNS, quiet).strip()))
    return "\n\n".join(parts) + "\n"


def sentence(verdicts: Sequence[Verdict]) -> str:
    """Return the gate's answer in one line."""
    judged = [verdict for verdict in verdicts if verdict.word is not Word.NOT_JUDGED]
    worse = [verdict for verdict in judged if verdict.word is Word.REGRESSION]
    worst = max(worse, key=lambda verdict: (not verdict.pairs, verdict.change), default=None)
    return said(
        "answer",
        judged=len(judged),
        lacking=len(verdicts) - len(judged),
        worse=len(worse),
        worst=worst,
        by=(grown(worst.change) if worst.pairs else worst.note) if worst else "",
        unknown=sum(verdict.word is Word.CANT_TELL for verdict in judged),
        better=sum(verdict.note in (FASTER, LESS_WORK) for verdict in judged),
        false_alarm=FALSE_ALARM,
    )
