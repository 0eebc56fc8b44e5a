"""The verdicts as a table, in the terminal and in Markdown, and the sentence that sums them up."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from reports.figures import formatting
from reports.figures.formatting import counted, listed, percent
from reports.gate.rules import COUNTS, FALSE_ALARM
from reports.gate.verdict import FASTER, LESS_WORK, Verdict, Word

#: What needs a reader's attention comes first.
ORDER = (Word.REGRESSION, Word.CANT_TELL, Word.NOT_JUDGED, Word.PASS)
COLUMNS = ("benchmark", "base", "head", "unit", "change", "90% interval", "matters from", "pairs", "verdict", "")
TO_THE_RIGHT = {1, 2, 4, 5, 6, 7}


def in_order(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return sorted(verdicts, key=lambda each: ORDER.index(each.word))


def rows_of(verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Return the cells of each verdict, with those that need attention first. Above 0, a change is for the worse.

    Counts of work share a row if they have not changed, or could not be counted for the same reason: there are dozens.
    """
    rows, alike = [], defaultdict(list)
    for verdict in in_order(verdicts):
        is_loud = verdict.word in (Word.REGRESSION, Word.CANT_TELL) or verdict.note == LESS_WORK
        if verdict.job.suite == COUNTS.name and not is_loud:
            alike[verdict.word, verdict.note].append(verdict)
        else:
            rows.append(_row(verdict))
    return rows + [_shared_row(some) for some in alike.values()]


def _shared_row(verdicts: Sequence[Verdict]) -> list[str]:
    kinds = [kind.replace("_", " ") for kind in dict.fromkeys(verdict.job.benchmark for verdict in verdicts)]
    what = f"{len(verdicts)} counts of work: {listed(kinds)}"
    first = verdicts[0]
    if not first.pairs:
        return [what, "", "", "", "", "", "", "", first.word, first.note]
    largest = max(abs(verdict.change) for verdict in verdicts)
    return [what, "", "", "", f"at most {largest:.2%}", "counted", "", str(first.pairs), first.word, first.note]


def _row(verdict: Verdict) -> list[str]:
    if not verdict.pairs:
        return [verdict.job.full_label, "", "", verdict.job.unit, "", "", "", "", verdict.word, verdict.note]
    scale = formatting.scale_for(verdict.job.unit, [verdict.base, verdict.head])
    return [
        verdict.job.full_label,
        scale.number(verdict.base),
        scale.number(verdict.head),
        scale.unit,
        grown(verdict.change),
        " to ".join(map(_bound, verdict.bounds)) if verdict.differences else "counted",
        percent(verdict.rule.effect),
        str(verdict.pairs),
        verdict.word,
        verdict.note,
    ]


def grown(change: float) -> str:
    """Return a change as the table shows it; it is infinite if the count was 0."""
    return "was 0" if math.isinf(change) else percent(change)


def _bound(value: float) -> str:
    return percent(value) if math.isfinite(value) and abs(value) < 1e3 else "?"


def text(verdicts: Sequence[Verdict]) -> str:
    """Return aligned text; the figures are in the unit of their row."""
    rows = [list(COLUMNS), *rows_of(verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in TO_THE_RIGHT else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def markdown(verdicts: Sequence[Verdict], commands: Sequence[str]) -> str:
    """Return what a pull request shows: the verdict, what needs attention, and the rest folded away."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows_of(verdicts)]
    loud = [row for row in rows if row[8] != Word.PASS]
    quiet = [row for row in rows if row[8] == Word.PASS]
    parts = [f"**{sentence(verdicts)}**"]
    if loud:
        parts.append(_markdown_table(loud))
    if commands:
        parts.append("\n".join(["```", *commands, "```"]))
    if quiet:
        summary = f"<summary>{counted(len(quiet), 'benchmark')} passed</summary>"
        parts.append(f"<details>{summary}\n\n{_markdown_table(quiet)}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def _markdown_table(rows: Sequence[Sequence[str]]) -> str:
    rule = ["---:" if column in TO_THE_RIGHT else "---" for column in range(len(COLUMNS))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (COLUMNS, rule, *rows))


def sentence(verdicts: Sequence[Verdict]) -> str:
    """Return the gate's answer in one line."""
    judged = [verdict for verdict in verdicts if verdict.word is not Word.NOT_JUDGED]
    of_all = counted(len(judged), "benchmark")
    worse = [verdict for verdict in judged if verdict.word is Word.REGRESSION]
    unknown = [verdict for verdict in judged if verdict.word is Word.CANT_TELL]
    better = sum(verdict.note in (FASTER, LESS_WORK) for verdict in judged)
    gained = f"; {better} improved" if better else ""
    if worse:
        worst = max(worse, key=lambda verdict: (not verdict.pairs, verdict.change))
        by = f": {grown(worst.change)}" if worst.pairs else f": {worst.note}"
        return f"REGRESSION in {len(worse)} of {of_all}, worst {worst.job.full_label}{by}"
    if unknown:
        needed = "measure for longer, or on a quieter machine"
        return f"CAN'T TELL for {len(unknown)} of {of_all}, no regression in the others{gained}; {needed}"
    left_out = len(verdicts) - len(judged)
    lacking = f"; not judged: {counted(left_out, 'benchmark')} for which base has no figure" if left_out else ""
    promise = f"false alarms in timed ones: at most {FALSE_ALARM:.0%}"
    return f"PASS: {of_all}, none worse by as much as matters ({promise}){gained}{lacking}"
